package jsonrpc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// LimitCalls sets how long the other side may take over a call, reset by
// each progress it makes, and not while it waits for an answer of ours. A call
// that takes longer is cancelled, and its error is [context.DeadlineExceeded]. A
// subscription has no limit. It is for calls that begin afterwards; zero means
// none, as before it is called.
func (c *Conn) LimitCalls(after time.Duration) { c.calls.SetTimeout(after, 0) }

// Call implements dragoman.Peer.
func (c *Conn) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	k, err := c.calls.Begin(req, from)
	if err != nil {
		return nil, err
	}
	mark, err := c.send(ctx, k)
	if err != nil {
		_, _ = k.Remove()
		k.Finish()
		return nil, err
	}
	resp, err := k.Wait(ctx, c.opts.Logger)
	if err != nil {
		if k.Abandon() && protocol.Cancellable(req) {
			_ = c.Notify(c.ctx, k.CancelNote(err.Error())) // nobody is left to be told
		}
	}
	k.Finish()
	if err != nil {
		return nil, err
	}
	c.out.wasRead(mark)
	c.learnRevision(req, resp)
	return k.Incoming(resp), nil
}

// send queues the request of a call, see put. It fails if the call ends while it
// waits for room.
func (c *Conn) send(ctx context.Context, k *Call) (mark uint64, err error) {
	interrupted := false
	for stop := k.Ready(); ; interrupted = true {
		mark, err = c.out.put(ctx, stop, k, false)
		if !errors.Is(err, errInterrupted) {
			break
		}
		_, over, failure := k.Outcome()
		if errors.Is(failure, context.DeadlineExceeded) {
			// Nothing of it has left, so it may be sent again.
			return 0, fmt.Errorf("%w: the other side does not read what it is sent", dragoman.ErrOverloaded)
		}
		if failure != nil {
			return 0, failure
		}
		if over {
			stop = nil // it is sent even if it has an answer already
		}
	}
	if interrupted {
		k.Wake() // what has come is still to be taken
	}
	return mark, err
}

// errInterrupted says that put was stopped.
var errInterrupted = errors.New("jsonrpc: stopped waiting for room")

// Notify implements dragoman.Peer. It does not wait: see the package's limits.
func (c *Conn) Notify(_ context.Context, note *dragoman.Message) error {
	full, err := c.out.offer(note)
	if full {
		c.end(dragoman.ErrSlow)
		return c.Err()
	}
	return err
}

// handle takes a request and returns what serves it, or nil if it is refused.
// The answer goes to the batch that the request came in, if it is not nil.
func (c *Conn) handle(req *dragoman.Message, in *batchReply) func() {
	peer, parent, done := c.local, c.ctx, func() {}
	if c.askLocal.Load() {
		c.calls.PauseAll()
		done = c.calls.ResumeAll
	} else if k := c.onlyCall(); k != nil {
		if ctx, answered, ok := k.Ask(c.ctx); ok {
			peer, parent, done = k.From(), ctx, answered
		}
	}
	r, refusal := c.requests.Begin(parent, req, c)
	if refusal != nil {
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
		resp := Serve(r.Context(), peer, req, r, c.opts.Logger)
		if resp != nil {
			c.learnRevision(req, resp)
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

// onlyCall returns the call that a request of a server belongs to, or nil: the only one
// in flight, because a pipe does not say which. A client's requests are no part of what
// we asked it.
func (c *Conn) onlyCall() *Call {
	if c.opts.Server {
		return nil
	}
	return c.calls.Only()
}

// AskLocal has every question of the server given to the local peer, who can tell
// better than we can which call it belongs to, and may take longer over it than the
// call takes. As long as one is open no call is taken to last too long.
func (c *Conn) AskLocal() { c.askLocal.Store(true) }
