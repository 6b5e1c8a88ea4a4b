package gateway

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/audit"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/internal/redact"
	"github.com/dragoman-mcp/dragoman/internal/trace"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// CallRecord is the message of the log records of calls.
const CallRecord = "call"

const (
	// defaultSlow is how long a call may take before that is a warning.
	defaultSlow = 10 * time.Second

	// warnAgain is how long a failure of a server may go on before a call that fails by it
	// is a warning once more.
	warnAgain = time.Minute

	// smallAnswer is how long an answer may be to be searched for what a tool says of its
	// outcome: those that say that they failed are short.
	smallAnswer = 4 << 10

	// maxOutcome is how much of an error is logged.
	maxOutcome = 300
)

// A callLog is where the calls of one server are logged, and written down in the audit log.
type callLog struct {
	server string
	log    *slog.Logger
	audit  *audit.Log    // nil if there is none
	base   slog.Level    // of calls with which nothing is wrong
	slow   *atomic.Int64 // from which duration on a call is slow; nil and 0 if none is

	failing atomic.Bool // there is a warning below
	mu      sync.Mutex
	warned  map[int]time.Time // when a failure of a code was last a warning
}

// noAnswer is the code of failures that are no answer.
const noAnswer = 0

// level returns how important it is that a call failed with that code: the first is a
// warning, and then one a minute. What the failure says does not count: it may be another
// text each time.
func (l *callLog) level(code int) slog.Level {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if at, ok := l.warned[code]; ok && now.Sub(at) < warnAgain {
		return l.base
	}
	if l.warned == nil {
		l.warned = make(map[int]time.Time)
	}
	l.warned[code] = now // there are few codes of ours
	l.failing.Store(true)
	return slog.LevelWarn
}

// answered notes that the server has answered: its next failure is another one.
func (l *callLog) answered() {
	if l.failing.Load() {
		l.mu.Lock()
		defer l.mu.Unlock()
		clear(l.warned)
		l.failing.Store(false)
	}
}

// A recorder is a peer that logs what it is asked, and what came of it, under the id of the
// request, which travels on with it, and writes it down in the audit log. It makes the
// answers of denials.
type recorder struct {
	dragoman.Peer
	calls *callLog

	caller *dragoman.Caller       // of a conversation; nil if each request has its own
	client atomic.Pointer[string] // its name, if the conversation has said it
}

// Call implements dragoman.Peer.
func (p *recorder) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if !httpx.HasRequestID(ctx) {
		ctx = httpx.WithNewRequestID(ctx)
	}
	to := p.calls.audit
	if to != nil {
		passedOn(ctx, req)
	}
	if err := to.Ready(); err != nil {
		return req.Fail(protocol.Overloaded(err.Error())), nil
	}
	began := time.Now()
	resp, err := p.Peer.Call(ctx, req, from)
	if to != nil {
		p.write(ctx, began, req, resp, err)
	}
	if d, ok := errors.AsType[*denial](err); ok {
		resp, err = req.Fail(d.answer), nil
	}
	p.log(ctx, began, req, resp, err)
	return resp, err
}

// log logs a call. Nothing is read of the messages but what is known of them, and little
// more of small ones.
func (p *recorder) log(ctx context.Context, began time.Time, req, resp *dragoman.Message, err error) {
	l := p.calls
	level, outcome := l.base, "answered"
	if protocol.IsUpkeep(req.Method()) {
		level = min(level, slog.LevelDebug)
	}
	switch {
	case errors.Is(err, dragoman.ErrCancelled), errors.Is(err, context.Canceled):
		outcome = "cancelled"
	case err != nil:
		outcome, level = brief(err.Error()), l.level(noAnswer)
	case resp == nil:
		outcome = "no answer"
	case resp.IsError():
		e := resp.RPCError()
		if outcome = brief(e.Message); protocol.IsOwn(e) {
			level = l.level(e.Code)
		}
	default:
		l.answered()
	}
	took := time.Since(began)
	if l.slow != nil && req.Method() != protocol.MethodListen {
		if limit := l.slow.Load(); limit > 0 && took >= time.Duration(limit) {
			level, outcome = slog.LevelWarn, outcome+", slow"
		}
	}
	if !l.log.Enabled(ctx, level) {
		return
	}
	if outcome == "answered" && req.Method() == protocol.MethodCallTool && resp.Len() <= smallAnswer && string(resp.Get("isError")) == "true" {
		outcome = "tool error"
	}
	out := 0
	if resp != nil {
		out = resp.Len()
	}
	attrs := make([]slog.Attr, 0, 9)
	attrs = append(attrs, slog.String("client", p.who(ctx, req)), slog.String("server", l.server), slog.String("method", redact.Clip(req.Method())))
	if name := redact.Clip(cmp.Or(req.Name(), redact.URI(req.URI()))); name != "" {
		attrs = append(attrs, slog.String("name", name))
	}
	attrs = append(attrs, slog.Duration("took", took), slog.String("outcome", outcome),
		slog.Int("in", req.Len()), slog.Int("out", out), slog.String("request", httpx.RequestID(ctx)))
	r := slog.NewRecord(began.Add(took), level, CallRecord, 0) // the place in our code tells nobody anything
	r.AddAttrs(attrs...)
	_ = l.log.Handler().Handle(ctx, r) // there is nowhere else to say it
}

// who returns the client of a request: who it has proven to be, or the name that it gives
// itself, or else its address.
func (p *recorder) who(ctx context.Context, req *dragoman.Message) string {
	c := p.caller
	if c == nil {
		c = dragoman.CallerOf(ctx)
	}
	if known := cmp.Or(c.Principal, c.Client); known != "" {
		return known
	}
	return cmp.Or(p.clientName(req), c.Address, c.Door)
}

// brief returns the beginning of an error's text, in a line and without credentials.
func brief(text string) string {
	text, _, more := strings.Cut(text, "\n")
	if len(text) > maxOutcome {
		text, more = strings.ToValidUTF8(text[:maxOutcome], ""), true
	}
	if text = redact.Text(text); more {
		text += "…"
	}
	return text
}

// write writes a call down.
func (p *recorder) write(ctx context.Context, began time.Time, req, resp *dragoman.Message, err error) {
	who := p.caller
	if who == nil {
		who = dragoman.CallerOf(ctx)
	}
	to := p.calls.audit
	e := newCall(ctx, who, began, req, resp)
	e.Server = p.calls.server
	if e.Client == "" {
		e.Client = p.clientName(req)
	}
	if to.WantsArguments() {
		e.Arguments = audit.Arguments(req.Get("arguments"))
	}
	outcome(&e, req, resp, err)
	to.Record(e)
}

// clientName returns what the client of a request calls itself. A conversation says it once.
func (p *recorder) clientName(req *dragoman.Message) string {
	name := redact.Clip(protocol.ClientName(req))
	if p.caller == nil {
		return name
	}
	if name != "" {
		kept := strings.Clone(name)
		p.client.Store(&kept)
	}
	if known := p.client.Load(); known != nil {
		return *known
	}
	return ""
}

// recorded returns a backend whose calls are logged as those of a server.
func recorded(s *Backend, calls *callLog) *Backend {
	in := *s
	record := func(a dragoman.Acceptor) dragoman.Acceptor {
		if a == nil {
			return nil
		}
		return dragoman.AcceptFunc(func(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
			peer, err := a.Accept(ctx, client)
			if err != nil {
				return nil, err
			}
			return &recorder{Peer: peer, calls: calls, caller: dragoman.CallerOf(ctx)}, nil
		})
	}
	in.Acceptor, in.Sessions = record(s.Acceptor), record(s.Sessions)
	if s.Requests != nil {
		in.Requests = &recorder{Peer: s.Requests, calls: calls}
	}
	return &in
}

// traced returns a backend whose messages are shown at the level debug.
func traced(s *Backend, log *slog.Logger) *Backend {
	in := *s
	if s.Acceptor != nil {
		in.Acceptor = trace.Acceptor(s.Acceptor, log)
	}
	if s.Sessions != nil {
		in.Sessions = trace.Acceptor(s.Sessions, log)
	}
	if s.Requests != nil {
		in.Requests = trace.Client(s.Requests, log)
	}
	return &in
}
