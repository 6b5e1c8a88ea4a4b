package streamable

import (
	"context"
	"sync"
	"time"
)

// A callContext is the context of one request: it ends with its parent, when the
// request is cancelled, and when it has been served. Most requests are served
// before anybody asks for more of it than Done, so what else it needs is made on
// demand: a context of package context costs more than many requests do.
type callContext struct {
	parent context.Context
	reason error // why it ends when parent does; nil means parent's own

	// cancelledWithParent says that who ends parent also cancels this context, as
	// session.endHere and Exchange.OnLeave do, so that Done need not watch parent.
	cancelledWithParent bool

	mu        sync.Mutex
	cause     context.Context // ended; has the Err and Cause of this one; nil until it ends
	done      chan struct{}   // nil until Done is called
	after     map[*func()]struct{}
	stopWatch func() bool // see watch; nil if parent is not watched
}

var _ context.Context = (*callContext)(nil)

// servedContext is the cause of a request's context when it has been served.
var servedContext = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// end ends the context with the Err and Cause of another, unless it has ended before.
func (c *callContext) end(as context.Context) {
	c.mu.Lock()
	if c.cause != nil {
		c.mu.Unlock()
		return
	}
	c.cause = as
	if c.done != nil {
		close(c.done)
	}
	after, stop := c.after, c.stopWatch
	c.after, c.stopWatch = nil, nil
	c.mu.Unlock()
	for f := range after {
		(*f)()
	}
	if stop != nil {
		stop()
	}
}

// cancel ends the context for a reason.
func (c *callContext) cancel(reason error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(reason)
	c.end(ctx)
}

// endWithParent ends the context because parent has ended.
func (c *callContext) endWithParent() {
	reason := c.reason
	if reason == nil {
		reason = context.Cause(c.parent)
	}
	c.cancel(reason)
}

// close says that the request has been served.
func (c *callContext) close() { c.end(servedContext) }

// Deadline implements context.Context. There is none: the caller knows how long
// it waits.
func (c *callContext) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements context.Context.
func (c *callContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.cause != nil {
			close(c.done)
		} else if !c.cancelledWithParent || c.parent.Err() != nil {
			c.watch()
		}
	}
	return c.done
}

// watch makes the context end with parent. mu is held.
func (c *callContext) watch() {
	if c.stopWatch == nil && c.cause == nil {
		c.stopWatch = context.AfterFunc(c.parent, c.endWithParent)
	}
}

// AfterFunc is the method that package context looks for in contexts that are not its
// own, to end their children. Package context calls Done before it.
func (c *callContext) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		go f() // it ends a child that is being made, by a caller who holds its lock
		return func() bool { return false }
	}
	if c.after == nil {
		c.after = make(map[*func()]struct{})
	}
	c.after[&f] = struct{}{}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, on := c.after[&f]
		delete(c.after, &f)
		return on
	}
}

// ended returns the cause, or nil if the context has not ended. It ends the context
// if parent has ended and nobody has done so yet, so that Cause says why.
func (c *callContext) ended() context.Context {
	c.mu.Lock()
	cause := c.cause
	c.mu.Unlock()
	if cause == nil && c.parent.Err() != nil {
		c.endWithParent()
		c.mu.Lock()
		cause = c.cause
		c.mu.Unlock()
	}
	return cause
}

// Err implements context.Context.
func (c *callContext) Err() error {
	if cause := c.ended(); cause != nil {
		return cause.Err()
	}
	return nil
}

// Value implements context.Context. The values are those of parent, except for the key
// by which package context finds the context that ends, see Cause.
func (c *callContext) Value(key any) any {
	if cause := c.ended(); cause != nil {
		if v := cause.Value(key); v != nil {
			return v
		}
	}
	v := c.parent.Value(key)
	if _, ok := v.(context.Context); ok { // probably that key: parent's own cancellation
		v = context.WithoutCancel(c.parent).Value(key)
	}
	return v
}
