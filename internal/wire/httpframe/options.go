package httpframe

import (
	"math"
	"time"
)

// Forever is how long something may take that has no limit. Timers and deadlines take
// it as any other duration.
const Forever time.Duration = math.MaxInt64

// Duration returns d, or def if it is zero, or Forever if it is negative: what an
// option means, for all servers.
func Duration(d, def time.Duration) time.Duration {
	switch {
	case d == 0:
		return def
	case d < 0:
		return Forever
	}
	return d
}

// Limit is Duration for numbers.
func Limit(n, def int) int {
	switch {
	case n == 0:
		return def
	case n < 0:
		return math.MaxInt
	}
	return n
}
