package jsonrpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Requests is the table of what we were asked and have not answered.
type Requests struct {
	limit int

	mu       sync.Mutex
	open     map[dragoman.ID]*Request // by ID.Key
	draining bool                     // new ones are refused
	busy     int                      // requests that are not Done, and what has entered
	idle     chan struct{}            // closed when nothing is busy; nil while nobody waits
}

// NewRequests returns a table for so many requests at a time.
func NewRequests(limit int) *Requests {
	return &Requests{limit: limit, open: make(map[dragoman.ID]*Request)}
}

// A Request is one request of the other side that we serve. It is the from of the
// peer that answers it.
type Request struct {
	table  *Requests
	req    *dragoman.Message
	to     dragoman.Peer
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// Begin enters a request of the peer to, or returns why it is refused. Its context
// ends with parent, when it is cancelled, and when it is freed.
func (t *Requests) Begin(parent context.Context, req *dragoman.Message, to dragoman.Peer) (*Request, *dragoman.Error) {
	key := req.ID().Key()
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.draining:
		return nil, protocol.Draining()
	case t.open[key] != nil:
		return nil, protocol.IDInUse(req)
	case len(t.open) >= t.limit:
		return nil, protocol.Limited(protocol.LimitSession, fmt.Sprintf("%d requests are in flight already; wait for answers before you send more", t.limit), 0)
	}
	r := &Request{table: t, req: req, to: to}
	r.ctx, r.cancel = context.WithCancelCause(parent)
	t.open[key] = r
	t.busy++
	return r, nil
}

// Context ends when nobody waits for the answer any more.
func (r *Request) Context() context.Context { return r.ctx }

// Free ends the context and makes the id free again. It is called before the answer
// is sent, because the other side may use the id as soon as it has that.
func (r *Request) Free() {
	r.cancel(nil)
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	delete(r.table.open, r.req.ID().Key())
}

// Done says that the answer has been sent. Free comes before it.
func (r *Request) Done() { r.table.Leave() }

// Call asks the other side, from inside the request that it made.
func (r *Request) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	return r.to.Call(ctx, req, from)
}

// Notify tells the other side, unless it has cancelled the request: then it wants to
// hear no more of it.
func (r *Request) Notify(ctx context.Context, note *dragoman.Message) error {
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	return r.to.Notify(ctx, note)
}

// Cancel cancels the request with that id for the other side, and reports whether
// there is one.
func (t *Requests) Cancel(id dragoman.ID) bool {
	t.mu.Lock()
	r := t.open[id.Key()]
	t.mu.Unlock()
	if r != nil {
		r.cancel(dragoman.ErrCancelled)
	}
	return r != nil
}

// CancelAll cancels all requests, which are then answered as lost.
func (t *Requests) CancelAll() { t.cancelAll(false) }

// EndListens ends what would continue forever, in good order.
func (t *Requests) EndListens() { t.cancelAll(true) }

func (t *Requests) cancelAll(listens bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.open {
		if !listens || protocol.Lasts(r.req.Method()) {
			r.cancel(dragoman.ErrClosed)
		}
	}
}

// Drain refuses all requests that come from now on.
func (t *Requests) Drain() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.draining = true
}

// Enter counts something else that keeps the table from being idle, until Leave.
func (t *Requests) Enter() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy++
}

// TryEnter is Enter, unless twice as much as there may be requests is busy. It
// reports whether it has entered.
func (t *Requests) TryEnter() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy >= 2*t.limit {
		return false
	}
	t.busy++
	return true
}

// Leave ends what Enter began.
func (t *Requests) Leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy--
	if t.busy == 0 && t.idle != nil {
		close(t.idle)
		t.idle = nil
	}
}

// Idle returns what is closed when nothing is served.
func (t *Requests) Idle() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy == 0 {
		idle := make(chan struct{})
		close(idle)
		return idle
	}
	if t.idle == nil {
		t.idle = make(chan struct{})
	}
	return t.idle
}

// Wait returns when nothing is served, when stop is closed or after limit.
func (t *Requests) Wait(limit time.Duration, stop <-chan struct{}) { wait(t.Idle(), stop, limit) }

// Serve returns the answer of peer to a request, or nil if the other side has
// cancelled it, which ctx says. A peer that panics is logged.
func Serve(ctx context.Context, peer dragoman.Peer, req *dragoman.Message, from dragoman.Peer, log *slog.Logger) (resp *dragoman.Message) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("panic while serving a request", "method", req.Method(), "panic", p, "stack", string(debug.Stack()))
			resp = req.Fail(protocol.Panicked())
		}
	}()
	resp, err := peer.Call(ctx, req, from)
	if err != nil && protocol.Lasts(req.Method()) && errors.Is(context.Cause(ctx), dragoman.ErrClosed) {
		return protocol.EndOfListen(req)
	}
	return protocol.ResponseOf(ctx, req, resp, err)
}
