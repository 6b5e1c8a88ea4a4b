package manager

import (
	"context"
	"errors"
)

// Restart stops the server and starts it again, at once, whatever its state.
// Requests under way fail. It returns when the server can be used, or with the
// reason why it cannot. A lazy server that is not running stays so.
func (u *Upstream) Restart(ctx context.Context) error {
	if e := u.shut(); e != nil {
		return e
	}
	u.event(nil, "it is restarted, because that was asked for")
	var errs []error
	for _, i := range u.all() {
		errs = append(errs, i.restart(ctx))
	}
	return errors.Join(errs...)
}

func (i *instance) restart(ctx context.Context) error {
	i.mu.Lock()
	running, tries, visits := i.started && !i.asleep, i.tries, i.visits
	i.round++
	i.stopping = true
	i.mu.Unlock()
	i.keeper.hangUp(nil, true)
	i.keeper.reset()
	i.mu.Lock()
	i.stopping = false
	i.mu.Unlock()
	i.keeper.signal.fire()
	if i.passed != nil || i.up.set.lazy && !running {
		return nil // the next request dials
	}
	return i.await(ctx, tries, visits)
}

// await waits for the attendant's next start, after so many that failed and that did
// not.
func (i *instance) await(ctx context.Context, tries, visits int) error {
	i.want()
	for {
		changed := i.keeper.signal.wait()
		i.mu.Lock()
		failed, ready := i.tries > tries, i.visits > visits && i.begun == i.round
		i.mu.Unlock()
		switch {
		case ready:
			return nil
		case failed:
			return i.keeper.turnedAway()
		case i.ctx.Err() != nil:
			return i.up.drained()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
