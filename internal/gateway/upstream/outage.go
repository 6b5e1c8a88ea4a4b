package upstream

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/retry"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// fail notes a failure of what began then; a zero time means that nothing had failed.
func (s *supervisor) fail(began time.Time, err error) {
	s.mu.Lock()
	text := ""
	if s.recordFailure(began, err) {
		text = s.retryHint()
	}
	s.mu.Unlock()
	if text != "" {
		s.up.event(eventFailed, nil, text)
	}
	s.changed.fire()
}

// recordFailure is fail without telling. It reports whether this was not known. The caller
// holds mu.
func (s *supervisor) recordFailure(began time.Time, err error) bool {
	if s.state == Stopped || s.failures > 0 && began.Before(s.failedAt) || isSignIn(err) && began.Before(s.signedInAt) {
		return false // part of the failure that is known, or over
	}
	now := time.Now()
	if began.IsZero() {
		began = now
	}
	again := s.awaitsSignIn() && isSignIn(err)
	s.last, s.failedAt = err, now
	s.up.waiting.Store(false)
	s.failures++
	s.totalFailures++
	_, asked, _ := statusOf(err)
	asked = min(asked, MaxRetryAfter)
	s.pause = max(s.set.backoff(s.failures), asked)
	s.next, s.leftAlone = now.Add(s.pause), now.Add(asked)
	if !isShortage(err) {
		s.breaker.count(began, now)
	}
	switch {
	case isSignIn(err):
		s.on(unauthorized)
	case s.healthy():
		s.on(troubled)
	default:
		s.on(failed)
	}
	return !again // it has been told
}

// isShortage reports whether a process could not be started because we, or the machine, have no
// more files, processes or memory. That says nothing about the server, and may be over at once.
func isShortage(err error) bool {
	for _, number := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN, syscall.ENOMEM} {
		if errors.Is(err, number) {
			return true
		}
	}
	return false
}

// awaitsSignIn reports whether the server was last seen to want a sign-in. The caller holds mu.
func (s *supervisor) awaitsSignIn() bool { return s.failures > 0 && isSignIn(s.last) }

// retryHint says what happened last, and what comes next. The caller holds mu.
func (s *supervisor) retryHint() string {
	wait := s.due(time.Now()).Round(time.Millisecond).String()
	if s.state == SignIn {
		return s.up.signInHint(s.last)
	}
	if s.breaker.open() {
		return "server keeps failing, no attempts for " + wait + ": " + s.up.redactError(s.last)
	}
	if !s.supervised { // the next request is the next attempt, if there is one
		return "server is down: " + s.up.redactError(s.last)
	}
	return "server is down, next attempt in " + wait + ": " + s.up.redactError(s.last)
}

// recover notes that the server has answered what began then. What began before the
// last failure does not show that it is over. It reports whether the server was away.
// The caller holds mu.
func (s *supervisor) recover(began time.Time) (back bool) {
	s.hasAnswered = true
	if s.failures > 0 && began.Before(s.failedAt) {
		return false
	}
	back = s.failures > 0
	s.failures = 0
	s.breaker.close()
	for c := range s.conns {
		c.faulty.Store(false)
	}
	if s.failedChecks == 0 {
		s.on(answered)
	}
	return back
}

// healthy reports whether there is a conversation on which the server answers. The
// caller holds mu.
func (s *supervisor) healthy() bool {
	for c := range s.conns {
		if c.hasAnswered.Load() && !c.faulty.Load() && c.Err() == nil {
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

// hurry has an unavailable server behind a URL tried now, on behalf of a request: that costs
// little, and it may be back. An attempt that is pending, or has failed within the shortest
// pause, is enough, and a server that asked to be left alone is.
func (s *supervisor) hurry() {
	if s.stable.Load() || s.set.process {
		return
	}
	s.mu.Lock()
	now := time.Now()
	early := s.state != Stopped && !s.awaitsSignIn() && s.due(now) > 0 &&
		!s.tries() && now.Sub(s.failedAt) >= s.set.min && !now.Before(s.leftAlone)
	if early {
		s.release()
	}
	s.mu.Unlock()
	if early {
		s.changed.fire()
	}
}

// tries reports whether an attempt is pending that began after the last failure. The caller
// holds mu.
func (s *supervisor) tries() bool {
	if s.state == Starting || len(s.dialing) > 0 {
		return true
	}
	for c := range s.conns {
		if c.Err() == nil && !c.hasAnswered.Load() && !c.opened.Before(s.failedAt) {
			return true
		}
	}
	return false
}

// waitForAttempt waits until something may be tried, however long that is. It reports whether we
// have not been closed.
func (s *supervisor) waitForAttempt() bool {
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

// waitUsable waits until the server can be used. The error is a *dragoman.Error, or ctx
// ended. maxWait is how long to wait at most; zero means as long as is right.
func (s *supervisor) waitUsable(ctx context.Context, maxWait time.Duration) error {
	if !s.supervised || s.usable() {
		return nil // without anybody who starts it, its users find out
	}
	leave, err := s.up.admission.enqueue()
	if err != nil {
		return err
	}
	defer leave()
	s.hurry()
	began := time.Now()
	s.mu.Lock()
	before := s.totalFailures
	if maxWait > 0 && s.state == Starting {
		began = s.starting // those who are in a hurry wait once, and not each of them again
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
		left := s.waitBudget(began, before, maxWait)
		if left <= 0 {
			return s.unavailable()
		}
		s.want()
		if err := sleep(ctx, left, changed); err != nil {
			return err
		}
	}
}

// usable reports whether requests can be given to the server.
func (s *supervisor) usable() bool {
	if s.stable.Load() {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == Ready || s.state == Degraded
}

// waitBudget returns how much longer it makes sense to wait for the server, for who came
// then, after so many failures.
func (s *supervisor) waitBudget(began time.Time, before int, maxWait time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	limit := MaxOutage
	if s.failures == 0 {
		limit = s.set.connect
	}
	if maxWait > 0 {
		limit = min(limit, maxWait)
	}
	left, due := began.Add(limit).Sub(now), s.due(now)
	if !s.set.process && s.tries() {
		due = 0 // the pause that has begun is for what follows this attempt
	}
	switch {
	case s.state == Stopped, s.awaitsSignIn(), s.state != Starting && s.failsFast(now),
		s.totalFailures-before >= s.set.attempts, due > 0 && s.breaker.open(), due > left:
		return 0
	}
	return left
}

// failsFast reports whether who comes now is turned away, and not made to wait: the
// server has not been there yet, and is not tried again soon. The caller holds mu.
func (s *supervisor) failsFast(now time.Time) bool {
	goesOn := func(c *conn) bool { return !c.opened.Before(s.failedAt) } // after a part of the attempt has failed
	for c := range s.dialing {
		if goesOn(c) {
			return false
		}
	}
	for c := range s.conns {
		if c.Err() == nil && goesOn(c) {
			return false
		}
	}
	return !s.hasAnswered && s.pause > MaxPause && s.due(now) > 0
}

// refusesLists reports whether a list that is not known is not waited for.
func (s *supervisor) refusesLists() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	due := s.due(now)
	return s.awaitsSignIn() || due > 0 && (s.breaker.open() || s.failsFast(now) || due > MaxListWait)
}

// unavailable is the error of who comes while the server is away.
func (s *supervisor) unavailable() *dragoman.Error {
	r := refusal{Server: s.up.name, State: BackingOff, Stderr: s.up.logs.lastStderr()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if isSignIn(s.last) {
		return s.up.signInNeeded(s.last)
	}
	if s.last != nil {
		r.Reason = s.up.reasonFor(s.last)
	}
	if exit, ok := errors.AsType[*stdio.ExitError](s.last); ok && exit.Stderr != "" {
		r.Stderr = s.up.redact(nil, exit.Stderr)
	}
	return r.unavailable(s.due(time.Now()))
}

// A breaker opens when too many starts within a window have ended badly. Then
// there is one trial each time that it has cooled down.
type breaker struct {
	max              int
	window, cooldown time.Duration

	bad   []time.Time // when those began that ended badly, within the window
	until time.Time   // closed to all but a trial until then; zero means that it is not open
}

// count notes that what began then has ended badly now.
func (b *breaker) count(began, now time.Time) {
	first := now.Add(-b.window)
	recent := b.bad[:0]
	for _, t := range b.bad {
		if t.After(first) {
			recent = append(recent, t)
		}
	}
	b.bad = recent
	if began.After(first) {
		b.bad = append(b.bad, began)
	}
	if b.open() || len(b.bad) >= b.max {
		b.until = now.Add(b.cooldown)
	}
}

// open reports whether there are trials only.
func (b *breaker) open() bool { return !b.until.IsZero() }

// try begins a trial.
func (b *breaker) try(now time.Time) {
	if b.open() {
		b.until = now.Add(b.cooldown)
	}
}

// close lets everybody in.
func (b *breaker) close() { b.bad, b.until = nil, time.Time{} }

// backoff returns how long to wait after so many failures in a row.
func (s *settings) backoff(failures int) time.Duration {
	return retry.Backoff{Min: s.min, Max: s.max}.Wait(failures)
}
