package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/observe/audit"
	"github.com/dragoman-mcp/dragoman/internal/observe/logs"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
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
	if !httpframe.HasRequestID(ctx) {
		ctx = httpframe.WithNewRequestID(ctx)
	}
	began := time.Now()
	if p.calls.audit != nil && passingOf(ctx) == nil {
		if err := announce(ctx, p.calls.audit, req, func() audit.Event { return p.event(ctx, began, req, nil) }); err != nil {
			return p.unwritten(ctx, began, req, err)
		}
	}
	resp, err := p.Peer.Call(ctx, req, from)
	if p.calls.audit != nil {
		p.write(ctx, began, req, resp, err)
	}
	if d, ok := errors.AsType[*denial](err); ok {
		resp, err = req.Fail(d.answer), nil
	}
	p.log(ctx, began, req, resp, err)
	return resp, err
}

// announce writes that a request is about to be passed on, if the audit log wants that.
func announce(ctx context.Context, to *audit.Log, req *dragoman.Message, event func() audit.Event) error {
	switch {
	case !to.Refuses():
		return nil
	case isHousekeeping(req):
		return to.Ready()
	}
	e := event()
	return to.Begin(ctx, &e)
}

// unwritten answers a request that is not passed on since it could not be written that it is.
func (p *recorder) unwritten(ctx context.Context, began time.Time, req *dragoman.Message, err error) (*dragoman.Message, error) {
	if ctx.Err() != nil {
		p.write(ctx, began, req, nil, err)
		return nil, err
	}
	return req.Fail(protocol.Overloaded(err.Error())), nil
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
	if l.slow != nil && !protocol.Lasts(req.Method()) {
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
		slog.Int("in", req.Len()), slog.Int("out", out), slog.String("request", httpframe.RequestID(ctx)))
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
	if text = redact.Text(redact.Cut(text, maxOutcome)); more && !strings.HasSuffix(text, "…") {
		text += "…"
	}
	return text
}

// write writes to the audit log what has become of a call.
func (p *recorder) write(ctx context.Context, began time.Time, req, resp *dragoman.Message, err error) {
	e := p.event(ctx, began, req, resp)
	outcome(&e, req, resp, err)
	if in := passingOf(ctx); in != nil {
		in.add(&e)
		return
	}
	record(p.calls.audit, req, &e)
}

// record writes an event of a call to the audit log, unless it is housekeeping that went well.
func record(to *audit.Log, req *dragoman.Message, e *audit.Event) {
	if e.Outcome != audit.Answered && e.Outcome != audit.Cancelled || !isHousekeeping(req) {
		to.Record(*e)
	}
}

// isHousekeeping reports whether a request asks for nothing that a server offers. A listen does if it names resources
// or tasks.
func isHousekeeping(req *dragoman.Message) bool {
	if req.Method() == protocol.MethodListen {
		i := protocol.InterestOf(req)
		return len(i.URIs) == 0 && len(i.Tasks) == 0
	}
	return protocol.IsUpkeep(req.Method())
}

// event returns the event of a call, without its outcome. The response is nil if there is none.
func (p *recorder) event(ctx context.Context, began time.Time, req, resp *dragoman.Message) audit.Event {
	who := p.caller
	if who == nil {
		who = dragoman.CallerOf(ctx)
	}
	e := newCall(ctx, who, began, req, resp)
	e.Server = p.calls.server
	if e.Client == "" {
		e.Client = p.clientName(req)
	}
	if p.calls.audit.WantsArguments() {
		e.Arguments = audit.Arguments(req.Get("arguments"))
	}
	return e
}

// clientName returns what the client of a request calls itself. A conversation says it once.
func (p *recorder) clientName(req *dragoman.Message) string {
	name := redact.Clip(protocol.ClientName(req))
	if p.caller == nil {
		return name
	}
	if name != "" {
		own := strings.Clone(name)
		p.client.Store(&own)
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
		in.Acceptor = logs.Acceptor(s.Acceptor, log)
	}
	if s.Sessions != nil {
		in.Sessions = logs.Acceptor(s.Sessions, log)
	}
	if s.Requests != nil {
		in.Requests = logs.Client(s.Requests, log)
	}
	return &in
}

// openAudit opens the audit log, if the configuration has one.
func (g *Gateway) openAudit(file *config.File) (err error) {
	if file.Audit.File == "" {
		return nil
	}
	if g.audit, err = audit.Open(file.Audit.File, g.auditOptions(&file.Audit)); err != nil {
		return err
	}
	g.audit.Record(audit.Event{Kind: audit.Start, Reason: fmt.Sprintf("%s %s, %d servers", g.opts.Name, g.opts.Version, len(file.Servers))})
	return nil
}

func (g *Gateway) auditOptions(a *config.Audit) *audit.Options {
	o := &audit.Options{
		MaxSize: int64(a.MaxSize), MaxAge: a.MaxAge, Keep: a.Keep, Refuse: a.OnFailure == "refuse", Arguments: a.Arguments, Logger: g.log,
	}
	if w := a.Webhook; w.URL != "" {
		o.Webhook = &audit.Webhook{URL: w.URL, Events: w.Events, Keys: w.Keys}
	}
	return o
}

// closeAudit writes down the end. Everything else has ended before.
func (g *Gateway) closeAudit(cut error) error {
	g.audit.Record(audit.Event{Kind: audit.Stop, Reason: reasonOf(cut)})
	return g.audit.Close()
}

// auditReload writes down what came of a reload.
func (g *Gateway) auditReload(r *Reloaded) {
	e := audit.Event{Kind: audit.Reload, Time: r.At, Outcome: audit.Answered}
	if r.Failed {
		e.Outcome, e.Reason = audit.Failed, "the configuration has errors, the previous one stays in force"
	} else {
		c := &r.Changes
		e.Reason = fmt.Sprintf("added %q, replaced %q, removed %q, left out because of errors %d", c.Added, c.Replaced, c.Removed, len(r.LeftOut))
	}
	g.audit.Record(e)
}

// Audit returns the audit log, for events that others know of: sign-ins, tokens. It is
// nil if there is none, which takes them too.
func (g *Gateway) Audit() *audit.Log { return g.audit }

func reasonOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// A denial is the answer to a request that a rule of ours denies, on its way to the
// recorder, which makes it one.
type denial struct {
	rule   string
	answer *dragoman.Error
}

// Error implements error.
func (d *denial) Error() string { return d.rule + ": " + d.answer.Message }

// outcome returns what has become of a call, as it is written down. No message of a server is:
// it may repeat what it was given.
func outcome(e *audit.Event, req, resp *dragoman.Message, err error) {
	denied, isDenied := errors.AsType[*denial](err)
	switch {
	case isDenied:
		e.Outcome, e.Rule, e.Code = audit.Denied, denied.rule, denied.answer.Code
		return
	case errors.Is(err, dragoman.ErrCancelled), errors.Is(err, context.Canceled):
		e.Outcome = audit.Cancelled
		return
	case err != nil:
		resp = protocol.Failure(req, err)
	case resp == nil:
		e.Outcome = audit.Unknown
		return
	case !resp.IsError():
		e.Outcome = audit.Answered
		return
	}
	failure := resp.RPCError()
	e.Outcome, e.Code = audit.Failed, failure.Code
	if protocol.IsOwn(failure) {
		e.Outcome, e.Reason = audit.Unknown, failure.Message
		switch failure.Code {
		case protocol.CodeUnavailable, protocol.CodeOverloaded, protocol.CodeDraining, protocol.CodeSignIn:
			e.Outcome = audit.Refused
		case protocol.CodeDenied:
			e.Outcome = audit.Denied
		}
	}
}

// A unionRecorder is a union whose requests are each one record. That of a request that was passed on is what the
// chain of its server has to say; what a union asks servers besides, such as for lists, is not written.
type unionRecorder struct {
	dragoman.Peer
	audit *audit.Log
}

// A passing has what the chains of servers say of a request to a union.
type passing struct {
	method string

	mu   sync.Mutex
	last *audit.Event // nil if it was not passed on; guarded by mu
}

type passingKey struct{}

// passingOf returns the request to a union on behalf of which servers are asked, or nil.
func passingOf(ctx context.Context) *passing {
	p, _ := ctx.Value(passingKey{}).(*passing)
	return p
}

// add takes the event of a request to a server. A union may try several for one request: an answer counts most.
func (p *passing) add(e *audit.Event) {
	if e.Method != p.method {
		return // to find out who is meant
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == nil || p.last.Outcome != audit.Answered {
		p.last = e
	}
}

// event returns the event of the request that was passed on, or nil. A list or housekeeping is a matter of all servers.
func (p *passing) event() *audit.Event {
	if protocol.IsList(p.method) || protocol.IsUpkeep(p.method) {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// Unwrap returns the union itself.
func (p *unionRecorder) Unwrap() dragoman.Peer { return p.Peer }

// Call implements dragoman.Peer.
func (p *unionRecorder) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if !httpframe.HasRequestID(ctx) {
		ctx = httpframe.WithNewRequestID(ctx) // all that is asked for it has the same
	}
	began, pass := time.Now(), &passing{method: req.Method()}
	err := announce(ctx, p.audit, req, func() audit.Event { return p.event(ctx, began, req, nil) })
	var resp *dragoman.Message
	switch {
	case err == nil:
		resp, err = p.Peer.Call(context.WithValue(ctx, passingKey{}, pass), req, from)
	case ctx.Err() == nil:
		return req.Fail(protocol.Overloaded(err.Error())), nil
	}
	e := pass.event()
	if e == nil {
		own := p.event(ctx, began, req, resp)
		if outcome(&own, req, resp, err); own.Outcome == audit.Failed && resp != nil {
			own.Outcome, own.Reason = audit.Refused, resp.RPCError().Message // of ours
		}
		e = &own
	}
	record(p.audit, req, e)
	return resp, err
}

// event returns the event of a request, without its outcome. The response is nil if there is none.
func (p *unionRecorder) event(ctx context.Context, began time.Time, req, resp *dragoman.Message) audit.Event {
	e := newCall(ctx, dragoman.CallerOf(ctx), began, req, resp)
	if e.Client == "" {
		e.Client = redact.Clip(protocol.ClientName(req))
	}
	if p.audit.WantsArguments() {
		e.Arguments = audit.Arguments(req.Get("arguments"))
	}
	return e
}

// newCall returns the event of a call that has ended.
func newCall(ctx context.Context, who *dragoman.Caller, began time.Time, req, resp *dragoman.Message) audit.Event {
	e := audit.Event{
		Kind: audit.Call, Time: time.Now(), Request: httpframe.RequestID(ctx), Who: audit.WhoIs(who),
		Method: req.Method(), Name: cmp.Or(req.Name(), req.URI()), In: req.Len(),
	}
	e.Duration = e.Time.Sub(began)
	if resp != nil {
		e.Out = resp.Len()
	}
	return e
}

// audited returns a backend whose sessions are written down, under a name.
func (g *Gateway) audited(name string, s *Backend) *Backend {
	if g.audit == nil {
		return s
	}
	in := *s
	watch := func(a dragoman.Acceptor) dragoman.Acceptor {
		if a == nil {
			return nil
		}
		return dragoman.AcceptFunc(func(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
			peer, err := a.Accept(ctx, client)
			if err == nil {
				g.watchSession(ctx, name, client)
			}
			return peer, err
		})
	}
	in.Acceptor, in.Sessions = watch(s.Acceptor), watch(s.Sessions)
	return &in
}

// watchSession writes down that a session was opened, and when it ends.
func (g *Gateway) watchSession(ctx context.Context, name string, client dragoman.Conn) {
	e := audit.Event{Kind: audit.SessionOpened, Request: httpframe.RequestID(ctx), Who: audit.WhoIs(dragoman.CallerOf(ctx)), Server: name}
	began := time.Now()
	// Ends with the session, or with us.
	if g.watching.Start(func() {
		select {
		case <-client.Done():
		case <-g.ended.Done():
		}
		e := e
		e.Kind, e.Duration = audit.SessionClosed, time.Since(began)
		g.audit.Record(e)
	}) {
		g.audit.Record(e)
	}
}

// deny writes down that a request was refused before it had come to a server. rule says by
// what.
func (g *Gateway) deny(r *http.Request, door, rule string, err error) {
	if g.audit == nil {
		return
	}
	e := audit.Event{Request: httpframe.RequestID(r.Context()), Method: r.Method, Name: r.URL.Path, Rule: rule, Code: http.StatusForbidden, Reason: reasonOf(err)}
	if c, err := httpserver.ByAddress(r); err == nil {
		e.Who = audit.WhoIs(c)
	}
	e.Door = door
	if refusal, ok := errors.AsType[*httpserver.Refusal](err); ok {
		e.Reason = refusal.Message
		if refusal.Status != 0 {
			e.Code = refusal.Status
		}
	}
	g.audit.Deny(e)
}
