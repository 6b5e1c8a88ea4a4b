package limit

import (
	"crypto/sha256"
	"hash/maphash"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"
)

const (
	// MaxKeys is how many keys a Rates remembers.
	MaxKeys = 1 << 16

	shards    = 16 // so that callers rarely wait for each other
	shardKeys = MaxKeys / shards

	// maxKey is up to which length a key is remembered as it is.
	maxKey = 128

	// maxLook is how many keys are looked at to find one to forget.
	maxLook = 16
)

// Rates is a Bucket for each key. A nil *Rates lets everything pass.
//
// When there are too many keys, one is forgotten whose bucket is full, or nearly: nothing is
// lost with it. Who makes up keys cannot have its own bucket forgotten that way, since that is
// emptier than those of the keys that it made up.
type Rates struct {
	pace
	seed   maphash.Seed // so that nobody can choose a shard
	shards [shards]shard
}

// A shard has its keys in a slice, because a few must be looked at that are any of them with
// the same chance. Those that follow each other in a map are not: where keys were forgotten
// the new ones stand side by side.
type shard struct {
	mu    sync.Mutex
	keys  []keyed
	place map[string]int // of each key in keys
}

type keyed struct {
	key  string
	full time.Duration // when its bucket will be
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
	s, key := r.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := r.now()
	i, known := s.place[key]
	if !known {
		next, _ := r.take(0, now)
		s.add(keyed{key, next})
		return 0
	}
	s.keys[i].full, wait = r.take(s.keys[i].full, now)
	return wait
}

// Return is Bucket.Return for a key.
func (r *Rates) Return(key string) {
	if r == nil {
		return
	}
	s, key := r.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, known := s.place[key]; known {
		s.keys[i].full -= r.every
	}
}

// Wait is how long Take would have a key wait. It takes nothing.
func (r *Rates) Wait(key string) time.Duration {
	if r == nil {
		return 0
	}
	s, key := r.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	i, known := s.place[key]
	if !known {
		return 0
	}
	_, wait := r.take(s.keys[i].full, r.now())
	return wait
}

// shard returns where a key is remembered, and as what: a long key as its digest.
func (r *Rates) shard(key string) (*shard, string) {
	if len(key) > maxKey {
		sum := sha256.Sum256([]byte(key))
		key = string(sum[:])
	}
	return &r.shards[maphash.String(r.seed, key)%shards], key
}

// add remembers a key. If there are as many as there may be, it takes the place of the one
// among a few whose bucket will be full first. mu is held.
func (s *shard) add(k keyed) {
	if s.place == nil {
		s.place = make(map[string]int)
	}
	i := len(s.keys)
	if i < shardKeys {
		s.keys = append(s.keys, k)
	} else {
		i = rand.IntN(shardKeys)
		for range maxLook - 1 {
			if j := rand.IntN(shardKeys); s.keys[j].full < s.keys[i].full {
				i = j
			}
		}
		delete(s.place, s.keys[i].key)
		s.keys[i] = k
	}
	s.place[k.key] = i
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
