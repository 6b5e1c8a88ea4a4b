package jsonrpc

import (
	"context"
	"time"
)

// finishWait is how long requests that were told to stop are waited for, so that the
// other side hears that they were lost.
const finishWait = 400 * time.Millisecond

// Finish takes no new requests and lets those in flight end until ctx does. Then it
// tells the rest that they are lost, and waits a little for their answers. The error
// is that of ctx if there was a rest. The conversation continues until it is closed.
func (c *Conn) Finish(ctx context.Context) error {
	err := c.Drain(ctx)
	if err == nil {
		return nil
	}
	c.Abort()
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishWait)
	defer cancel()
	_ = c.Drain(wait) // a request that is left does not stop when told to, or its client does not read
	return err
}

// Drain refuses new requests from now on, ends listens in good order, and waits
// until what is in flight has been answered and the answers are written. What we
// are told meanwhile counts: cancels, and answers to our questions. The error is
// that of ctx if it ended first. The conversation continues until it is closed.
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

// Abort cancels what the other side has asked and has no answer yet, which is then
// answered as lost. The conversation continues: the caller should wait for the
// answers for a while before it ends it.
func (c *Conn) Abort() { c.requests.CancelAll() }
