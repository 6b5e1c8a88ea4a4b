package httpx

import (
	"sync"
	"time"
)

// A Watch calls back what takes longer than it may. Whatever it watches may take
// equally long, so who came first is due first, and one timer serves them all: a
// timer for each request costs more than many a request.
type Watch struct {
	after time.Duration

	mu          sync.Mutex
	first, last *Watched
	timer       *time.Timer
	armed       bool // the timer runs; it stops when it finds nobody
}

// NewWatch returns a watch that allows everything this long.
func NewWatch(after time.Duration) *Watch { return &Watch{after: after} }

// A Watched is a place on a watch, part of whatever takes it. The zero value is
// on none, and it may be used again when it has been removed.
type Watched struct {
	late       interface{ Late() }
	due        time.Time
	prev, next *Watched
	on         bool
}

// Add begins to watch e. If it is not removed in time, late.Late is called, once,
// on another goroutine. It must not wait for anybody.
func (w *Watch) Add(e *Watched, late interface{ Late() }) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*e = Watched{late: late, due: time.Now().Add(w.after), prev: w.last, on: true}
	if w.last == nil {
		w.first = e
	} else {
		w.last.next = e
	}
	w.last = e
	switch {
	case w.armed:
		return
	case w.timer == nil:
		w.timer = time.AfterFunc(w.after, w.look)
	default:
		w.timer.Reset(w.after)
	}
	w.armed = true
}

// Remove ends the watch on e, and tells whether it was in time: if not, Late has
// been called, or will be in a moment.
func (w *Watch) Remove(e *Watched) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.take(e)
}

// take takes e off the list, if it is there. mu is held.
func (w *Watch) take(e *Watched) bool {
	if !e.on {
		return false
	}
	if e.prev == nil {
		w.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		w.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.prev, e.next, e.on = nil, nil, false
	return true
}

// look calls back those who are due, and comes again for the next.
func (w *Watch) look() {
	var due []interface{ Late() }
	w.mu.Lock()
	now := time.Now()
	for w.first != nil && !w.first.due.After(now) {
		due = append(due, w.first.late)
		w.take(w.first)
	}
	if w.armed = w.first != nil; w.armed {
		w.timer.Reset(w.first.due.Sub(now))
	}
	w.mu.Unlock()
	for _, late := range due {
		late.Late()
	}
}

// stop gives up the timer of a watch that nobody is on any more.
func (w *Watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.armed {
		w.timer.Stop()
		w.armed = false
	}
}
