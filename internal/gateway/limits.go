package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/limit"
	"github.com/dragoman-mcp/dragoman/internal/manager"
	"github.com/dragoman-mcp/dragoman/internal/pattern"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A limiter is a server with what its configuration says of how often it and its tools
// may be asked, by all callers together. What is refused has not been sent, and counts
// for nothing.
type limiter struct {
	dragoman.Peer
	limits *atomic.Pointer[serverLimits]
	log    *slog.Logger
}

// Call implements dragoman.Peer.
func (l *limiter) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	limits := l.limits.Load()
	if limits == nil || !isWork(req.Method()) {
		return l.Peer.Call(ctx, req, from)
	}
	if err := limits.enter(ctx, req); err != nil {
		l.log.Debug("request refused", "server", limits.name, "method", req.Method(), "name", req.Name(), "reason", err.Error())
		return answerRefused(req, err)
	}
	defer limits.leave(req)
	return l.Peer.Call(ctx, req, from)
}

// toolQueue is how many calls of the tools of a pattern may wait for each other.
const toolQueue = 64

// answerRefused answers a request that was refused by err, or whose caller has left.
func answerRefused(req *dragoman.Message, err error) (*dragoman.Message, error) {
	if e, ok := err.(*dragoman.Error); ok { //nolint:errorlint // ours are never wrapped
		return req.Fail(e), nil
	}
	return nil, err
}

// isWork reports whether a server works for requests of a method. Lists are mostly
// answered by what is known of them, and a union without one would offer less.
func isWork(method string) bool {
	switch method {
	case protocol.MethodInitialize, protocol.MethodPing, protocol.MethodDiscover, protocol.MethodListen:
		return false
	}
	return !protocol.IsList(method)
}

// serverLimits is what bounds how often a server and its tools are asked.
type serverLimits struct {
	name  string
	conf  bucketConfig // of bucket
	rate  *limit.Bucket
	tools []*toolLimit
}

// A bucketConfig is a rate as it is configured.
type bucketConfig struct {
	rate  limit.Rate
	burst int
}

// A toolLimit is what bounds the calls of the tools that fit a pattern.
type toolLimit struct {
	pattern string
	fits    func(tool string) bool
	conf    config.ToolLimit
	rate    *limit.Bucket
	line    limit.Line
}

// newServerLimits returns the limits of a server, nil if there are none. What is as
// before goes on as it is: who changes a file does not let anybody begin anew.
func newServerLimits(c *config.Server, before *serverLimits) *serverLimits {
	if c.Rate.Count == 0 && len(c.Tools.Limits) == 0 {
		return nil
	}
	if before == nil {
		before = &serverLimits{}
	}
	s := &serverLimits{name: c.Name, conf: bucketConfig{c.Rate, c.Burst}, rate: before.rate}
	if s.conf != before.conf {
		s.rate = limit.NewBucket(c.Rate, c.Burst)
	}
	for _, names := range slices.Sorted(maps.Keys(c.Tools.Limits)) {
		conf := c.Tools.Limits[names]
		t := &toolLimit{pattern: names, fits: pattern.Matcher(names), conf: conf, rate: limit.NewBucket(conf.Rate, conf.Burst), line: limit.Line{Max: conf.Calls, Queue: toolQueue}}
		if i := slices.IndexFunc(before.tools, func(b *toolLimit) bool { return b.pattern == names && b.conf == conf }); i >= 0 {
			t = before.tools[i]
		}
		s.tools = append(s.tools, t)
	}
	return s
}

// enter counts a request until leave. The error is a *dragoman.Error, or that of ctx.
func (s *serverLimits) enter(ctx context.Context, req *dragoman.Message) (err error) {
	entered := 0
	if req.Method() == protocol.MethodCallTool {
		for _, t := range s.tools {
			if err = t.enter(ctx, req.Name()); err != nil {
				break
			}
			entered++
		}
	}
	if err == nil {
		if wait := s.rate.Take(); wait > 0 {
			err = tooOften(protocol.LimitServer, fmt.Sprintf("server %q is asked too often", s.name), s.conf.rate, wait)
		}
	}
	if err != nil {
		for _, t := range s.tools[:entered] {
			t.leave(req.Name())
			t.cancel(req.Name())
		}
	}
	return err
}

// leave ends what enter has counted.
func (s *serverLimits) leave(req *dragoman.Message) {
	if req.Method() == protocol.MethodCallTool {
		for _, t := range s.tools {
			t.leave(req.Name())
		}
	}
}

func (t *toolLimit) enter(ctx context.Context, tool string) error {
	if !t.fits(tool) {
		return nil
	}
	switch err := t.line.Enter(ctx, manager.MaxAdmission); {
	case errors.Is(err, limit.ErrFull), errors.Is(err, limit.ErrLate):
		return tooMany(protocol.LimitTool, fmt.Sprintf("too many calls of %s are under way: there may be %d", t.pattern, t.line.Max))
	case err != nil:
		return err
	}
	if wait := t.rate.Take(); wait > 0 {
		t.line.Leave()
		return tooOften(protocol.LimitTool, t.pattern+" is called too often", t.conf.Rate, wait)
	}
	return nil
}

func (t *toolLimit) leave(tool string) {
	if t.fits(tool) {
		t.line.Leave()
	}
}

// cancel undoes that a call was counted by its rate.
func (t *toolLimit) cancel(tool string) {
	if t.fits(tool) {
		t.rate.Return()
	}
}

// tooOften is the error for what exceeds a rate.
func tooOften(scope, what string, rate limit.Rate, wait time.Duration) *dragoman.Error {
	return protocol.Limited(scope, fmt.Sprintf("%s: the limit is %v; send the request again in %v", what, rate, roundUp(wait)), wait)
}

// roundUp returns a time as it is told to people.
func roundUp(d time.Duration) time.Duration {
	unit := time.Millisecond
	if d > time.Second {
		unit = 100 * time.Millisecond
	}
	return (d + unit - 1).Truncate(unit)
}

// crowded is how long to wait for a place that somebody else has.
const crowded = time.Second

// tooMany is the error for what there is too much of at once.
func tooMany(scope, what string) *dragoman.Error {
	return protocol.Limited(scope, what+"; send the request again later", crowded)
}
