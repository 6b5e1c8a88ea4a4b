package manager

import "time"

// A breaker opens when too many starts within a window have ended badly. Then
// there is one trial each time that it has cooled down.
type breaker struct {
	max          int
	window, cool time.Duration

	bad   []time.Time // when those began that ended badly, within the window
	until time.Time   // closed to all but a trial until then; zero means that it is not open
}

// count notes that what began then has ended badly now.
func (b *breaker) count(began, now time.Time) {
	first := now.Add(-b.window)
	kept := b.bad[:0]
	for _, t := range b.bad {
		if t.After(first) {
			kept = append(kept, t)
		}
	}
	b.bad = kept
	if began.After(first) {
		b.bad = append(b.bad, began)
	}
	if b.open() || len(b.bad) >= b.max {
		b.until = now.Add(b.cool)
	}
}

// open tells whether there are trials only.
func (b *breaker) open() bool { return !b.until.IsZero() }

// try begins a trial.
func (b *breaker) try(now time.Time) {
	if b.open() {
		b.until = now.Add(b.cool)
	}
}

// close lets everybody in.
func (b *breaker) close() { b.bad, b.until = nil, time.Time{} }
