package streamable

import (
	"context"
	"sync"
	"time"
)

// A callContext is the context of one request: it ends with its parent, when the
// request is cancelled, and when it has been served. Most requests are served
// before anybody waits for that, so what waiting needs is made on demand.
type callContext struct {
	parent context.Context
	reason error // why it ends when parent does; nil means parent's own

	mu    sync.Mutex
	inner context.Context // nil as long as nobody wanted more than Err
	end   context.CancelCauseFunc
	leave func() bool // takes inner off parent
	over  bool        // it has been served
}

var _ context.Context = (*callContext)(nil)

// make returns the context that does the work.
func (c *callContext) make() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inner == nil {
		c.inner, c.end = context.WithCancelCause(context.WithoutCancel(c.parent))
		if c.over {
			c.end(nil)
		} else {
			c.leave = context.AfterFunc(c.parent, c.follow)
		}
	}
	return c.inner
}

// follow ends it because parent has ended.
func (c *callContext) follow() {
	reason := c.reason
	if reason == nil {
		reason = context.Cause(c.parent)
	}
	c.cancel(reason)
}

// cancel ends it, for a reason.
func (c *callContext) cancel(reason error) {
	c.make()
	c.end(reason)
}

// close says that the request has been served.
func (c *callContext) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.inner != nil {
		c.leave()
		c.end(nil)
	}
}

// Deadline implements context.Context. There is none: whoever asks says how long
// it waits.
func (c *callContext) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements context.Context.
func (c *callContext) Done() <-chan struct{} { return c.make().Done() }

// Value implements context.Context, with the values of parent.
func (c *callContext) Value(key any) any { return c.make().Value(key) }

// Err implements context.Context.
func (c *callContext) Err() error {
	c.mu.Lock()
	fresh := c.inner == nil && !c.over
	c.mu.Unlock()
	if c.parent.Err() != nil {
		c.follow() // now and not in a moment, so that Cause says why
	} else if fresh {
		return nil
	}
	return c.make().Err()
}
