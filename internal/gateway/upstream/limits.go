package upstream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/util/limit"
	"github.com/dragoman-mcp/dragoman/internal/util/pattern"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// toolQueue is how many calls of the tools of a pattern may wait for each other.
const toolQueue = 64

// isWork reports whether a server works for requests of a method. Lists are mostly
// answered by what is known of them, and an aggregate without one would offer less.
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
// before is kept: a reload does not reset limits.
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
			err = TooOften(protocol.LimitServer, fmt.Sprintf("server %q is asked too often", s.name), s.conf.rate, wait)
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
	switch err := t.line.Enter(ctx, MaxAdmission); {
	case errors.Is(err, limit.ErrFull), errors.Is(err, limit.ErrLate):
		return TooMany(protocol.LimitTool, fmt.Sprintf("too many calls of %s are in flight: there may be %d", t.pattern, t.line.Max))
	case err != nil:
		return err
	}
	if wait := t.rate.Take(); wait > 0 {
		t.line.Leave()
		return TooOften(protocol.LimitTool, t.pattern+" is called too often", t.conf.Rate, wait)
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

// TooOften is the error for what exceeds a rate.
func TooOften(scope, what string, rate limit.Rate, wait time.Duration) *dragoman.Error {
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

// TooMany is the error for what there is too much of at once.
func TooMany(scope, what string) *dragoman.Error {
	return protocol.Limited(scope, what+"; send the request again later", crowded)
}
