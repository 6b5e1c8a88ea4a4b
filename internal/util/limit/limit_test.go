package limit_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/util/limit"
)

func TestRatesAreSpelledAsTheyAreRead(t *testing.T) {
	for _, text := range []string{"1/s", "50/s", "100/m", "1000000/h"} {
		r, err := limit.ParseRate(text)
		if err != nil || r.String() != text {
			t.Errorf("%s is read as %v, error %v", text, r, err)
		}
	}
	for _, text := range []string{"", "/", "50", "50/", "/s", "0/s", "-1/s", "1.5/s", "1e3/s", "1000001/s", "50/d", "50/S", "50 / s", "50/s ", "99999999999999999999/s"} {
		if r, err := limit.ParseRate(text); err == nil {
			t.Errorf("%q is read as %v", text, r)
		}
	}
}

// allowed returns how many of n tries pass.
func allowed(n int, take func() time.Duration) (passed int) {
	for range n {
		if take() == 0 {
			passed++
		}
	}
	return passed
}

func TestBucketLetsItsBurstPassAndThenItsRate(t *testing.T) {
	for _, test := range []struct {
		rate         limit.Rate
		burst        int
		first, after int           // how many pass at once, and after wait
		wait         time.Duration // as long as it takes for one
	}{
		{limit.Rate{Count: 50, Per: time.Second}, 0, 50, 1, 20 * time.Millisecond},
		{limit.Rate{Count: 50, Per: time.Second}, 1, 1, 1, 20 * time.Millisecond},
		{limit.Rate{Count: 100, Per: time.Minute}, 7, 7, 1, 600 * time.Millisecond},
		{limit.Rate{Count: 1, Per: time.Hour}, 0, 1, 1, time.Hour},
		{limit.Rate{Count: limit.MaxCount, Per: time.Second}, 3, 3, 1, time.Microsecond},
	} {
		t.Run(fmt.Sprint(test.rate, " burst ", test.burst), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := limit.NewBucket(test.rate, test.burst)
				if n := allowed(2*test.first+10, b.Take); n != test.first {
					t.Errorf("%d pass at once, want %d", n, test.first)
				}
				if wait := b.Take(); wait != test.wait {
					t.Errorf("who comes too early has to wait for %v, want %v", wait, test.wait)
				}
				time.Sleep(test.wait - 1)
				if b.Take() == 0 {
					t.Error("somebody passes too early")
				}
				time.Sleep(time.Nanosecond)
				if n := allowed(10, b.Take); n != test.after {
					t.Errorf("%d pass after %v, want %d", n, test.wait, test.after)
				}
				time.Sleep(1000 * test.rate.Per)
				if n := allowed(2*test.first+10, b.Take); n != test.first {
					t.Errorf("%d pass after a long time, want %d", n, test.first)
				}
				b.Return()
				if n := allowed(10, b.Take); n != 1 {
					t.Errorf("%d pass when one was given back", n)
				}
			})
		})
	}
}

func TestWithoutALimitEverythingPasses(t *testing.T) {
	var b *limit.Bucket
	var r *limit.Rates
	var m *limit.Memory
	b.Return()
	r.Return("x")
	if b.Take() != 0 || r.Take("x") != 0 || r.Wait("x") != 0 || m.Short(0) ||
		limit.NewBucket(limit.Rate{}, 5) != nil || limit.NewRates(limit.Rate{}, 5) != nil || limit.NewMemory(0, nil) != nil {
		t.Error("something is limited")
	}
	var room limit.Room
	var counts limit.Counts
	for range 10 {
		if !room.Enter() || !counts.Enter("x") || counts.Full("x") {
			t.Fatal("there is no room")
		}
	}
}

// TestBucketIsExactWhenManyTakeAtOnce has more takers than tokens.
func TestBucketIsExactWhenManyTakeAtOnce(t *testing.T) {
	const tokens = 1000
	hour := limit.Rate{Count: tokens, Per: time.Hour} // none comes back in the time of the test
	b, r := limit.NewBucket(hour, 0), limit.NewRates(hour, 0)
	room, counts := limit.Room{Max: tokens}, limit.Counts{Max: tokens}
	var buckets, rates, rooms, keys atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { // ends when it has tried that often
			buckets.Add(int64(allowed(tokens/4, b.Take)))
			rates.Add(int64(allowed(tokens/4, func() time.Duration { return r.Take("k") })))
			for range tokens / 4 {
				if room.Enter() {
					rooms.Add(1)
				}
				if counts.Enter("k") {
					keys.Add(1)
				}
			}
		})
	}
	all.Wait()
	for what, n := range map[string]int64{"bucket": buckets.Load(), "rates": rates.Load(), "room": rooms.Load(), "counts": keys.Load()} {
		if n != tokens {
			t.Errorf("%d passed a %s, want %d", n, what, tokens)
		}
	}
}

func TestKeysHaveBucketsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := limit.NewRates(limit.Rate{Count: 5, Per: time.Second}, 0)
		for _, key := range []string{"a", "b", ""} {
			take := func() time.Duration { return r.Take(key) }
			if r.Wait(key) != 0 {
				t.Errorf("%q has to wait before it has come", key)
			}
			if n := allowed(20, take); n != 5 {
				t.Errorf("%d of %q pass, want 5", n, key)
			}
			if wait := r.Wait(key); wait != 200*time.Millisecond {
				t.Errorf("%q has to wait for %v", key, wait)
			}
			r.Return(key)
			if n := allowed(20, take); n != 1 {
				t.Errorf("%d of %q pass when one was given back", n, key)
			}
		}
	})
}

// TestNobodyBeginsAgainByMakingUpKeys uses up a bucket, and then comes under more names
// than are remembered.
func TestNobodyBeginsAgainByMakingUpKeys(t *testing.T) {
	for _, burst := range []int{1, 10} {
		t.Run(fmt.Sprint("burst ", burst), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := limit.NewRates(limit.Rate{Count: 10, Per: time.Hour}, burst)
				for i := range limit.MaxKeys {
					r.Take(fmt.Sprint("early ", i))
				}
				time.Sleep(time.Second)
				if n := allowed(100, func() time.Duration { return r.Take("mine") }); n != burst {
					t.Errorf("%d pass at first, want %d", n, burst)
				}
				for i := range limit.MaxKeys / 2 {
					r.Take(fmt.Sprint("late ", i))
				}
				if r.Take("mine") == 0 {
					t.Error("the bucket of who made up keys was forgotten")
				}
			})
		})
	}
}

// TestOlderKeysAreForgottenFirst fails if the keys that are looked at are not any with the same
// chance: then there are often none among them that are older.
func TestOlderKeysAreForgottenFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := limit.NewRates(limit.Rate{Count: 1, Per: time.Hour}, 0)
		for i := range limit.MaxKeys {
			r.Take(fmt.Sprint("early ", i))
		}
		time.Sleep(time.Second)
		late := func(i int) string { return fmt.Sprint("late ", i) }
		for i := range limit.MaxKeys / 2 {
			r.Take(late(i))
		}
		forgotten := 0
		for i := range limit.MaxKeys / 2 {
			if r.Wait(late(i)) == 0 {
				forgotten++
			}
		}
		if forgotten > 3 { // in one of fifty runs there is one
			t.Errorf("%d new keys are forgotten while half of all are older", forgotten)
		}
	})
}

func TestNoMoreKeysAreRememberedThanMayBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := limit.NewRates(limit.Rate{Count: 1, Per: time.Hour}, 0)
		for i := range 2 * limit.MaxKeys {
			if r.Take(fmt.Sprint(i)) != 0 {
				t.Fatal("a new key is refused")
			}
		}
		remembered := 0
		for i := range 2 * limit.MaxKeys {
			if r.Wait(fmt.Sprint(i)) > 0 {
				remembered++
			}
		}
		if remembered > limit.MaxKeys || remembered < limit.MaxKeys*9/10 {
			t.Errorf("%d keys are remembered, want %d", remembered, limit.MaxKeys)
		}
	})
}

func TestCountsForgetWhoHasNothing(t *testing.T) {
	c := limit.Counts{Max: 2}
	for range 3 {
		for i, want := range []bool{true, true, false} {
			if c.Full("a") == want || c.Enter("a") != want {
				t.Fatalf("place %d is free: %v", i, !want)
			}
		}
		if c.Full("b") || !c.Enter("b") {
			t.Fatal("another key has no place")
		}
		c.Leave("a")
		c.Leave("a")
		c.Leave("b")
	}
}

func TestOneSubscriberIsOneAddress(t *testing.T) {
	for a, b := range map[string]string{
		"2001:db8:1:2::1": "2001:db8:1:2:ffff::9", "fe80::1%eth0": "fe80::2%eth1",
	} {
		if limit.Address(a) != limit.Address(b) {
			t.Errorf("%s and %s are two", a, b)
		}
	}
	for a, b := range map[string]string{
		"2001:db8:1:2::1": "2001:db8:1:3::1", "192.0.2.1": "192.0.2.2", "::ffff:192.0.2.1": "::ffff:192.0.2.2", "": "192.0.2.1", "@": "",
	} {
		if limit.Address(a) == limit.Address(b) {
			t.Errorf("%s and %s are one", a, b)
		}
	}
}

func TestWhoFailsTooOftenHasToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := limit.NewFailures(limit.Rate{})
		for range 5 {
			if wait := f.Allow("192.0.2.1"); wait != 0 {
				t.Errorf("wait for %v", wait)
			}
			f.Failed("192.0.2.1")
		}
		if wait := f.Allow("192.0.2.1"); wait != 200*time.Millisecond {
			t.Errorf("wait for %v after 5 failures", wait)
		}
		if f.Allow("192.0.2.2") != 0 {
			t.Error("another has to wait too")
		}
		time.Sleep(200 * time.Millisecond)
		if f.Allow("192.0.2.1") != 0 {
			t.Error("it has to wait for longer than it was told")
		}
		for range 100 { // without asking
			f.Failed("192.0.2.1")
		}
		if wait := f.Allow("192.0.2.1"); wait > 200*time.Millisecond {
			t.Errorf("wait for %v: who fails while it has to wait is kept out for longer", wait)
		}
	})
}

func BenchmarkRates(b *testing.B) {
	r := limit.NewRates(limit.Rate{Count: limit.MaxCount, Per: time.Second}, 0)
	b.ReportAllocs()
	for b.Loop() {
		r.Take("192.0.2.1")
	}
}

// BenchmarkRatesOfNewKeys is what it costs to come under a new name each time.
func BenchmarkRatesOfNewKeys(b *testing.B) {
	r := limit.NewRates(limit.Rate{Count: 1, Per: time.Hour}, 0)
	keys := make([]string, 4*limit.MaxKeys)
	for i := range keys {
		keys[i] = fmt.Sprint(i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r.Take(keys[i%len(keys)])
	}
}
