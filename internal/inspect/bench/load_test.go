package bench_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/inspect/bench"
)

// What a histogram says is compared with what sorting says.
func TestQuantilesAreWithinOnePercent(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for name, draw := range map[string]func() time.Duration{
		"even":        func() time.Duration { return time.Duration(random.Int64N(int64(time.Second))) },
		"exponential": func() time.Duration { return time.Duration(random.ExpFloat64() * float64(time.Millisecond)) },
		"over all":    func() time.Duration { return time.Duration(math.Exp(random.Float64() * math.Log(math.MaxInt64/2))) },
		"tiny":        func() time.Duration { return time.Duration(random.Int64N(300)) },
		"the same":    func() time.Duration { return 12345678 },
		"the longest": func() time.Duration { return math.MaxInt64 / 2 },
	} {
		for _, n := range []int{1, 2, 10, 10_000} {
			var whole, left, right bench.Histogram
			var all []time.Duration
			for i := range n {
				d := draw()
				all = append(all, d)
				whole.Add(d)
				if i%3 == 0 {
					left.Add(d)
				} else {
					right.Add(d)
				}
			}
			left.Merge(&right)
			slices.Sort(all)
			for _, q := range []float64{0, 0.001, 0.5, 0.9, 0.99, 0.999, 1} {
				want := all[max(int(math.Ceil(q*float64(n))), 1)-1]
				got := whole.Quantile(q)
				if off := math.Abs(float64(got - want)); off > 0.01*float64(want) {
					t.Errorf("%s, %d: %v of %v is %v, want %v", name, n, q, n, got, want)
				}
				if got != left.Quantile(q) {
					t.Errorf("%s, %d: %v of parts that are merged is %v, want %v", name, n, q, left.Quantile(q), got)
				}
			}
			if whole.Min() != all[0] || whole.Max() != all[n-1] || whole.Count() != n || whole.Mean() < all[0]/2 || left.Min() != all[0] {
				t.Errorf("%s: %v to %v, %d, want %v to %v", name, whole.Min(), whole.Max(), whole.Count(), all[0], all[n-1])
			}
		}
	}
	var none bench.Histogram
	if none.Quantile(0.5) != 0 || none.Mean() != 0 {
		t.Error("an empty one says something")
	}
}

func FuzzQuantileOfOneIsItself(f *testing.F) {
	f.Add(int64(127))
	f.Add(int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, n int64) {
		var h bench.Histogram
		d := time.Duration(max(n, 0))
		h.Add(d)
		h.Add(max(d/2, 0))
		if got := h.Quantile(1); math.Abs(float64(got-d)) > 0.01*float64(d) {
			t.Errorf("%v becomes %v", d, got)
		}
	})
}

func TestCallsAreCountedFromWhenTheyShouldHaveBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// One call in ten milliseconds, one at a time; the first holds up all others.
		first := true
		r := bench.Run(t.Context(), &bench.Options{InFlight: 1, Rate: 100, Count: 101}, func(context.Context, int) (int, int, string) {
			if first {
				first = false
				time.Sleep(time.Second)
			}
			return 1, 2, ""
		})
		if r.Calls() != 101 || r.Took != time.Second || r.Sent != 101 || r.Received != 202 {
			t.Errorf("%d calls in %v", r.Calls(), r.Took)
		}
		// Those due at 10, 20, … ms begin at 1 s: they took from 990 ms down to 0.
		for q, want := range map[float64]time.Duration{0.5: 500 * time.Millisecond, 0.9: 900 * time.Millisecond, 1: time.Second} {
			if got := r.Latency.Quantile(q); (got - want).Abs() > 20*time.Millisecond {
				t.Errorf("%v: %v, want %v", q, got, want)
			}
		}
	})
}

func TestARateIsKeptWhileThereAreEnoughInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		r := bench.Run(t.Context(), &bench.Options{InFlight: 20, Rate: 100, Duration: 10 * time.Second}, func(context.Context, int) (int, int, string) {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(50 * time.Millisecond)
			now.Add(-1)
			return 0, 0, ""
		})
		if r.Calls() != 1000 || r.Latency.Max() != 50*time.Millisecond || most.Load() > 6 {
			t.Errorf("%d calls, %v at most, %d at once", r.Calls(), r.Latency.Max(), most.Load())
		}
	})
}

func TestCallsThatAreDueAndWaitAreNotBegunAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r := bench.Run(t.Context(), &bench.Options{InFlight: 1, Rate: 1000, Duration: 10 * time.Second}, func(context.Context, int) (int, int, string) {
			time.Sleep(100 * time.Millisecond)
			return 0, 0, ""
		})
		if took := time.Since(began); took > 11*time.Second || r.Calls() != 100 || r.NotBegun != 9900 {
			t.Errorf("%d calls in %v, and %d are not begun", r.Calls(), took, r.NotBegun)
		}
		var both bench.Result
		both.Merge(r)
		both.Merge(r)
		if both.NotBegun != 2*r.NotBegun {
			t.Errorf("%d are not begun of both", both.NotBegun)
		}
	})
}

func TestWithoutARateSoManyAreAlwaysUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := bench.Run(t.Context(), &bench.Options{InFlight: 4, Duration: time.Second}, func(_ context.Context, worker int) (int, int, string) {
			time.Sleep(100 * time.Millisecond)
			if worker == 0 {
				return 0, 0, "timeout"
			}
			return 0, 0, ""
		})
		if r.Calls() != 40 || r.Failed["timeout"] != 10 || r.Failures() != 10 || r.Latency.Count() != 30 || math.Abs(r.Rate()-30) > 0.1 {
			t.Errorf("%d calls, %v, %v a second", r.Calls(), r.Failed, r.Rate())
		}
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		defer cancel()
		if r := bench.Run(ctx, &bench.Options{InFlight: 1, Duration: time.Hour}, func(context.Context, int) (int, int, string) {
			time.Sleep(100 * time.Millisecond)
			return 0, 0, ""
		}); r.Calls() != 2 {
			t.Errorf("%d calls before the end", r.Calls())
		}
	})
}

func TestAComparisonTakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		order := ""
		call := func(name string, takes time.Duration) bench.Call {
			return func(context.Context, int) (int, int, string) {
				if order == "" || order[len(order)-1:] != name {
					order += name
				}
				time.Sleep(takes)
				return 0, 0, ""
			}
		}
		turns := 0
		a, b := bench.Compare(t.Context(), &bench.Options{InFlight: 1, Duration: 10 * time.Second}, call("a", 10*time.Millisecond), call("b", 20*time.Millisecond), func(int, int) { turns++ })
		if a.Calls() != 1000 || b.Calls() != 500 || math.Abs(a.Rate()/b.Rate()-2) > 0.01 || turns != 10 {
			t.Errorf("%d and %d calls, %v and %v a second", a.Calls(), b.Calls(), a.Rate(), b.Rate())
		}
		if order != "abababababa" {
			t.Errorf("the turns are %s", order)
		}
		a, b = bench.Compare(t.Context(), &bench.Options{InFlight: 1, Count: 7}, call("a", time.Millisecond), call("b", time.Millisecond), nil)
		if a.Calls() != 7 || b.Calls() != 7 {
			t.Errorf("%d and %d calls of 7", a.Calls(), b.Calls())
		}
	})
}
