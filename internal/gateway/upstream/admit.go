package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/limit"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// An admission bounds the requests to one upstream: how many are in flight, and how
// many wait, for that or for the server to come back.
type admission struct {
	up     *Upstream
	line   limit.Line
	signal broadcast // fired when a request ends and none is in flight
}

// enqueue takes a place among those who wait, which leave gives back.
func (a *admission) enqueue() (leave func(), err error) {
	leave, ok := a.line.Queued()
	if !ok {
		return nil, a.up.overloaded("too many requests wait for it")
	}
	return leave, nil
}

// enter counts a request as in flight. If there are too many it waits a little. The
// error is a *dragoman.Error, or that of ctx.
func (a *admission) enter(ctx context.Context) error {
	switch err := a.line.Enter(ctx, MaxAdmission); {
	case errors.Is(err, limit.ErrFull):
		return a.up.overloaded("too many requests wait for it")
	case errors.Is(err, limit.ErrLate):
		return a.up.overloaded("too many requests are in flight")
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

// empty waits until no request is in flight. It reports whether that was so before
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

// A refusal is what the data of an error of ours says.
type refusal struct {
	Source  string `json:"source"`
	Outcome string `json:"outcome"`
	Server  string `json:"server"`
	State   State  `json:"state,omitempty"`
	Reason  string `json:"reason,omitempty"` // the last error
	Stderr  string `json:"stderr,omitempty"` // the line that says why, or the last one
	RetryMS int64  `json:"retryMs,omitempty"`
}

func (r refusal) error(code int, message string) *dragoman.Error {
	r.Source, r.Outcome = "gateway", protocol.OutcomeNotSent
	data, _ := json.Marshal(r) // strings encode
	return &dragoman.Error{Code: code, Message: message, Data: data}
}

// isRefusal reports whether an error is one of ours, of who was turned away.
func isRefusal(err error) bool {
	e, ok := errors.AsType[*dragoman.Error](err)
	return ok && dragoman.Member(e.Data, "server") != nil
}

// unavailable is the answer while the server is away. wait is when it is tried
// again, if that is known.
func (r refusal) unavailable(wait time.Duration) *dragoman.Error {
	text := fmt.Sprintf("server %q is not available", r.Server)
	if r.Reason != "" {
		text += ": " + r.Reason
	}
	if r.Stderr != "" && !strings.Contains(r.Reason, r.Stderr) {
		text += "; last line of its stderr: " + r.Stderr
	}
	if wait > 0 {
		r.RetryMS = wait.Milliseconds()
		text += fmt.Sprintf("; next attempt in %v", wait.Round(time.Millisecond))
	}
	return r.error(protocol.CodeUnavailable, text)
}

func (u *Upstream) refusal() refusal { return refusal{Server: u.name, State: u.State()} }

// overloaded is the answer when a limit is reached.
func (u *Upstream) overloaded(what string) *dragoman.Error {
	return u.refusal().error(protocol.CodeOverloaded, fmt.Sprintf("server %q is busy: %s; send the request again later", u.name, what))
}

// draining is the answer to what comes after the end.
func (u *Upstream) drained() *dragoman.Error {
	return u.refusal().error(protocol.CodeDraining, fmt.Sprintf("server %q is being stopped; send the request again later", u.name))
}
