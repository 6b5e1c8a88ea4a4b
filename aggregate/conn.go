package aggregate

import (
	"context"

	"github.com/dragoman-mcp/dragoman"
)

// Dial opens a conversation with a, in memory: calls run on the goroutine of who
// makes them. local is never asked or told anything, since nothing happens outside
// of calls.
func (a *Aggregate) Dial(context.Context, dragoman.Peer) (dragoman.Conn, error) {
	if a.ctx.Err() != nil {
		return nil, dragoman.ErrClosed
	}
	c := &conn{aggregate: a}
	c.over, c.end = context.WithCancelCause(a.ctx)
	c.cut, c.hangUp = context.WithCancelCause(context.Background())
	return c, nil
}

// A conn is a conversation with an Aggregate. When the Aggregate closes, it is
// over, but calls under way get their answers: subscriptions end in good order.
// When it is closed itself, they are cut.
type conn struct {
	aggregate *Aggregate
	over, cut context.Context
	end       context.CancelCauseFunc // of over
	hangUp    context.CancelCauseFunc // of cut
}

func (c *conn) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if err := c.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.cut, func() { cancel(dragoman.ErrClosed) })()
	return c.aggregate.Call(ctx, req, from)
}

func (c *conn) Notify(ctx context.Context, note *dragoman.Message) error {
	if err := c.Err(); err != nil {
		return err
	}
	return c.aggregate.Notify(ctx, note)
}

// Close ends the conversation. It does not wait for calls under way, which may be
// the ones that close it; their contexts are cancelled.
func (c *conn) Close() error {
	c.end(dragoman.ErrClosed)
	c.hangUp(dragoman.ErrClosed)
	return nil
}

func (c *conn) Done() <-chan struct{} { return c.over.Done() }

func (c *conn) Err() error { return context.Cause(c.over) }

// Correlates implements [dragoman.Correlator]: whoever is called is given from
// itself.
func (c *conn) Correlates() bool { return true }

// Hears implements [dragoman.Hearer]: nothing comes outside of calls.
func (c *conn) Hears() bool { return false }

var (
	_ dragoman.Correlator = (*conn)(nil)
	_ dragoman.Hearer     = (*conn)(nil)
)
