package httpx

import (
	"net/http"
	"sync"
	"time"
)

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
