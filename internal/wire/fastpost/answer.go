package fastpost

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
)

// An answer is a request that is being answered. Its handler has it as the
// http.ResponseWriter: see response.go.
type answer struct {
	response
	c      *conn
	size   int                // of the request
	cancel context.CancelFunc // ends the request
	body   body
	url    url.URL                // of the request, which may change it
	place  httpframe.TimeoutEntry // until it is watched whether the client leaves

	mu       sync.Mutex
	over     bool          // the connection is not for this answer any more; guarded by mu
	watching chan struct{} // closed when watch ends; guarded by mu
	left     bool          // the client has left; guarded by mu
	onLeave  func()        // guarded by mu
}

// answer has the handler answer a request, and returns whether the connection continues.
func (c *conn) answer(q *request) int {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	a := &answer{c: c, size: q.size, cancel: cancel}
	r, err := a.request(ctx, q)
	if err != nil {
		return others
	}
	a.response.reset(c)
	_ = c.rwc.SetReadDeadline(time.Time{}) // or it is closed
	c.server.leaving.Add(&a.place, a)
	done := a.run(r)
	cancel()
	switch hijacks := a.release(); {
	case hijacks:
		return hijacked
	case !done || !a.complete():
		return ended
	}
	return proceed
}

// run calls the handler, and reports whether it has returned.
func (a *answer) run(r *http.Request) (done bool) {
	defer func() {
		if p := recover(); p != nil && p != any(http.ErrAbortHandler) {
			a.c.server.Log.Error("panic while answering a request", "client", a.c.remote, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	a.c.server.Handler.ServeHTTP(a, r)
	return true
}

// release takes the connection back from the answer and its request. It reports whether
// the handler has taken it.
func (a *answer) release() (hijacked bool) {
	_ = a.body.Close() // never fails
	a.mu.Lock()
	over := a.over
	a.over = true
	a.mu.Unlock()
	if !over {
		a.unwatch()
	}
	return over
}

// Expired watches whether the client leaves, because the request takes its time.
func (a *answer) Expired() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over || len(a.c.in) == cap(a.c.in) {
		return // it is no matter any more, or the client has sent more requests
	}
	a.watching = make(chan struct{})
	go a.watch() // ends when the client leaves or sends something, and with unwatch
}

// watch ends the request when its client leaves. It owns the connection's in as long as it
// reads.
func (a *answer) watch() {
	defer close(a.watching)
	err := a.c.read()
	a.mu.Lock()
	if err == nil || a.over {
		a.mu.Unlock()
		return
	}
	a.left = true
	f := a.onLeave
	a.mu.Unlock()
	a.cancel()
	if f != nil {
		f()
	}
}

// OnLeave has f called when the client leaves before the request is over. The context of
// the request says so too, but to wait for that costs more. An answer has one such f, which
// must not wait for anybody.
func (a *answer) OnLeave(f func()) {
	a.mu.Lock()
	left := a.left
	a.onLeave = f
	a.mu.Unlock()
	if left {
		f()
	}
}

// unwatch ends the watch. a.over is set.
func (a *answer) unwatch() {
	if a.c.server.leaving.Remove(&a.place) {
		return
	}
	a.mu.Lock()
	watching := a.watching
	a.mu.Unlock()
	if watching == nil {
		return
	}
	_ = a.c.rwc.SetReadDeadline(time.Unix(1, 0)) // or it is closed
	<-watching
	_ = a.c.rwc.SetReadDeadline(time.Time{}) // or it is closed
}

// SetReadDeadline is for http.ResponseController.
func (a *answer) SetReadDeadline(t time.Time) error { return a.set(a.c.rwc.SetReadDeadline, t) }

// SetWriteDeadline is for http.ResponseController.
func (a *answer) SetWriteDeadline(t time.Time) error { return a.set(a.c.rwc.SetWriteDeadline, t) }

// set sets a deadline, as long as the connection is for this answer.
func (a *answer) set(deadline func(time.Time) error, t time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return net.ErrClosed
	}
	return deadline(t)
}

// Hijack implements http.Hijacker.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	a.mu.Lock()
	over := a.over
	a.over = true
	a.mu.Unlock()
	if over {
		return nil, nil, http.ErrHijacked
	}
	a.unwatch()
	if a.status != 0 {
		_ = a.FlushError() // who takes the connection finds out
	}
	a.err = http.ErrHijacked
	c := a.c
	_ = c.rwc.SetDeadline(time.Time{}) // as above
	c.rwc.Unread(c.in[a.size:])
	return c.rwc, bufio.NewReadWriter(bufio.NewReader(c.rwc), bufio.NewWriter(c.rwc)), nil
}
