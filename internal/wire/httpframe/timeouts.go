package httpframe

import (
	"sync"
	"time"
)

// Timeouts call back what takes longer than it may. All timeouts of it are equally
// long, so the oldest is due first, and one timer serves them all: a timer for each
// request costs more than many a request.
type Timeouts struct {
	after time.Duration
	zero  time.Time // from which time is counted

	mu          sync.Mutex
	first, last *TimeoutEntry
	timer       *time.Timer
	armed       bool // the timer runs; it stops when the list is empty
}

// NewTimeouts returns timeouts of that length.
func NewTimeouts(after time.Duration) *Timeouts { return &Timeouts{after: after, zero: time.Now()} }

// A TimeoutEntry is one timeout of Timeouts, part of whatever it bounds. The zero value is
// not in use, and it may be used again when it has been removed.
type TimeoutEntry struct {
	owner      interface{ Expired() }
	began      time.Duration
	prev, next *TimeoutEntry
	listed     bool
}

// After returns how long they are.
func (t *Timeouts) After() time.Duration { return t.after }

// Add starts e. If it is not removed in time, owner.Expired is called, once, on
// another goroutine. It must not block.
func (t *Timeouts) Add(e *TimeoutEntry, owner interface{ Expired() }) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*e = TimeoutEntry{owner: owner, began: time.Since(t.zero), prev: t.last, listed: true}
	if t.last == nil {
		t.first = e
	} else {
		t.last.next = e
	}
	t.last = e
	switch {
	case t.armed:
		return
	case t.timer == nil:
		t.timer = time.AfterFunc(t.after, t.expire)
	default:
		t.timer.Reset(t.after)
	}
	t.armed = true
}

// Remove ends e, and reports whether it was in time: if not, Expired has been
// called, or will be in a moment.
func (t *Timeouts) Remove(e *TimeoutEntry) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.unlink(e)
}

// unlink takes e off the list, if it is there. mu is held.
func (t *Timeouts) unlink(e *TimeoutEntry) bool {
	if !e.listed {
		return false
	}
	if e.prev == nil {
		t.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		t.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.prev, e.next, e.listed = nil, nil, false
	return true
}

// expire calls back the owners of what is due, and sets the timer for the next.
func (t *Timeouts) expire() {
	var due []interface{ Expired() }
	t.mu.Lock()
	now := time.Since(t.zero)
	for t.first != nil && now-t.first.began >= t.after {
		due = append(due, t.first.owner)
		t.unlink(t.first)
	}
	if t.armed = t.first != nil; t.armed {
		t.timer.Reset(t.after - (now - t.first.began))
	}
	t.mu.Unlock()
	for _, owner := range due {
		owner.Expired()
	}
}
