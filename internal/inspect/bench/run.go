package bench

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Options say how many calls are made. Duration or Count ends it, whichever comes first; one
// of them is needed.
type Options struct {
	InFlight int           // calls at once, at most
	Rate     float64       // calls a second; zero makes each when another has ended
	Duration time.Duration // during which calls are begun; those that are due and have to wait are not begun after it
	Count    int
}

// A Call makes one call, the worker's own, and returns what it carried and why it failed: a
// few words, or "" if it did not.
type Call func(ctx context.Context, worker int) (sent, received int, failed string)

// A Result is what came of many calls.
type Result struct {
	Latency        Histogram // of those that did not fail
	Failed         map[string]int
	Sent, Received int64
	Took           time.Duration
	NotBegun       int // calls that were due, and had to wait until the end
}

// Calls returns how many there were.
func (r *Result) Calls() int { return r.Latency.Count() + r.Failures() }

// Failures returns how many failed.
func (r *Result) Failures() (n int) {
	for _, count := range r.Failed {
		n += count
	}
	return n
}

// Rate returns how many succeeded in a second.
func (r *Result) Rate() float64 {
	if r.Took <= 0 {
		return 0
	}
	return float64(r.Latency.Count()) / r.Took.Seconds()
}

// Merge adds all of another, which ran at another time.
func (r *Result) Merge(other *Result) {
	r.Took += other.Took
	r.add(other)
}

func (r *Result) add(other *Result) {
	r.Latency.Merge(&other.Latency)
	r.NotBegun += other.NotBegun
	r.Sent += other.Sent
	r.Received += other.Received
	for kind, n := range other.Failed {
		if r.Failed == nil {
			r.Failed = map[string]int{}
		}
		r.Failed[kind] += n
	}
}

// Run makes calls until it has made enough, or ctx ends, and waits for them.
//
// With a rate, each call has a time at which it should begin, and its latency counts from
// then: a call that has to wait because those before it take too long is one that somebody
// would have waited for. Else the slow ones would hide those that they held up.
func Run(ctx context.Context, o *Options, call Call) *Result {
	total := &Result{}
	var next, begun atomic.Int64
	var mu sync.Mutex // of total
	var running sync.WaitGroup
	began := time.Now()
	for worker := range max(o.InFlight, 1) {
		// Ends with the calls.
		running.Go(func() {
			own := &Result{}
			for {
				due, ok := o.take(ctx, &next, began)
				if !ok {
					break
				}
				begun.Add(1)
				sent, received, failed := call(ctx, worker)
				if ctx.Err() != nil {
					break // that it failed says nothing
				}
				own.Sent, own.Received = own.Sent+int64(sent), own.Received+int64(received)
				if failed != "" {
					own.add(&Result{Failed: map[string]int{failed: 1}})
					continue
				}
				own.Latency.Add(time.Since(due))
			}
			mu.Lock()
			defer mu.Unlock()
			total.add(own)
		})
	}
	running.Wait()
	total.Took = time.Since(began)
	if ctx.Err() == nil {
		total.NotBegun = max(o.due()-int(begun.Load()), 0)
	}
	return total
}

// due returns how many calls are due in all; with neither a rate nor a count none is until it is begun.
func (o *Options) due() (n int) {
	if o.Rate > 0 && o.Duration > 0 {
		n = int(math.Ceil(o.Rate * o.Duration.Seconds()))
		if o.Count > 0 {
			n = min(n, o.Count)
		}
	}
	return n
}

// take waits for the time of the next call, and returns it, or false if there is none.
func (o *Options) take(ctx context.Context, next *atomic.Int64, began time.Time) (due time.Time, ok bool) {
	number := next.Add(1) - 1
	if ctx.Err() != nil || o.Count > 0 && number >= int64(o.Count) {
		return due, false
	}
	if due = time.Now(); o.Rate > 0 {
		due = began.Add(time.Duration(float64(number) / o.Rate * float64(time.Second)))
	}
	if o.Duration > 0 && due.Sub(began) >= o.Duration {
		return due, false
	}
	if wait := time.Until(due); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return due, false
		}
	}
	return due, o.Duration == 0 || time.Since(began) < o.Duration
}

// rounds is in how many parts a comparison is cut.
const rounds = 10

// Compare runs two loads in turns, so that what changes on the machine meanwhile meets
// both. round, which may be nil, is told when each of the turns is over.
func Compare(ctx context.Context, o *Options, a, b Call, round func(done, of int)) (first, second *Result) {
	first, second = &Result{}, &Result{}
	part := *o
	n := rounds
	if o.Count > 0 {
		n = min(n, o.Count)
	}
	part.Duration = o.Duration / time.Duration(n)
	for i := range n {
		if o.Count > 0 {
			part.Count = o.Count*(i+1)/n - o.Count*i/n
		}
		turns := []func(){
			func() { first.Merge(Run(ctx, &part, a)) },
			func() { second.Merge(Run(ctx, &part, b)) },
		}
		turns[i%2]() // who comes second after a pause may have it easier
		turns[1-i%2]()
		if round != nil {
			round(i+1, n)
		}
	}
	return first, second
}
