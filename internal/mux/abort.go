package mux

import "github.com/dragoman-mcp/dragoman"

// Abort cancels what the other side has asked and has no answer yet, which is then
// answered as lost. The conversation goes on: whoever ends it should wait for the
// answers first, for a while.
func (c *Conn) Abort() {
	c.serve.mu.Lock()
	defer c.serve.mu.Unlock()
	for _, r := range c.serve.open {
		r.cancel(dragoman.ErrClosed)
	}
}
