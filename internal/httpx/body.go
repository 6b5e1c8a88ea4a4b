package httpx

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman"
)

// firstRead is how much memory a body gets before its bytes have arrived,
// whatever its length is said to be.
const firstRead = 16 << 10

// ReadBody returns the JSON text that the request carries, in memory of its own.
// The limit is in bytes, as in [dragoman.Limits]; the timeout is for the whole
// body, and zero means none. The error is a *[Refusal]: 415 if the body is not
// declared as plain JSON in UTF-8, 413 if it is too large, 408 if it is too
// slow, 400 if it breaks off.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int, timeout time.Duration) ([]byte, error) {
	if timeout <= 0 {
		return ReadBodyOn(nil, w, r, limit)
	}
	watch := NewWatch(timeout)
	defer watch.stop()
	return ReadBodyOn(watch, w, r, limit)
}

// ReadBodyOn is ReadBody with a watch that many requests share, which says how
// long the body may take. It may be nil.
func ReadBodyOn(watch *Watch, w http.ResponseWriter, r *http.Request, limit int) ([]byte, error) {
	if err := checkType(r); err != nil {
		return nil, err
	}
	limit = dragoman.Limits{MaxMessage: limit}.Message()
	if r.ContentLength > int64(limit) {
		return nil, tooLarge(limit)
	}
	body := r.Body
	if r.ContentLength < 0 {
		body = http.MaxBytesReader(w, body, int64(limit)) // tells net/http that the rest is not wanted
	}
	g := guardReads(watch, w)
	text, err := readAll(body, r.ContentLength, limit)
	g.end()
	if err == nil {
		return text, nil
	}
	var large *http.MaxBytesError
	switch {
	case errors.Is(err, dragoman.ErrTooLarge), errors.As(err, &large):
		err = tooLarge(limit)
	case errors.Is(err, os.ErrDeadlineExceeded) && watch != nil:
		err = Refuse(http.StatusRequestTimeout, "the body did not arrive within %v", watch.after)
	case errors.Is(err, os.ErrDeadlineExceeded): // of the http.Server
		err = Refuse(http.StatusRequestTimeout, "the body did not arrive in time")
	default:
		err = Refuse(http.StatusBadRequest, "the body broke off after %d bytes", len(text))
	}
	return nil, err
}

func tooLarge(limit int) *Refusal {
	return Refuse(http.StatusRequestEntityTooLarge, "the body is larger than the limit of %d bytes", limit)
}

// readAll reads to the end, or to the byte behind the limit. size is the length
// that the sender claims, or -1: it saves growing further than that, but memory
// is only given to bytes that have come.
func readAll(r io.Reader, size int64, limit int) ([]byte, error) {
	room := int64(firstRead)
	if size >= 0 {
		room = min(room, size+1)
	}
	b := make([]byte, 0, room)
	for {
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case len(b) > limit:
			return b, dragoman.ErrTooLarge // whoever put its own body there claims less than it has
		case err == io.EOF:
			return b, nil
		case err != nil:
			return b, err
		}
		if len(b) == cap(b) {
			next := 2 * int64(cap(b))
			if size >= int64(len(b)) {
				next = min(next, size+1)
			}
			b = append(make([]byte, 0, next), b...)
		}
	}
}

// checkType tells whether the body is declared as JSON in UTF-8 as it is.
func checkType(r *http.Request) error {
	const want = "application/json"
	if len(r.Header["Content-Encoding"]) > 0 {
		return Refuse(http.StatusUnsupportedMediaType, "Content-Encoding is not supported: send the body as it is")
	}
	values := r.Header["Content-Type"]
	if len(values) != 1 {
		return Refuse(http.StatusUnsupportedMediaType, "Content-Type must be there once and be %s", want)
	}
	if values[0] == want {
		return nil
	}
	kind, params, err := mime.ParseMediaType(values[0])
	if err != nil || kind != want {
		return Refuse(http.StatusUnsupportedMediaType, "Content-Type is %q, not %s", clip(values[0]), want)
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return Refuse(http.StatusUnsupportedMediaType, "charset is %q, but JSON is UTF-8", clip(charset))
	}
	return nil
}
