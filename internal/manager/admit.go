package manager

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
)

// An admission bounds the requests to one upstream: how many are under way, and how
// many wait, for that or for the server to come back.
type admission struct {
	up         *Upstream
	max, queue int
	signal     broadcast // fired when a request ends and none is under way

	mu      sync.Mutex
	running int
	waiting int
	line    []chan struct{} // those who wait to be under way, in their order
}

// enqueue takes a place among those who wait, which leave gives back.
func (a *admission) enqueue() (leave func(), err error) {
	a.mu.Lock()
	full := a.waiting >= a.queue
	if !full {
		a.waiting++
	}
	a.mu.Unlock()
	if full {
		return nil, a.up.overloaded("too many requests wait for it")
	}
	return func() {
		a.mu.Lock()
		a.waiting--
		a.mu.Unlock()
	}, nil
}

// enter counts a request as under way. If there are too many it waits a little. The
// error is a *dragoman.Error, or that of ctx.
func (a *admission) enter(ctx context.Context) error {
	a.mu.Lock()
	if a.running < a.max && len(a.line) == 0 {
		a.running++
		a.mu.Unlock()
		return nil
	}
	if a.waiting >= a.queue {
		a.mu.Unlock()
		return a.up.overloaded("too many requests wait for it")
	}
	a.waiting++
	turn := make(chan struct{})
	a.line = append(a.line, turn)
	a.mu.Unlock()

	err := sleep(ctx, MaxAdmission, turn)
	a.mu.Lock()
	a.waiting--
	at := slices.Index(a.line, turn)
	if at >= 0 {
		a.line = slices.Delete(a.line, at, at+1)
	}
	a.mu.Unlock()
	switch {
	case at < 0 && err != nil:
		a.leave() // its turn came too late
		return err
	case at < 0:
		return nil
	case err != nil:
		return err
	}
	return a.up.overloaded("too many requests are under way")
}

// leave ends a request, and lets the next one in.
func (a *admission) leave() {
	a.mu.Lock()
	if len(a.line) > 0 {
		close(a.line[0])
		a.line = a.line[1:]
		a.mu.Unlock()
		return
	}
	a.running--
	none := a.running == 0
	a.mu.Unlock()
	if none {
		a.signal.fire()
	}
}

func (a *admission) counts() (running, waiting int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.running, a.waiting
}

// empty waits until no request is under way. It reports whether that was so before
// ctx ended.
func (a *admission) empty(ctx context.Context) bool {
	for {
		changed := a.signal.wait()
		if running, _ := a.counts(); running == 0 {
			return true
		}
		if sleep(ctx, time.Hour, changed) != nil {
			return false
		}
	}
}

// answer returns the response for a request that did not get to the server.
func answer(ctx context.Context, req *dragoman.Message, err error) (*dragoman.Message, error) {
	if e, ok := err.(*dragoman.Error); ok { //nolint:errorlint // ours are never wrapped
		return req.Fail(e), nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, err
}
