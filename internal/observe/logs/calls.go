package logs

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/gateway/event"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// CallRecord is the message of the log records of calls.
const CallRecord = "call"

const (
	// DefaultSlow is how long a call may take before that is a warning.
	DefaultSlow = 10 * time.Second

	// warnAgain is how long a failure of a server may continue before a call that fails by it
	// is a warning once more.
	warnAgain = time.Minute

	// smallResponse is how long a response may be to be searched for what a tool says of its
	// outcome: those that say that they failed are short.
	smallResponse = 4 << 10

	// maxOutcome is how much of an error is logged.
	maxOutcome = 300
)

// Calls is an [event.Observer] that logs each request to a server and what became of it.
type Calls struct {
	event.Nop
	Log  *slog.Logger
	Base slog.Level   // of calls with which nothing is wrong
	Slow atomic.Int64 // from which duration on a call is slow; 0 if none is

	failing atomic.Int64 // how many servers have a warning below
	mu      sync.Mutex
	warned  map[string]map[int]time.Time // by server, when a failure of a code was last a warning
}

var _ event.Observer = (*Calls)(nil)

// noResponse is the code of failures without a response.
const noResponse = 0

// End logs a call. Nothing is read of the messages but what is known of them, and little more of
// small ones. The requests to an aggregate are logged as those to its members.
func (l *Calls) End(ctx context.Context, x *event.Exchange) {
	if x.Role == event.AggregateEndpoint || x.Refusal != nil && !x.Refusal.Admitted {
		return
	}
	req, resp := x.Request, x.Response
	level, outcome := l.Base, "answered"
	if protocol.IsUpkeep(req.Method()) {
		level = min(level, slog.LevelDebug)
	}
	switch {
	case x.Cancelled():
		outcome = "cancelled"
	case x.Err != nil:
		outcome, level = brief(x.Err.Error()), l.level(x.Server, noResponse)
	case resp == nil:
		outcome = "no answer"
	case resp.IsError():
		e := resp.RPCError()
		if outcome = brief(e.Message); protocol.IsGatewayError(e) {
			level = l.level(x.Server, e.Code)
		}
	default:
		l.answered(x.Server)
	}
	took := time.Since(x.Began)
	if !protocol.Lasts(req.Method()) {
		if limit := l.Slow.Load(); limit > 0 && took >= time.Duration(limit) {
			level, outcome = slog.LevelWarn, outcome+", slow"
		}
	}
	if !l.Log.Enabled(ctx, level) {
		return
	}
	if outcome == "answered" && req.Method() == protocol.MethodCallTool && resp.Len() <= smallResponse && string(resp.Get("isError")) == "true" {
		outcome = "tool error"
	}
	out := 0
	if resp != nil {
		out = resp.Len()
	}
	attrs := make([]slog.Attr, 0, 9)
	attrs = append(attrs, slog.String("client", clientOf(x)), slog.String("server", x.Server), slog.String("method", redact.Clip(req.Method())))
	if name := redact.Clip(cmp.Or(req.Name(), redact.URI(req.URI()))); name != "" {
		attrs = append(attrs, slog.String("name", name))
	}
	attrs = append(attrs, slog.Duration("took", took), slog.String("outcome", outcome),
		slog.Int("in", req.Len()), slog.Int("out", out), slog.String("request", httpframe.RequestID(ctx)))
	r := slog.NewRecord(x.Began.Add(took), level, CallRecord, 0) // the place in our code tells nobody anything
	r.AddAttrs(attrs...)
	_ = l.Log.Handler().Handle(ctx, r) // there is nowhere else to say it
}

// level returns how important it is that a call of a server failed with that code: the first is
// a warning, and then one a minute. What the failure says does not count: it may be another text
// each time.
func (l *Calls) level(server string, code int) slog.Level {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	warned := l.warned[server]
	if at, ok := warned[code]; ok && now.Sub(at) < warnAgain {
		return l.Base
	}
	if warned == nil {
		if l.warned == nil {
			l.warned = make(map[string]map[int]time.Time)
		}
		warned = make(map[int]time.Time) // there are few codes of ours
		l.warned[server] = warned
		l.failing.Store(int64(len(l.warned)))
	}
	warned[code] = now
	return slog.LevelWarn
}

// answered notes that a server has answered: its next failure is another one.
func (l *Calls) answered(server string) {
	if l.failing.Load() > 0 {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.warned, server)
		l.failing.Store(int64(len(l.warned)))
	}
}

// clientOf returns the client of a request: who it has proven to be, or the name that it gives
// itself, or else its address.
func clientOf(x *event.Exchange) string {
	c := x.Caller
	if known := cmp.Or(c.Principal, c.Client); known != "" {
		return known
	}
	return cmp.Or(redact.Clip(protocol.ClientName(x.Request)), x.ClientName(), c.Address, c.Transport)
}

// brief returns the beginning of an error's text, in a line and without credentials.
func brief(text string) string {
	text, _, more := strings.Cut(text, "\n")
	if text = redact.Text(redact.Cut(text, maxOutcome)); more && !strings.HasSuffix(text, "…") {
		text += "…"
	}
	return text
}
