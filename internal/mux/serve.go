package mux

import (
	"context"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/rpc"
)

// handle takes a request and returns what serves it, or nil if it is refused.
// The answer goes to the batch that the request came in, if it is not nil.
func (c *Conn) handle(req *dragoman.Message, in *answers) func() {
	peer, parent, done := c.local, c.ctx, func() {}
	if c.askLocal.Load() {
		c.calls.PauseAll()
		done = c.calls.ResumeAll
	} else if k := c.owner(); k != nil {
		if ctx, answered, ok := k.Ask(c.ctx); ok {
			peer, parent, done = k.From(), ctx, answered
		}
	}
	r, refusal := c.requests.Begin(parent, req, c)
	if refusal != nil {
		c.counters.refused.Add(1)
		done()
		if in != nil {
			in.add(req.Fail(refusal))
		} else {
			c.mustSend(req.Fail(refusal))
		}
		c.releaseHeld(req)
		return nil
	}
	if in != nil {
		in.expect()
	}
	return func() {
		defer r.Done()
		resp := rpc.Serve(r.Context(), peer, req, r, c.opts.Logger)
		if resp != nil {
			c.learn(req, resp)
		}
		done()
		r.Free()
		switch {
		case in != nil:
			in.done(resp)
		case resp != nil:
			// Waits for room: this goroutine holds up nobody.
			_, _ = c.out.put(context.Background(), nil, resp, true)
		}
		c.releaseHeld(req)
	}
}

// AskLocal has every question of the server given to the local peer, who can tell
// better than we can which call it belongs to, and may take longer over it than the
// call takes. As long as one is open no call is taken to last too long.
func (c *Conn) AskLocal() { c.askLocal.Store(true) }

// Abort cancels what the other side has asked and has no answer yet, which is then
// answered as lost. The conversation goes on: whoever ends it should wait for the
// answers first, for a while.
func (c *Conn) Abort() { c.requests.CancelAll() }

// Drain refuses new requests from now on, ends listens in good order, and waits
// until what is under way has been answered and the answers are written. What we
// are told meanwhile counts: cancels, and answers to our questions. The error is
// that of ctx if it ended first. The conversation goes on until it is closed.
func (c *Conn) Drain(ctx context.Context) error {
	c.requests.Drain()
	c.requests.EndListens()
	for _, over := range [...]func() <-chan struct{}{c.requests.Idle, c.out.whenEmpty} {
		quiet := over()
		select {
		case <-quiet: // even if ctx has ended
			continue
		default:
		}
		select {
		case <-quiet:
		case <-c.done:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
