package manager

import (
	"context"
	"errors"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/limit"
)

// An admission bounds the requests to one upstream: how many are under way, and how
// many wait, for that or for the server to come back.
type admission struct {
	up     *Upstream
	line   limit.Line
	signal broadcast // fired when a request ends and none is under way
}

// enqueue takes a place among those who wait, which leave gives back.
func (a *admission) enqueue() (leave func(), err error) {
	leave, ok := a.line.Queued()
	if !ok {
		return nil, a.up.overloaded("too many requests wait for it")
	}
	return leave, nil
}

// enter counts a request as under way. If there are too many it waits a little. The
// error is a *dragoman.Error, or that of ctx.
func (a *admission) enter(ctx context.Context) error {
	switch err := a.line.Enter(ctx, MaxAdmission); {
	case errors.Is(err, limit.ErrFull):
		return a.up.overloaded("too many requests wait for it")
	case errors.Is(err, limit.ErrLate):
		return a.up.overloaded("too many requests are under way")
	default:
		return err
	}
}

// leave ends a request, and lets the next one in.
func (a *admission) leave() {
	if a.line.Leave() {
		a.signal.fire()
	}
}

func (a *admission) counts() (running, waiting int) { return a.line.Counts() }

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
