package authserver

import (
	"context"
	"sync"
	"time"
)

// maxUsed is how many values are remembered as used.
const maxUsed = 65536

// once remembers what must not be used twice, for as long as it could be.
type once struct {
	mu   sync.Mutex
	seen map[digest]time.Time // until when; guarded by mu
	next []digest             // in the order in which they came; guarded by mu
}

// add reports whether a value has not been used, and remembers that it has. If there are too
// many, the oldest is forgotten.
func (o *once) add(value string, lasts time.Duration) bool {
	d, now := digestOf(value), time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if until, ok := o.seen[d]; ok && now.Before(until) {
		return false
	}
	if o.seen == nil {
		o.seen = make(map[digest]time.Time)
	}
	for len(o.next) > 0 && (len(o.next) >= maxUsed || !now.Before(o.seen[o.next[0]])) {
		delete(o.seen, o.next[0])
		o.next = o.next[1:]
	}
	o.seen[d] = now.Add(lasts)
	o.next = append(o.next, d)
	return true
}

// turns has those come one after another that are about the same thing. It holds no lock
// meanwhile, and who waits can give up.
type turns struct {
	mu   sync.Mutex
	list map[string]*turn // guarded by mu
}

type turn struct {
	free chan struct{} // has one element while nobody has the turn
	n    int           // who have it or wait for it; guarded by turns.mu
}

// take waits for the turn of a key, and returns what ends it.
func (t *turns) take(ctx context.Context, key string) (end func(), err error) {
	t.mu.Lock()
	if t.list == nil {
		t.list = make(map[string]*turn)
	}
	one := t.list[key]
	if one == nil {
		one = &turn{free: make(chan struct{}, 1)}
		one.free <- struct{}{}
		t.list[key] = one
	}
	one.n++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if one.n--; one.n == 0 {
			delete(t.list, key)
		}
	}
	select {
	case <-one.free:
		return func() {
			one.free <- struct{}{}
			leave()
		}, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}
