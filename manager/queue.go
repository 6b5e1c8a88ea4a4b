package manager

import (
	"context"
	"errors"
	"time"

	"github.com/dragoman-mcp/dragoman"
)

// turn waits until something may be tried. It fails if that is later than limit, or
// for who comes while nobody is made to wait.
func (k *keeper) turn(ctx context.Context, limit time.Time) error {
	for {
		changed := k.signal.wait()
		now := time.Now()
		k.sweep()
		k.mu.Lock()
		if k.closed {
			k.mu.Unlock()
			return dragoman.ErrClosed
		}
		if k.asleep {
			k.mu.Unlock()
			return errAsleep
		}
		wait := k.due(now)
		if wait <= 0 {
			k.take(now)
			k.mu.Unlock()
			return nil
		}
		hopeless := k.breaker.open() || k.curt(now) || now.Add(wait).After(limit)
		k.mu.Unlock()
		if hopeless {
			return k.turnedAway()
		}
		if err := sleep(ctx, wait, changed); err != nil {
			return err
		}
	}
}

// errAsleep keeps subscriptions that outlive their conversation from starting a
// server that nobody asks anything.
var errAsleep = errors.New("it is stopped, because nobody uses it")

// setAsleep says whether nothing may be dialled because nobody uses the server.
func (k *keeper) setAsleep(asleep bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asleep = asleep
	k.met = k.met && !asleep
}

// pace waits until something may be tried, however long that is. It tells whether
// ctx has not ended.
func (k *keeper) pace(ctx context.Context) bool {
	for {
		changed := k.signal.wait()
		k.mu.Lock()
		wait := k.due(time.Now())
		k.mu.Unlock()
		if wait <= 0 || sleep(ctx, wait, changed) != nil {
			return ctx.Err() == nil
		}
	}
}

// sleep waits for a time, or for a change. The error is that of ctx.
func sleep(ctx context.Context, d time.Duration, changed <-chan struct{}) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-changed:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// due returns how long it takes until something may be tried. The caller holds mu.
func (k *keeper) due(now time.Time) time.Duration {
	if k.failures == 0 {
		return 0
	}
	wait := k.next.Sub(now)
	if k.breaker.open() {
		wait = max(wait, k.breaker.until.Sub(now))
	}
	return wait
}

// curt tells whether who comes now is turned away, and not made to wait: the server
// has not been there yet, and is not tried again soon. The caller holds mu.
func (k *keeper) curt(now time.Time) bool {
	return !k.met && len(k.open) == 0 && k.pause > MaxPause && k.due(now) > 0
}

// mayTry tells whether something may be tried now.
func (k *keeper) mayTry() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.due(time.Now()) <= 0
}

// take begins an attempt, so that the next one waits. The caller holds mu.
func (k *keeper) take(now time.Time) {
	if k.failures > 0 {
		k.next = now.Add(k.set.backoff(k.failures))
		k.breaker.try(now)
	}
}

// grant lets the next attempt begin at once: the last one came to an end that was
// no failure, but no success either. The caller holds mu.
func (k *keeper) grant(now time.Time) {
	if k.failures > 0 {
		k.next = now
		if k.breaker.open() {
			k.breaker.until = now
		}
	}
}
