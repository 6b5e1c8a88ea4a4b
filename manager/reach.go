package manager

import (
	"context"
	"time"
)

// reach waits until the server can be used. The error is a *dragoman.Error, or
// ctx ended. patience is how long to wait at most; zero means as long as is right.
func (i *instance) reach(ctx context.Context, patience time.Duration) error {
	if i.usable() {
		return nil
	}
	stand, err := i.up.admission.sit()
	if err != nil {
		return err
	}
	defer stand()
	before, began := i.keeper.age(), time.Now()
	if patience > 0 {
		began = i.waited(began)
	}
	for {
		changed := i.keeper.signal.wait()
		if i.up.draining.Load() {
			return i.up.drained()
		}
		if i.usable() {
			return nil
		}
		left := i.prospect(began, before, patience)
		if left <= 0 {
			return i.keeper.turnedAway()
		}
		i.want()
		if err := sleep(ctx, left, changed); err != nil {
			return err
		}
	}
}

// usable tells whether the server can be used, or has nobody but its users to find
// that out.
func (i *instance) usable() bool {
	i.mu.Lock()
	ok := i.started && !i.stopping
	i.mu.Unlock()
	return ok && (!i.keeper.down() || !i.attended() && i.keeper.mayTry())
}

// waited returns since when a server is waited for that is being started, for who
// comes now: those who are in a hurry wait once, and not each of them anew.
func (i *instance) waited(now time.Time) time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.starting {
		return i.since
	}
	return now
}

// resting tells whether nobody is starting the server now.
func (i *instance) resting() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return !i.starting
}

// prospect returns how much longer it makes sense to wait for the server, for who
// came then, after so many incidents.
func (i *instance) prospect(began time.Time, before int, patience time.Duration) time.Duration {
	k, resting := i.keeper, i.resting()
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	limit := MaxOutage
	if k.failures == 0 {
		limit = i.up.set.connect
	}
	if patience > 0 {
		limit = min(limit, patience)
	}
	left := began.Add(limit).Sub(now)
	due := k.due(now)
	if k.closed || resting && k.curt(now) || k.age()-before >= i.up.set.attempts || due > 0 && k.breaker.open() || due > left {
		return 0
	}
	return left
}
