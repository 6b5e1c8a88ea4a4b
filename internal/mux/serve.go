package mux

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// served is the table of what we were asked and have not answered.
type served struct {
	mu       sync.Mutex
	open     map[dragoman.ID]*request // by ID.Key
	draining bool                     // new ones are refused
	busy     int                      // goroutines that serve, and the hold
	idle     chan struct{}            // closed when nothing is busy; nil while nobody waits
}

// A request is one request of the other side that we serve. It is the from of
// the peer that answers it.
type request struct {
	conn   *Conn
	req    *dragoman.Message
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// handle takes a request and returns what serves it, or nil if it is refused.
// The answer goes to the batch that the request came in, if it is not nil.
func (c *Conn) handle(req *dragoman.Message, in *answers) func() {
	peer, parent, done := c.local, c.ctx, func() {}
	if c.askLocal.Load() {
		c.calls.pauseAll()
		done = c.calls.resumeAll
	} else if k := c.owner(); k != nil {
		if ctx, ok := k.ask(c.ctx); ok {
			c.calls.pause(k)
			peer, parent = k.from, ctx
			done = func() {
				c.calls.resume(k)
				k.asks.Done()
			}
		}
	}
	r := &request{conn: c, req: req}
	r.ctx, r.cancel = context.WithCancelCause(parent)
	if refusal := c.serve.add(r, c.opts.MaxCalls); refusal != nil {
		c.counters.refused.Add(1)
		r.cancel(nil)
		done()
		if in != nil {
			in.add(req.Fail(refusal))
		} else {
			c.mustSend(req.Fail(refusal))
		}
		c.release(req)
		return nil
	}
	if in != nil {
		in.expect()
	}
	return func() {
		defer c.serve.leave()
		resp := r.serve(peer)
		done()
		r.cancel(nil)
		c.serve.remove(r) // first: its id is free as soon as the answer is out
		switch {
		case in != nil:
			in.done(resp)
		case resp != nil:
			// Waits for room: this goroutine holds up nobody.
			_, _ = c.out.put(context.Background(), nil, resp, true)
		}
		c.release(req)
	}
}

// AskLocal has every question of the server given to the local peer, who can tell
// better than we can which call it belongs to, and may take longer over it than the
// call takes. As long as one is open no call is taken to last too long.
func (c *Conn) AskLocal() { c.askLocal.Store(true) }

// serve returns the answer of peer, or nil if the request was cancelled.
func (r *request) serve(peer dragoman.Peer) (resp *dragoman.Message) {
	defer func() {
		if p := recover(); p != nil {
			r.conn.opts.Logger.Error("panic while serving a request",
				"method", r.req.Method(), "panic", p, "stack", string(debug.Stack()))
			resp = r.req.Fail(protocol.Panicked())
		}
	}()
	resp, err := peer.Call(r.ctx, r.req, r)
	if err != nil && r.req.Method() == protocol.MethodListen && errors.Is(context.Cause(r.ctx), dragoman.ErrClosed) {
		return protocol.EndOfListen(r.req)
	}
	if resp = protocol.ResponseOf(r.ctx, r.req, resp, err); resp != nil {
		r.conn.learn(r.req, resp)
	}
	return resp
}

// Call asks the other side, from inside the request that it made.
func (r *request) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	return r.conn.Call(ctx, req, from)
}

// Notify tells the other side, unless it has cancelled the request: then it
// wants to hear no more of it.
func (r *request) Notify(ctx context.Context, note *dragoman.Message) error {
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	return r.conn.Notify(ctx, note)
}

func (t *served) add(r *request, limit int) *dragoman.Error {
	key := r.req.ID().Key()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.draining {
		return protocol.Draining()
	}
	if t.open[key] != nil {
		return protocol.IDInUse(r.req)
	}
	if len(t.open) >= limit {
		return protocol.Overloaded(fmt.Sprintf("%d requests are under way already; wait for answers before you send more", limit))
	}
	t.open[key] = r
	t.busy++
	return nil
}

// enter and leave count what keeps a conversation from being idle.
func (t *served) enter() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy++
}

func (t *served) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy--
	if t.busy == 0 && t.idle != nil {
		close(t.idle)
		t.idle = nil
	}
}

func (t *served) remove(r *request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, r.req.ID().Key())
}

// stop cancels the request with that id, and tells whether there is one.
func (t *served) stop(id dragoman.ID) bool {
	t.mu.Lock()
	r := t.open[id.Key()]
	t.mu.Unlock()
	if r != nil {
		r.cancel(dragoman.ErrCancelled)
	}
	return r != nil
}

// endListens ends what would go on for ever, in good order.
func (t *served) endListens() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.open {
		if r.req.Method() == protocol.MethodListen {
			r.cancel(dragoman.ErrClosed)
		}
	}
}

// whenIdle returns what is closed when nothing is served.
func (t *served) whenIdle() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy == 0 {
		return already
	}
	if t.idle == nil {
		t.idle = make(chan struct{})
	}
	return t.idle
}

// wait returns when nothing is served, when stop is closed or after limit.
func (t *served) wait(limit time.Duration, stop <-chan struct{}) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-t.whenIdle():
	case <-stop:
	case <-timer.C:
	}
}
