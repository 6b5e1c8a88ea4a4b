package mux

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/rpc"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// NewID is [rpc.NewID].
func NewID[Call any](open map[int64]Call) int64 { return rpc.NewID(open) }

// LimitCalls sets how long the other side may take over a call, counted anew with
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
	k, err := c.calls.Begin(req, from, nil)
	if err != nil {
		return nil, err
	}
	mark, err := c.send(ctx, k)
	if err != nil {
		k.Remove()
		k.Finish()
		return nil, err
	}
	resp, err := k.Wait(ctx, c.opts.Logger)
	if err != nil && k.Remove() && protocol.Cancellable(req) {
		_ = c.Notify(c.ctx, k.CancelNote(err.Error())) // nobody is left to be told
	}
	k.Finish()
	if err != nil {
		return nil, err
	}
	c.out.wasRead(mark)
	c.learn(req, resp)
	return k.Incoming(resp), nil
}

// send queues the request of a call, see put. It fails if the call ends while it
// waits for room.
func (c *Conn) send(ctx context.Context, k *rpc.Call) (mark uint64, err error) {
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
var errInterrupted = errors.New("mux: stopped waiting for room")

// Notify implements dragoman.Peer. It does not wait: see the package's limits.
func (c *Conn) Notify(_ context.Context, note *dragoman.Message) error {
	full, err := c.out.offer(note)
	if full {
		c.end(dragoman.ErrSlow)
		return c.Err()
	}
	return err
}
