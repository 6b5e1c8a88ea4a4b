package manager

import (
	"context"
	"time"

	"github.com/dragoman-mcp/dragoman"
)

// take returns the instance that serves the caller of a request, which is counted
// as its user until leave.
func (u *Upstream) take(ctx context.Context) (*instance, error) {
	if !u.set.passes {
		u.main.enter()
		return u.main, nil
	}
	p := u.passedOf(dragoman.CallerOf(ctx))
	if p == nil {
		u.main.enter()
		return u.main, nil
	}
	i, err := u.pick(p)
	switch {
	case err != nil:
		r := u.refusal()
		r.Reason = u.clean(p, err)
		return nil, r.unavailable(0)
	case i == nil:
		return nil, u.overloaded("too many callers with values of their own use it")
	}
	return i, nil
}

// pick returns the instance for what a caller passes on, with the caller as its
// user. It is nil if there are too many.
func (u *Upstream) pick(p *passed) (*instance, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	i := u.instances[p.digest]
	if i == nil {
		if len(u.instances) >= MaxInstances && !u.evict() {
			return nil, nil
		}
		var err error
		if i, err = u.newInstance(p); err != nil {
			return nil, err
		}
		u.instances[p.digest] = i
		i.begin()
	}
	i.enter()
	return i, nil
}

// evict closes the instance that nobody has used for the longest time. It tells
// whether there was one. The caller holds mu.
func (u *Upstream) evict() bool {
	var oldest *instance
	var age time.Duration
	for _, i := range u.instances {
		if d := i.unused(); d > age && len(i.company()) == 0 {
			oldest, age = i, d
		}
	}
	if oldest == nil {
		return false
	}
	u.forget(oldest)
	return true
}

// forget takes an instance out and closes it. The caller holds mu.
func (u *Upstream) forget(i *instance) {
	delete(u.instances, i.passed.digest)
	// Ends when its children have been stopped, which is bounded.
	u.busy.Go(func() { _ = i.close() })
}

// retire closes an instance if nobody uses it. It tells whether it did.
func (u *Upstream) retire(i *instance, idle time.Duration) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.instances[i.passed.digest] != i || i.unused() < idle || len(i.company()) > 0 {
		return false
	}
	u.forget(i)
	return true
}

// all returns the instances there are.
func (u *Upstream) all() []*instance {
	u.mu.Lock()
	defer u.mu.Unlock()
	list := make([]*instance, 0, len(u.instances)+1)
	if u.main != nil {
		list = append(list, u.main)
	}
	for _, i := range u.instances {
		list = append(list, i)
	}
	return list
}
