package httpserver

import (
	"errors"
	"mime"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
)

// readBody returns the JSON text that the request carries, in memory of its own.
// The limit is in bytes, as in [dragoman.Limits]; timeouts says how long the whole
// body may take. The error is a *[Refusal]: 415 if the body is not declared as plain
// JSON in UTF-8, 413 if it is too large, 408 if it is too slow, 400 if it breaks off.
func readBody(timeouts *httpframe.Timeouts, w http.ResponseWriter, r *http.Request, limit int) ([]byte, error) {
	if err := checkType(r); err != nil {
		return nil, err
	}
	limit = dragoman.Limits{MaxMessage: limit}.Message()
	if r.ContentLength > int64(limit) {
		return nil, tooLarge(limit)
	}
	body := r.Body
	if r.ContentLength < 0 {
		body = http.MaxBytesReader(w, body, int64(limit)) // net/http then closes the connection
	}
	if b, ok := body.(interface{ Len() int }); !ok || int64(b.Len()) != r.ContentLength { // it has not come yet
		defer guardReads(timeouts, w).end()
	}
	text, err := httpframe.ReadAll(body, r.ContentLength, limit)
	if err == nil {
		return text, nil
	}
	var large *http.MaxBytesError
	refusal, refused := errors.AsType[*Refusal](err)
	switch {
	case refused: // of who has put another reader there
		return nil, refusal
	case errors.Is(err, dragoman.ErrTooLarge), errors.As(err, &large):
		err = tooLarge(limit)
	case errors.Is(err, os.ErrDeadlineExceeded) && timeouts.After() < httpframe.Forever:
		err = Refuse(http.StatusRequestTimeout, "the body did not arrive within %v", timeouts.After())
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

// checkType returns an error unless the body is declared as plain JSON in UTF-8.
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

// A readGuard makes the reading of a request fail when it takes too long. Unlike a
// deadline that is set each time, it costs no timer.
type readGuard struct {
	place    httpframe.TimeoutEntry
	timeouts *httpframe.Timeouts
	w        http.ResponseWriter

	mu   sync.Mutex
	over bool
}

// guards are those not in use.
var guards = sync.Pool{New: func() any { return new(readGuard) }}

// guardReads returns a guard that ends with end.
func guardReads(timeouts *httpframe.Timeouts, w http.ResponseWriter) *readGuard {
	g := guards.Get().(*readGuard)
	g.timeouts, g.w = timeouts, w
	timeouts.Add(&g.place, g)
	return g
}

// end ends the guard. The connection has no deadline then: net/http keeps
// reading to notice a disconnect, and would take a deadline for one.
func (g *readGuard) end() {
	if g.timeouts.Remove(&g.place) {
		g.timeouts, g.w = nil, nil
		guards.Put(g) // there is no other reference to it
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
	_ = http.NewResponseController(g.w).SetReadDeadline(time.Time{})
}

// Expired makes the reading fail, unless it has ended. A writer without deadlines
// has no slow client.
func (g *readGuard) Expired() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.over {
		_ = http.NewResponseController(g.w).SetReadDeadline(pastDeadline)
	}
}

// pastDeadline is a deadline that has passed on any clock.
var pastDeadline = time.Unix(1, 0)
