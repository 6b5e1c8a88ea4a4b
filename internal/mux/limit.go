package mux

import (
	"context"
	"fmt"
	"time"
)

// A limit is how long calls may take. One timer serves them all: it is set for
// the call that is due first, and calls that end before leave it alone, since to
// set it for each costs more than all else that is done for a call.
type limit struct {
	after time.Duration // zero means for ever
	timer *time.Timer
	armed bool // the timer runs; it stops when it finds no call
	asked int  // questions that may be of any call and have no answer
}

func (l *limit) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}

// LimitCalls sets how long the other side may take over a call, counted anew with
// each progress it makes, and not while it waits for an answer of ours. A call
// that takes longer is cancelled, and its error is [context.DeadlineExceeded]. A
// subscription has no limit. It is for calls that begin afterwards; zero means
// none, as before it is called.
func (c *Conn) LimitCalls(after time.Duration) {
	t := &c.calls
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limit.after = after
}

// begin makes a call due after the limit. mu is held.
func (t *calls) begin(k *call) {
	l := &t.limit
	if l.after <= 0 || t.ended != nil {
		return
	}
	k.due = time.Now().Add(l.after)
	switch {
	case l.armed:
		return
	case l.timer == nil:
		l.timer = time.AfterFunc(l.after, t.look)
	default:
		l.timer.Reset(l.after)
	}
	l.armed = true
}

// renew counts anew for a call that gets on.
func (t *calls) renew(k *call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !k.due.IsZero() && k.asked == 0 {
		t.begin(k)
	}
}

// pause stops counting for a call while the other side waits for an answer; resume
// counts anew when it waits no more.
func (t *calls) pause(k *call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k.asked++
}

func (t *calls) resume(k *call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k.asked--; k.asked == 0 && !k.due.IsZero() {
		t.begin(k)
	}
}

// pauseAll and resumeAll are pause and resume for a question that may be of any call.
func (t *calls) pauseAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limit.asked++
}

func (t *calls) resumeAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.limit.asked--; t.limit.asked > 0 {
		return
	}
	for _, k := range t.open {
		if !k.due.IsZero() {
			t.begin(k)
		}
	}
}

// look ends the calls that are due, and comes again for the next. Whoever made
// one tells the other side. Those that wait for an answer of ours set the timer
// when they have it.
func (t *calls) look() {
	var late []*call
	var next time.Time
	t.mu.Lock()
	now, l := time.Now(), &t.limit
	for _, k := range t.open {
		switch {
		case k.due.IsZero() || k.asked > 0 || l.asked > 0:
		case !k.due.After(now):
			late = append(late, k)
			k.due = time.Time{}
		case next.IsZero() || k.due.Before(next):
			next = k.due
		}
	}
	if l.armed = !next.IsZero(); l.armed {
		l.timer.Reset(next.Sub(now))
	}
	after := l.after
	t.mu.Unlock()
	for _, k := range late {
		k.answer(nil, fmt.Errorf("%w: the server gave none within %v", context.DeadlineExceeded, after))
	}
}
