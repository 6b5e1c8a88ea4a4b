// Package bench makes many calls and measures how long they take, for "dragoman bench".
//
// Workers take the next call from one counter. With a rate, the number of a call is its start
// time, and its latency counts from then, also if it had to wait. Each worker has a histogram
// with 128 buckets per power of two; they are added at the end. No call begins after the
// duration; calls that were due are counted.
package bench

import (
	"math"
	"math/bits"
	"time"
)

// Each power of two is cut into so many buckets: what is read from one is off by half of
// its width at most, which is 0.4 % of the value.
const (
	bucketBits = 7
	perPower   = 1 << bucketBits
	buckets    = (64 - bucketBits) * perPower
)

// A Histogram counts durations in buckets whose widths grow with them. The zero value is
// empty. It is not safe for several goroutines at once.
type Histogram struct {
	counts   [buckets]uint64
	count    uint64
	sum      float64 // in nanoseconds
	min, max time.Duration
}

// bucketOf returns the bucket of a value.
func bucketOf(v uint64) int {
	if v < perPower {
		return int(v)
	}
	shift := bits.Len64(v) - bucketBits - 1
	return (shift+1)*perPower + int(v>>shift) - perPower
}

// middleOf returns the value in the middle of a bucket.
func middleOf(bucket int) uint64 {
	if bucket < 2*perPower {
		return uint64(bucket)
	}
	shift := bucket/perPower - 1
	return (uint64(bucket%perPower)+perPower)<<shift + 1<<shift/2
}

// Add counts a duration. A negative one counts as zero.
func (h *Histogram) Add(d time.Duration) {
	d = max(d, 0)
	if h.count == 0 || d < h.min {
		h.min = d
	}
	h.max = max(h.max, d)
	h.counts[bucketOf(uint64(d))]++
	h.count++
	h.sum += float64(d)
}

// Merge adds all of another.
func (h *Histogram) Merge(other *Histogram) {
	if other.count == 0 {
		return
	}
	if h.count == 0 || other.min < h.min {
		h.min = other.min
	}
	h.max = max(h.max, other.max)
	h.count += other.count
	h.sum += other.sum
	for i, n := range other.counts {
		h.counts[i] += n
	}
}

// Count returns how many there are.
func (h *Histogram) Count() int { return int(h.count) } //nolint:gosec // nobody makes that many

// Min and Max return the shortest and the longest, exactly.
func (h *Histogram) Min() time.Duration { return h.min }

// Max returns the longest.
func (h *Histogram) Max() time.Duration { return h.max }

// Mean returns the average.
func (h *Histogram) Mean() time.Duration {
	if h.count == 0 {
		return 0
	}
	return time.Duration(h.sum / float64(h.count))
}

// Quantile returns the duration that a part q of all, between 0 and 1, do not exceed, within
// 1 %. It is zero if there are none.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.count == 0 {
		return 0
	}
	rank := uint64(max(math.Ceil(q*float64(h.count)), 1))
	var below uint64
	for i, n := range h.counts {
		if below += n; below >= rank {
			d := time.Duration(middleOf(i)) //nolint:gosec // it was one
			return min(max(d, h.min), h.max)
		}
	}
	return h.max
}
