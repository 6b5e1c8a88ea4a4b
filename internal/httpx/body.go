package httpx

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"sync"
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

// A guard makes the reading of a request fail when it takes too long. Unlike a
// deadline that is set each time, it costs no timer.
type guard struct {
	place Watched
	watch *Watch
	w     http.ResponseWriter

	mu   sync.Mutex
	over bool
}

// guards are those that nobody uses.
var guards = sync.Pool{New: func() any { return new(guard) }}

// guardReads returns a guard that ends with end. If the watch is nil, there is
// none, which is fine with end.
func guardReads(watch *Watch, w http.ResponseWriter) *guard {
	if watch == nil {
		return nil
	}
	g := guards.Get().(*guard)
	g.watch, g.w = watch, w
	watch.Add(&g.place, g)
	return g
}

// end ends the guard. The connection has no deadline then: net/http goes on
// reading to notice that the client leaves, and would take one for that.
func (g *guard) end() {
	switch {
	case g == nil:
	case g.watch.Remove(&g.place):
		g.watch, g.w = nil, nil
		guards.Put(g) // nobody else knows it
	default:
		g.mu.Lock()
		defer g.mu.Unlock()
		g.over = true
		_ = http.NewResponseController(g.w).SetReadDeadline(time.Time{})
	}
}

// Late lets the reading fail, unless it has ended. A writer without deadlines has
// no slow client.
func (g *guard) Late() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.over {
		_ = http.NewResponseController(g.w).SetReadDeadline(longAgo)
	}
}

// longAgo is a deadline that has passed on any clock.
var longAgo = time.Unix(1, 0)

// A Watch calls back what takes longer than it may. Whatever it watches may take
// equally long, so who came first is due first, and one timer serves them all: a
// timer for each request costs more than many a request.
type Watch struct {
	after time.Duration

	mu          sync.Mutex
	first, last *Watched
	timer       *time.Timer
	armed       bool // the timer runs; it stops when it finds nobody
}

// NewWatch returns a watch that allows everything this long.
func NewWatch(after time.Duration) *Watch { return &Watch{after: after} }

// A Watched is a place on a watch, part of whatever takes it. The zero value is
// on none, and it may be used again when it has been removed.
type Watched struct {
	late       interface{ Late() }
	due        time.Time
	prev, next *Watched
	on         bool
}

// Add begins to watch e. If it is not removed in time, late.Late is called, once,
// on another goroutine. It must not wait for anybody.
func (w *Watch) Add(e *Watched, late interface{ Late() }) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*e = Watched{late: late, due: time.Now().Add(w.after), prev: w.last, on: true}
	if w.last == nil {
		w.first = e
	} else {
		w.last.next = e
	}
	w.last = e
	switch {
	case w.armed:
		return
	case w.timer == nil:
		w.timer = time.AfterFunc(w.after, w.look)
	default:
		w.timer.Reset(w.after)
	}
	w.armed = true
}

// Remove ends the watch on e, and tells whether it was in time: if not, Late has
// been called, or will be in a moment.
func (w *Watch) Remove(e *Watched) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.take(e)
}

// take takes e off the list, if it is there. mu is held.
func (w *Watch) take(e *Watched) bool {
	if !e.on {
		return false
	}
	if e.prev == nil {
		w.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		w.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.prev, e.next, e.on = nil, nil, false
	return true
}

// look calls back those who are due, and comes again for the next.
func (w *Watch) look() {
	var due []interface{ Late() }
	w.mu.Lock()
	now := time.Now()
	for w.first != nil && !w.first.due.After(now) {
		due = append(due, w.first.late)
		w.take(w.first)
	}
	if w.armed = w.first != nil; w.armed {
		w.timer.Reset(w.first.due.Sub(now))
	}
	w.mu.Unlock()
	for _, late := range due {
		late.Late()
	}
}

// stop gives up the timer of a watch that nobody is on any more.
func (w *Watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.armed {
		w.timer.Stop()
		w.armed = false
	}
}
