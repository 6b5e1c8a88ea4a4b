package eventlog

import (
	"math"
	"time"
)

// Defaults of [MemoryOptions] and [FileOptions].
const (
	DefaultMaxEvents     = 1000
	DefaultMaxBytes      = 4 << 20
	DefaultMaxTotalBytes = 64 << 20
	DefaultTTL           = 5 * time.Minute
)

const (
	// eventCost and streamCost are what an event and a stream that has some
	// cost besides their bytes, about.
	eventCost  = 32
	streamCost = 384

	// maxSpent bounds how many streams without events are remembered.
	maxSpent = 8192
)

// withDefaults returns the limits in force.
func (o *MemoryOptions) withDefaults() MemoryOptions {
	var in MemoryOptions
	if o != nil {
		in = *o
	}
	return MemoryOptions{
		MaxEvents:     limit(in.MaxEvents, DefaultMaxEvents, math.MaxInt),
		MaxBytes:      limit(in.MaxBytes, DefaultMaxBytes, math.MaxInt),
		MaxTotalBytes: limit(in.MaxTotalBytes, DefaultMaxTotalBytes, math.MaxInt),
		TTL:           limit(in.TTL, DefaultTTL, math.MaxInt64),
	}
}

func limit[N int | time.Duration](n, standard, most N) N {
	switch {
	case n == 0:
		return standard
	case n < 0:
		return most
	}
	return n
}
