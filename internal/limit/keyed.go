package limit

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

const (
	// MaxKeys is how many keys a Rates remembers.
	MaxKeys = 1 << 16

	shards = 16 // so that callers rarely wait for each other

	// maxLook is how many keys are looked at to find one to forget.
	maxLook = 16
)

// Rates is a Bucket for each key. A nil *Rates lets everything pass.
//
// When there are too many keys, those are forgotten whose buckets are full, or nearly:
// nothing is lost with them. Who makes up keys cannot have its own bucket forgotten
// that way, since that is emptier than those of the keys that it made up.
type Rates struct {
	pace
	seed   maphash.Seed // so that nobody can choose a shard
	shards [shards]shard
}

type shard struct {
	mu   sync.Mutex
	full map[string]time.Duration // when each bucket will be
}

// NewRates returns buckets for a rate as those of NewBucket, nil for none.
func NewRates(r Rate, burst int) *Rates {
	if r.Count <= 0 {
		return nil
	}
	return &Rates{pace: newPace(r, burst), seed: maphash.MakeSeed()}
}

// Take is Bucket.Take for a key.
func (r *Rates) Take(key string) (wait time.Duration) {
	if r == nil {
		return 0
	}
	s := r.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := r.now()
	full, known := s.full[key]
	next, wait := r.take(full, now)
	if wait > 0 {
		return wait
	}
	if !known && len(s.full) >= MaxKeys/shards {
		s.forget(now)
	}
	if s.full == nil {
		s.full = make(map[string]time.Duration)
	}
	s.full[key] = next
	return 0
}

// Return is Bucket.Return for a key.
func (r *Rates) Return(key string) {
	if r == nil {
		return
	}
	s := r.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if full, known := s.full[key]; known {
		s.full[key] = full - r.every
	}
}

// Wait is how long Take would have a key wait. It takes nothing.
func (r *Rates) Wait(key string) time.Duration {
	if r == nil {
		return 0
	}
	s := r.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, wait := r.take(s.full[key], r.now())
	return wait
}

func (r *Rates) shard(key string) *shard {
	return &r.shards[maphash.String(r.seed, key)%shards]
}

// forget forgets the keys among a few whose buckets are full, or else that which will
// be full first. mu is held.
func (s *shard) forget(now time.Duration) {
	looked, first, least := 0, "", time.Duration(0)
	for key, full := range s.full { // which begins anywhere
		if full <= now {
			delete(s.full, key)
		}
		if looked == 0 || full < least {
			first, least = key, full
		}
		if looked++; looked == maxLook {
			break
		}
	}
	delete(s.full, first)
}

// Counts is a Room for each key. Keys are remembered while they have something. Zero for
// Max means no bound.
type Counts struct {
	Max  int
	mu   sync.Mutex
	have map[string]int
}

// Enter takes a place for a key until Leave, and reports whether there was one.
func (c *Counts) Enter(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Max > 0 && c.have[key] >= c.Max {
		return false
	}
	if c.have == nil {
		c.have = make(map[string]int)
	}
	c.have[key]++
	return true
}

// Leave gives a place back.
func (c *Counts) Leave(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.have[key]--; c.have[key] <= 0 {
		delete(c.have, key)
	}
}

// Full reports whether Enter would find no place.
func (c *Counts) Full(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Max > 0 && c.have[key] >= c.Max
}

// Address returns what an address counts as: itself, or for IPv6 the network that one
// subscriber has, whose addresses are all its own.
func Address(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil || a.Unmap().Is4() {
		return address
	}
	network, _ := a.WithZone("").Prefix(64) // it has that many bits
	return network.String()
}

// FailureRate is how often one address may fail to prove who it is.
var FailureRate = Rate{Count: 5, Per: time.Second}

// Failures slows down who guesses: an address that has failed too often is to be refused
// for a moment, whatever it sends, before anything is checked. Any number of goroutines
// may use it at once.
type Failures struct{ rates *Rates }

// NewFailures returns a throttle for a rate of failures of each address. Zero means
// FailureRate.
func NewFailures(r Rate) *Failures {
	if r.Count <= 0 {
		r = FailureRate
	}
	return &Failures{NewRates(r, 0)}
}

// Allow reports whether an address may try, by zero, or how long it has to wait: that is
// for status 429 with Retry-After.
func (f *Failures) Allow(address string) (wait time.Duration) { return f.rates.Wait(Address(address)) }

// Failed counts a failure of an address.
func (f *Failures) Failed(address string) { f.rates.Take(Address(address)) }
