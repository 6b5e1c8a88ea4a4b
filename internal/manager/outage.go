package manager

import (
	"context"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/backoff"
)

// fail notes a failure of what began then; a zero time means that nothing had failed.
func (s *supervisor) fail(began time.Time, err error) {
	s.mu.Lock()
	text := ""
	if s.blame(began, err) {
		text = s.outlook()
	}
	s.mu.Unlock()
	if text != "" {
		s.up.event(EventFailed, nil, text)
	}
	s.changed.fire()
}

// blame is fail without telling. It reports whether this was not known. The caller
// holds mu.
func (s *supervisor) blame(began time.Time, err error) bool {
	if s.state == Stopped || s.failures > 0 && began.Before(s.failedAt) {
		return false // part of the failure that is known
	}
	now := time.Now()
	if began.IsZero() {
		began = now
	}
	s.last, s.failedAt = err, now
	s.failures++
	s.ever++
	_, asked, _ := statusOf(err)
	s.pause = max(s.set.backoff(s.failures), min(asked, MaxRetryAfter))
	s.next = now.Add(s.pause)
	s.breaker.count(began, now)
	if s.healthy() {
		s.on(troubled)
	} else {
		s.on(failed)
	}
	return true
}

// outlook says what happened last, and what comes next. The caller holds mu.
func (s *supervisor) outlook() string {
	wait := s.due(time.Now()).Round(time.Millisecond).String()
	if s.breaker.open() {
		return "it keeps failing and is left alone for " + wait + ": " + s.up.clean(s.last)
	}
	return "it is away, and tried again in " + wait + ": " + s.up.clean(s.last)
}

// recover notes that the server has answered what began then. What began before the
// last failure does not show that it is over. It reports whether the server was away.
// The caller holds mu.
func (s *supervisor) recover(began time.Time) (back bool) {
	s.met = true
	if s.failures > 0 && began.Before(s.failedAt) {
		return false
	}
	back = s.failures > 0
	s.failures = 0
	s.breaker.close()
	for c := range s.conns {
		c.faulty.Store(false)
	}
	if s.sick == 0 {
		s.on(answered)
	}
	return back
}

// healthy reports whether there is a conversation on which the server answers. The
// caller holds mu.
func (s *supervisor) healthy() bool {
	for c := range s.conns {
		if c.proven.Load() && !c.faulty.Load() && c.Err() == nil {
			return true
		}
	}
	return false
}

// due returns how long it takes until something may be tried. The caller holds mu.
func (s *supervisor) due(now time.Time) time.Duration {
	if s.failures == 0 {
		return 0
	}
	wait := s.next.Sub(now)
	if s.breaker.open() {
		wait = max(wait, s.breaker.until.Sub(now))
	}
	return wait
}

// pace waits until something may be tried, however long that is. It reports whether we
// have not been closed.
func (s *supervisor) pace() bool {
	for {
		changed := s.changed.wait()
		s.mu.Lock()
		wait := s.due(time.Now())
		if s.stopping {
			wait = time.Minute // or until it has stopped, which is told
		}
		s.mu.Unlock()
		if wait <= 0 || sleep(s.ctx, wait, changed) != nil {
			return s.ctx.Err() == nil
		}
	}
}

// reach waits until the server can be used. The error is a *dragoman.Error, or ctx
// ended. patience is how long to wait at most; zero means as long as is right.
func (s *supervisor) reach(ctx context.Context, patience time.Duration) error {
	if !s.attended || s.usable() {
		return nil // without anybody who starts it, its users find out
	}
	stand, err := s.up.admission.sit()
	if err != nil {
		return err
	}
	defer stand()
	began := time.Now()
	s.mu.Lock()
	before := s.ever
	if patience > 0 && s.state == Starting {
		began = s.starting // those who are in a hurry wait once, and not each of them anew
	}
	s.mu.Unlock()
	for {
		changed := s.changed.wait()
		if s.up.draining.Load() {
			return s.up.drained()
		}
		if s.usable() {
			return nil
		}
		left := s.prospect(began, before, patience)
		if left <= 0 {
			return s.turnedAway()
		}
		s.want()
		if err := sleep(ctx, left, changed); err != nil {
			return err
		}
	}
}

// usable reports whether requests can be given to the server.
func (s *supervisor) usable() bool {
	if s.calm.Load() {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == Ready || s.state == Degraded
}

// prospect returns how much longer it makes sense to wait for the server, for who came
// then, after so many failures.
func (s *supervisor) prospect(began time.Time, before int, patience time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	limit := MaxOutage
	if s.failures == 0 {
		limit = s.set.connect
	}
	if patience > 0 {
		limit = min(limit, patience)
	}
	left, due := began.Add(limit).Sub(now), s.due(now)
	switch {
	case s.state == Stopped, s.state != Starting && s.hopeless(now),
		s.ever-before >= s.set.attempts, due > 0 && s.breaker.open(), due > left:
		return 0
	}
	return left
}

// hopeless reports whether who comes now is turned away, and not made to wait: the
// server has not been there yet, and is not tried again soon. The caller holds mu.
func (s *supervisor) hopeless(now time.Time) bool {
	for c := range s.conns {
		if c.Err() == nil {
			return false
		}
	}
	return !s.met && s.pause > MaxPause && s.due(now) > 0
}

// turnsAway reports whether a list that is not known is not waited for.
func (s *supervisor) turnsAway() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	due := s.due(now)
	return due > 0 && (s.breaker.open() || s.hopeless(now) || due > MaxListWait)
}

// turnedAway is the error of who comes while the server is away.
func (s *supervisor) turnedAway() *dragoman.Error {
	r := refusal{Server: s.up.name, State: BackingOff, Stderr: s.up.logs.lastStderr()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil {
		r.Reason = s.up.clean(s.last)
	}
	return r.unavailable(s.due(time.Now()))
}

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

// open reports whether there are trials only.
func (b *breaker) open() bool { return !b.until.IsZero() }

// try begins a trial.
func (b *breaker) try(now time.Time) {
	if b.open() {
		b.until = now.Add(b.cool)
	}
}

// close lets everybody in.
func (b *breaker) close() { b.bad, b.until = nil, time.Time{} }

// backoff returns how long to wait after so many failures in a row.
func (s *settings) backoff(failures int) time.Duration {
	return backoff.Backoff{Min: s.min, Max: s.max}.Wait(failures)
}
