// Package retry computes the wait before the next attempt.
package retry

import (
	"context"
	"math/rand/v2"
	"time"
)

// A Backoff is Min after the first failure in a row and twice as long after each one
// more, up to Max, all less up to a fifth at random, so that many who failed at once
// do not come back at once.
type Backoff struct{ Min, Max time.Duration }

// Wait returns how long to wait after so many failures in a row. Without any, it is
// zero.
func (b Backoff) Wait(failures int) time.Duration {
	if failures <= 0 {
		return 0
	}
	d := min(b.Min, b.Max)
	for n := 1; n < failures && d < b.Max; n++ {
		d = min(d, b.Max-d) + d // twice as much, without an overflow
	}
	return d - rand.N(d/5+1) // #nosec G404 -- chance that keeps clients apart, no secret
}

// Sleep waits for d. If ctx ends before, the error is the reason of that.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
