package mux

import "context"

// already is closed.
var already = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Drain refuses new requests from now on, ends listens in good order, and waits
// until what is under way has been answered and the answers are written. What we
// are told meanwhile counts: cancels, and answers to our questions. The error is
// that of ctx if it ended first. The conversation goes on until it is closed.
func (c *Conn) Drain(ctx context.Context) error {
	c.serve.refuse()
	c.serve.endListens()
	for _, over := range [...]func() <-chan struct{}{c.serve.whenIdle, c.out.whenEmpty} {
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

// refuse makes add refuse all from now on.
func (t *served) refuse() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.draining = true
}
