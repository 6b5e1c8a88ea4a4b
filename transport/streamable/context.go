package streamable

import (
	"context"
	"sync"
	"time"
)

// A callContext is the context of one request: it ends with its parent, when the
// request is cancelled, and when it has been served. Most requests are served
// before anybody wants more of it than Done, so what else it needs is made on
// demand: package context's own cost more than many a request.
type callContext struct {
	parent context.Context
	reason error // why it ends when parent does; nil means parent's own

	// cancelledByParent says that the end of parent cancels this one too.
	cancelledByParent bool

	mu    sync.Mutex
	cause context.Context // has ended, and says why this one has; nil before
	done  chan struct{}   // nil as long as nobody wanted it
	after map[*func()]struct{}
	leave func() bool // takes it off parent; nil if it is not on it
}

var _ context.Context = (*callContext)(nil)

// servedContext is the end of a request that has been served.
var servedContext = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// end makes it end as another has, unless it has ended before.
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
	after, leave := c.after, c.leave
	c.after, c.leave = nil, nil
	c.mu.Unlock()
	for f := range after {
		(*f)()
	}
	if leave != nil {
		leave()
	}
}

// cancel ends it, for a reason.
func (c *callContext) cancel(reason error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(reason)
	c.end(ctx)
}

// follow ends it because parent has ended.
func (c *callContext) follow() {
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
		} else if !c.cancelledByParent || c.parent.Err() != nil {
			c.watch()
		}
	}
	return c.done
}

// watch has it end with parent. mu is held.
func (c *callContext) watch() {
	if c.leave == nil && c.cause == nil {
		c.leave = context.AfterFunc(c.parent, c.follow)
	}
}

// AfterFunc is what package context looks for in a context of another make, to
// have those end that are made of it. It has asked for Done before.
func (c *callContext) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		go f() // ends the context that is being made, whose maker must not wait for it
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

// ended returns what it has ended as, or nil. The end of parent counts at once
// and not in a moment, so that Cause says why.
func (c *callContext) ended() context.Context {
	c.mu.Lock()
	cause := c.cause
	c.mu.Unlock()
	if cause == nil && c.parent.Err() != nil {
		c.follow()
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

// Value implements context.Context: with the values of parent, except for the one
// that package context asks for why it has ended.
func (c *callContext) Value(key any) any {
	if cause := c.ended(); cause != nil {
		if v := cause.Value(key); v != nil {
			return v
		}
	}
	v := c.parent.Value(key)
	if _, ok := v.(context.Context); ok { // what parent ends with, as like as not
		v = context.WithoutCancel(c.parent).Value(key)
	}
	return v
}
