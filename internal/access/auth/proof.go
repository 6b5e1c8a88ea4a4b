package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// An identity is what a proof says of who sends it.
type identity struct {
	principal string // unambiguous among all ways in
	proof     string // which way it was
	scopes    []string
	claims    map[string][]string
	rights    string // stands for scopes and claims

	// audience is for whom the proof was made. If nil, it is for us.
	audience []string

	// thumbprint is the SHA-256 of the certificate whose holder alone may use the proof,
	// or empty.
	thumbprint string

	expires time.Time // zero means never
}

// recheck is how often a proof is looked at again that somebody else may take back.
// Streams of a token that was revoked end within that time.
const recheck = 30 * time.Second

// recheckTimeout is how long that may take.
const recheckTimeout = 10 * time.Second

// A proof is something that has been verified. It ends when it expires or is revoked, and
// then tells those who watch it.
type proof struct {
	*identity
	again func(context.Context) (*identity, error) // verifies it once more; nil if nobody takes it back
	seen  atomic.Int64                             // when it was verified last, in Unix nanoseconds
	until atomic.Pointer[time.Time]                // when it expires, which may be put off; zero means never
	over  atomic.Bool                              // it has ended, for good: set with mu locked

	mu       sync.Mutex
	watchers map[*func()]struct{}
	timer    *time.Timer // runs while there are watchers, and something to wait for
}

func newProof(id *identity, again func(context.Context) (*identity, error)) *proof {
	p := &proof{identity: id, again: again}
	p.confirm(id)
	return p
}

// confirm notes that the proof has just been verified again, by what it says now. It
// reports false if that is something else than before, or the proof has ended.
func (p *proof) confirm(id *identity) bool {
	if p.over.Load() {
		return false
	}
	same, other := *p.identity, *id
	same.expires, other.expires = time.Time{}, time.Time{}
	if !reflect.DeepEqual(same, other) {
		return false
	}
	p.until.Store(&id.expires)
	p.seen.Store(time.Now().UnixNano())
	return true
}

// expired reports whether the proof has expired.
func (p *proof) expired(now time.Time) bool {
	until := p.until.Load()
	return !until.IsZero() && !now.Before(*until)
}

// rightsOf returns what stands for the scopes and claims of an identity.
func rightsOf(id *identity) string {
	if len(id.scopes)+len(id.claims) == 0 {
		return ""
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%q", slices.Sorted(slices.Values(id.scopes)))
	for _, name := range slices.Sorted(maps.Keys(id.claims)) {
		fmt.Fprintf(sum, " %q=%q", name, id.claims[name])
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// good reports whether the proof can be used without another look.
func (p *proof) good(now time.Time) bool {
	if p.over.Load() || p.expired(now) {
		return false
	}
	return p.again == nil || now.UnixNano()-p.seen.Load() < int64(recheck)
}

// onEnd has f called when the proof ends; see [dragoman.Caller].
func (p *proof) onEnd(f func()) (stop func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over.Load() {
		go f() // ends at once: f waits for nobody
		return func() {}
	}
	if p.watchers == nil {
		p.watchers = make(map[*func()]struct{})
	}
	p.watchers[&f] = struct{}{}
	p.wait()
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.watchers, &f)
		if len(p.watchers) == 0 && p.timer != nil {
			p.timer.Stop()
			p.timer = nil
		}
	}
}

// wait sets the timer for the next look, if there is none. p.mu is locked.
func (p *proof) wait() {
	if p.timer != nil || len(p.watchers) == 0 {
		return
	}
	wait, until := recheck, *p.until.Load()
	switch left := time.Until(until); {
	case until.IsZero() && p.again == nil:
		return
	case p.again == nil || !until.IsZero() && left < wait:
		wait = left
	}
	p.timer = time.AfterFunc(max(wait, 0), p.look)
}

// doubt has the proof looked at again, now if somebody watches it.
func (p *proof) doubt() {
	p.seen.Store(0)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Reset(0)
	}
}

// look ends a proof that is not good any more, or says something else now. What cannot be
// found out is looked at again later.
func (p *proof) look() {
	if p.expired(time.Now()) && p.again == nil {
		p.end()
		return
	}
	if p.again != nil {
		ctx, cancel := context.WithTimeout(context.Background(), recheckTimeout)
		id, err := p.again(ctx)
		cancel()
		if isInvalid(err) || err == nil && !p.confirm(id) || err != nil && p.expired(time.Now()) {
			p.end()
			return
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = nil
	if !p.over.Load() {
		p.wait()
	}
}

// end tells all watchers.
func (p *proof) end() {
	p.mu.Lock()
	list := p.watchers
	p.over.Store(true)
	p.watchers = nil
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	p.mu.Unlock()
	for f := range list {
		(*f)()
	}
}
