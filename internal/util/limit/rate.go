// Package limit counts: rates, concurrent use, and memory in use. It decides; its user
// refuses. The gateway, authentication and the HTTP servers use it.
//
// It has no goroutines and no I/O. What is kept per key is bounded, also if a client invents
// keys.
package limit

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// A Rate is how often something may happen, as in 50/s. Zero means no limit.
type Rate struct {
	Count int
	Per   time.Duration // a second, a minute or an hour
}

// MaxCount is the largest count of a Rate.
const MaxCount = 1_000_000

// units are how a Rate spells its time.
var units = []struct {
	name string
	per  time.Duration
}{{"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}}

// String spells a rate as ParseRate reads it.
func (r Rate) String() string {
	if r.Count == 0 {
		return "no limit"
	}
	for _, u := range units {
		if u.per == r.Per {
			return strconv.Itoa(r.Count) + "/" + u.name
		}
	}
	return fmt.Sprintf("%d/%v", r.Count, r.Per)
}

// ParseRate reads a rate such as 50/s, 100/m or 1000/h.
func ParseRate(s string) (Rate, error) {
	count, unit, ok := strings.Cut(s, "/")
	n, err := strconv.Atoi(count)
	for _, u := range units {
		if ok && err == nil && n > 0 && n <= MaxCount && unit == u.name {
			return Rate{n, u.per}, nil
		}
	}
	return Rate{}, fmt.Errorf("%q is not a rate: it is a number from 1 to %d and a unit, as in 50/s, 100/m or 1000/h", s, MaxCount)
}

// A pace is a rate as buckets keep it. A bucket holds as many tokens as may be taken
// at once, and gets a new one every so often. It is kept as the time at which it will be
// full again: then nobody has to fill it.
type pace struct {
	start time.Time     // what times are counted from
	every time.Duration // between two tokens
	ahead time.Duration // how much later than now the next token may be due
}

// newPace returns the pace of a rate. Zero for burst means the rate's count: so many at
// once, and then as many again in the time that the rate names.
func newPace(r Rate, burst int) pace {
	if burst <= 0 {
		burst = r.Count
	}
	every := r.Per / time.Duration(r.Count)
	return pace{start: time.Now(), every: every, ahead: every * time.Duration(burst-1)}
}

func (p *pace) now() time.Duration { return time.Since(p.start) }

// take takes a token from a bucket that will be full at a time, and returns when it will
// be full then. If there is none, it is after wait.
func (p *pace) take(full, now time.Duration) (next, wait time.Duration) {
	full = max(full, now)
	if wait = full - now - p.ahead; wait > 0 {
		return full, wait
	}
	return full + p.every, 0
}

// A Bucket bounds how often something happens. A nil *Bucket lets everything pass.
type Bucket struct {
	pace
	full atomic.Int64 // when it will be
}

// NewBucket returns a bucket for a rate, nil for none. Burst is how many may come at
// once; zero means the rate's count.
func NewBucket(r Rate, burst int) *Bucket {
	if r.Count <= 0 {
		return nil
	}
	return &Bucket{pace: newPace(r, burst)}
}

// Take reports whether something may happen, by zero, or how long to wait until it may.
// What may not happen is not counted.
func (b *Bucket) Take() (wait time.Duration) {
	if b == nil {
		return 0
	}
	now := b.now()
	for {
		full := b.full.Load()
		next, wait := b.take(time.Duration(full), now)
		if wait > 0 || b.full.CompareAndSwap(full, int64(next)) {
			return wait
		}
	}
}

// Return gives back what Take took, because it has not happened after all.
func (b *Bucket) Return() {
	if b != nil {
		b.full.Add(-int64(b.every))
	}
}

// A Room bounds how much of something there is at once. Zero for Max means no bound.
type Room struct {
	Max  int
	used atomic.Int64
}

// Enter takes a place until Leave, and reports whether there was one.
func (r *Room) Enter() bool {
	for {
		used := r.used.Load()
		if r.Max > 0 && used >= int64(r.Max) {
			return false
		}
		if r.used.CompareAndSwap(used, used+1) {
			return true
		}
	}
}

// Leave gives the place back.
func (r *Room) Leave() { r.used.Add(-1) }

// Used returns how many places are taken.
func (r *Room) Used() int { return int(r.used.Load()) }
