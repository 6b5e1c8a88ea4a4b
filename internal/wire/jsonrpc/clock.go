package jsonrpc

import (
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
)

// A CallClock limits how long one call may take: counted again from each progress, and
// not while the other side waits for a response from us. Calls has a clock of its own,
// which limits all its calls with one timer. A nil CallClock has no limit.
type CallClock struct {
	limit  time.Duration
	expire func(*dragoman.TimeoutError)
	timer  *time.Timer // guarded by mu

	mu      sync.Mutex
	began   time.Time
	until   time.Time // zero if there is no end; guarded by mu
	asked   int       // questions without an answer; guarded by mu
	paused  time.Time // since when there are any; guarded by mu
	renewed bool      // guarded by mu
}

// NewCallClock starts a clock, which calls expire when limit has passed, and whatever
// progress there is after atMost, not counting pauses. Zero means no maximum. It must
// be stopped.
func NewCallClock(limit, atMost time.Duration, expire func(*dragoman.TimeoutError)) *CallClock {
	c := &CallClock{limit: limit, expire: expire, began: time.Now()}
	if atMost > 0 {
		c.until = c.began.Add(max(atMost, limit))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer = time.AfterFunc(limit, c.fire)
	return c
}

// fire reports the limit, and not how late the timer was.
func (c *CallClock) fire() {
	c.mu.Lock()
	e := &dragoman.TimeoutError{After: c.limit, Renewed: c.renewed}
	if !c.until.IsZero() && !time.Now().Before(c.until) {
		e = &dragoman.TimeoutError{After: c.until.Sub(c.began)}
	}
	c.mu.Unlock()
	c.expire(e)
}

// Renew counts again from now, because there is progress.
func (c *CallClock) Renew() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.renew()
}

// renew is Renew for a caller that holds mu.
func (c *CallClock) renew() {
	if c.asked > 0 {
		return
	}
	next := c.limit
	if !c.until.IsZero() {
		next = min(next, time.Until(c.until))
	}
	c.renewed = true
	c.timer.Reset(next)
}

// Pause stops the clock while the other side waits for an answer. resume starts it again,
// when it has as many answers as there were calls of Pause.
func (c *CallClock) Pause() (resume func()) {
	if c == nil {
		return func() {}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked++; c.asked == 1 {
		c.paused = time.Now()
		c.timer.Stop()
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.asked--; c.asked == 0 {
			if !c.until.IsZero() {
				c.until = c.until.Add(time.Since(c.paused))
			}
			c.renew()
		}
	}
}

// Stop stops the clock for good.
func (c *CallClock) Stop() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++ // so that nothing starts it again
	c.timer.Stop()
}
