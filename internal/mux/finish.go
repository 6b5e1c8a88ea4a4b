package mux

import (
	"context"
	"time"
)

// finishWait is how long requests that were told to stop are waited for, so that the
// other side hears that they were lost.
const finishWait = 400 * time.Millisecond

// Finish takes no new requests and lets those under way end until ctx does. Then it
// tells the rest that they are lost, and waits a little for their answers. The error
// is that of ctx if there was a rest. The conversation goes on until it is closed.
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
