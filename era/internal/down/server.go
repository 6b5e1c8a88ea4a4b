package down

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/pool"
	"github.com/dragoman-mcp/dragoman/era/internal/rounds"
	"github.com/dragoman-mcp/dragoman/internal/util/syncs"
	"github.com/dragoman-mcp/dragoman/internal/wire/token"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Defaults of [Options].
const (
	// DefaultMaxSuspended is how many calls may wait for their client to come back,
	// and DefaultSuspendedPerCaller how many of one caller.
	DefaultMaxSuspended       = 1024
	DefaultSuspendedPerCaller = 64

	// DefaultSuspendTimeout is how long each of them waits.
	DefaultSuspendTimeout = 10 * time.Minute

	// DefaultMaxRounds is how often one call may ask its client.
	DefaultMaxRounds = 32

	// DefaultGather is how long further questions are waited for after the first
	// of a round. Whoever answers them takes longer, and a busy server may need it.
	DefaultGather = 25 * time.Millisecond
)

// Limits that cannot be set.
const (
	// MaxServerRequests limits the pending server requests of one session.
	MaxServerRequests = 1024

	// maxWaiting is how many bytes of calls, answers and server requests of one server may
	// wait for clients, and half of it what waits for one caller.
	maxWaiting = 64 << 20

	// maxProgress is up to which size progress is kept while nobody can be told.
	maxProgress = 64 << 10

	// MaxListens is how many subscriptions one session serves.
	MaxListens = 1024

	// partTimeout bounds what is said to a server when its client has gone:
	// the end of a subscription or of a task.
	partTimeout = 5 * time.Second

	// settleTimeout is how long a server may take over the first ping of a session
	// whose client has roots, see session.settle.
	settleTimeout = 250 * time.Millisecond

	// useTime is how long a server has to put answers to use that it asked for before
	// the first call, such as to look at the folders of the roots. It is pinged usePings
	// times meanwhile: a server that is short of time has more of it.
	useTime  = 100 * time.Millisecond
	usePings = 5

	// ownTime is after how long a question in the session of our own is refused if a
	// request to the server is in flight, which may wait for it.
	ownTime = 2 * time.Second
)

// Options says how a legacy server is used. The zero value holds the defaults.
type Options struct {
	// Name and Version are what we call ourselves when a client does not say who
	// it is. If empty, they are "dragoman" and dragoman.Version.
	Name, Version string

	// Revisions are what server/discover names, modern ones first. If nil, it is
	// the latest.
	Revisions []protocol.Revision

	// Owner says whose sessions a request may use. Owners share nothing. If nil,
	// all requests are of one.
	Owner func(context.Context) pool.Key

	// PerRequest opens a session for every request and closes it behind it. Shared
	// says that a session may serve several callers: then the server is told that
	// nobody can be asked anything.
	PerRequest, Shared bool

	// Changed is called with what the server tells of changes outside of calls, and
	// whose session it was. It may be nil.
	Changed func(whose *dragoman.Caller, note *dragoman.Message)

	// Refused is called when the server does not take a handshake. It may be nil.
	Refused func()

	// Assumed reports whether it is only assumed that the server takes a handshake. Then the end of
	// the connection is a refusal, too. Accepted is called when it takes one. Both may be nil.
	Assumed  func() bool
	Accepted func()

	// Doubtful reports whether the server may take a handshake and refuse all that
	// follows, as a modern one may. It may be nil.
	Doubtful func() bool

	// Pool keeps the sessions. If nil, New makes one.
	Pool *pool.Pool

	// MaxSuspended is how many calls may wait for their client's answers, and
	// SuspendedPerCaller how many of one caller. Over it, questions are answered
	// with an error and the call continues.
	MaxSuspended, SuspendedPerCaller int

	// SuspendTimeout is how long each of them waits. Then the call is cancelled.
	SuspendTimeout time.Duration

	// MaxRounds is how often a call may ask its client. After that, its questions
	// are answered with an error.
	MaxRounds int

	// Gather is how long further questions are waited for after the first of a
	// round, so that those asked side by side reach the client together.
	Gather time.Duration

	// TTL is for how long clients may take a list, or what server/discover says,
	// for the current one.
	TTL time.Duration

	// Logger is told what is dropped. If nil, nothing is logged.
	Logger *slog.Logger
}

func (o *Options) withDefaults() Options {
	var full Options
	if o != nil {
		full = *o
	}
	if full.Name == "" {
		full.Name = "dragoman"
	}
	if full.Version == "" {
		full.Version = dragoman.Version
	}
	if full.Revisions == nil {
		full.Revisions = []protocol.Revision{protocol.Latest}
	}
	if full.Owner == nil {
		full.Owner = func(context.Context) pool.Key { return pool.Key{} }
	}
	if full.Pool == nil {
		full.Pool = pool.New(nil)
	}
	fill(&full.MaxSuspended, DefaultMaxSuspended)
	fill(&full.SuspendedPerCaller, DefaultSuspendedPerCaller)
	fill(&full.SuspendTimeout, DefaultSuspendTimeout)
	fill(&full.MaxRounds, DefaultMaxRounds)
	fill(&full.Gather, DefaultGather)
	full.Logger = cmp.Or(full.Logger, slog.New(slog.DiscardHandler))
	return full
}

// fill gives a limit that was left out its default.
func fill[T int | time.Duration](v *T, fallback T) {
	if *v <= 0 {
		*v = fallback
	}
}

// A Server is a legacy server as modern clients see it.
type Server struct {
	dial func(context.Context, dragoman.Peer) (dragoman.Conn, error)
	opts Options
	log  *slog.Logger

	ctx    context.Context // ends with Close
	cancel context.CancelCauseFunc
	busy   syncs.Group // our goroutines

	kinds     clientKinds
	askers    askers
	pool      *pool.Pool
	suspended suspended
	listens   listens
	seal      *token.Sealer
	ids       atomic.Int64 // of requests that we make up
}

var _ dragoman.Peer = (*Server)(nil)

// New returns a peer of the modern era for a legacy server. dial opens a conversation with
// it that is not initialized yet; local is asked and told what belongs to no call.
// Changes are not promised to anybody if the Conn is a [dragoman.BackgroundReceiver] that
// receives nothing. opts may be nil.
func New(dial func(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error), opts *Options) *Server {
	s := &Server{dial: dial, opts: opts.withDefaults(), seal: rounds.NewSealer()}
	s.log, s.pool = s.opts.Logger, s.opts.Pool
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.suspended.init(s)
	return s
}

// A request is one of a client's. It wants a session that was opened with what its client
// can be asked, if the server may answer it by asking.
type request struct {
	*dragoman.Message
	server *Server
	from   dragoman.Peer // may be nil
	owner  pool.Key
	main   bool              // it is our own
	again  bool              // it has been sent before, on a conversation that was lost
	stays  bool              // its session stays open
	rev    protocol.Revision // the client's
	kind   *clientKind
	level  int             // of log messages that are wanted, or -1
	info   json.RawMessage // how the client introduces itself, or nil
}

// Call implements dragoman.Peer.
func (s *Server) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	return s.serve(ctx, req, from, false)
}

// Main returns the peer for requests of our own. They have a session that is nobody
// else's, unless sessions are shared, and that stays open. What the server asks there
// is answered at once, since there is nobody to ask.
func (s *Server) Main() dragoman.Peer {
	return dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
		return s.serve(ctx, req, from, true)
	}}
}

// mainOwner is whose the sessions of our own are. The server is told there that
// everything can be asked, so that it lists what it offers to those who can be.
// Requests that declare extensions have sessions of their own there, which are closed
// when they are not used.
var (
	mainOwner = pool.Key{Caller: "\x00main"}
	mainCaps  = json.RawMessage(`{"roots":{},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}}}`)
)

// withExtensions returns capabilities with the extensions that others have.
func withExtensions(caps, others json.RawMessage) json.RawMessage {
	if extensions := dragoman.Member(others, "extensions"); extensions != nil {
		return dragoman.WithMember(caps, "extensions", extensions)
	}
	return caps
}

func (s *Server) serve(ctx context.Context, req *dragoman.Message, from dragoman.Peer, main bool) (*dragoman.Message, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	r, refusal := s.read(ctx, req, from, main)
	if refusal != nil {
		return req.Fail(refusal), nil
	}
	switch req.Method() {
	case protocol.MethodDiscover:
		return s.discover(ctx, &r)
	case protocol.MethodListen:
		return s.listen(ctx, &r)
	case protocol.MethodCallTool, protocol.MethodGetPrompt, protocol.MethodReadResource:
		switch {
		case given(req, "requestState") != nil || given(req, "inputResponses") != nil:
			return s.resume(ctx, &r)
		case r.kind.can.Any():
			return s.begin(ctx, &r, 0)
		}
	case protocol.MethodInitialize, protocol.MethodPing, protocol.MethodSetLevel,
		protocol.MethodSubscribe, protocol.MethodUnsubscribe,
		protocol.MethodGetTask, protocol.MethodTaskResult, protocol.MethodListTasks, protocol.MethodCancelTask, protocol.MethodUpdateTask,
		protocol.MethodListRoots, protocol.MethodCreateMessage, protocol.MethodElicit:
		return req.Fail(&dragoman.Error{
			Code:    protocol.CodeMethodNotFound,
			Message: fmt.Sprintf("method not found: %s; revision %s has no such method here", req.Method(), r.rev),
		}), nil
	}
	if protocol.IsList(req.Method()) {
		return s.list(ctx, &r)
	}
	return s.forward(ctx, &r)
}

// Notify implements dragoman.Peer. A modern client has nothing to tell a server:
// cancelling is the business of whoever made the call.
func (s *Server) Notify(context.Context, *dragoman.Message) error { return nil }

// read reads the envelope of a request.
func (s *Server) read(ctx context.Context, req *dragoman.Message, from dragoman.Peer, main bool) (request, *dragoman.Error) {
	r := request{Message: req, server: s, from: from, level: -1, main: main}
	env, err := protocol.ReadEnvelope(req)
	if err != nil {
		return r, invalid("%v", err)
	}
	r.rev = protocol.ParseRevision(env.Version)
	if r.rev.Era() != protocol.Modern || !slices.Contains(s.opts.Revisions, r.rev) {
		return r, protocol.Unsupported(env.Version, protocol.Names(s.opts.Revisions))
	}
	caps := env.Capabilities
	switch {
	case s.opts.Shared:
		caps = withExtensions(json.RawMessage("{}"), caps)
	case main:
		caps = withExtensions(mainCaps, caps)
	}
	if r.kind, err = s.kinds.of(caps); err != nil {
		return r, invalid("params._meta.%s cannot be read: %v", protocol.MetaClientCapabilities, err)
	}
	if env.LogLevel != nil {
		if r.level = protocol.LogLevel(req.MetaText(protocol.MetaLogLevel)); r.level < 0 {
			return r, invalid("params._meta.%s: unknown level %s; use one of %q", protocol.MetaLogLevel, env.LogLevel, protocol.LogLevels)
		}
	}
	r.owner, r.info = s.opts.Owner(ctx), env.Client
	r.stays = main && r.kind.extensions == ""
	if main && !s.opts.Shared {
		r.owner = mainOwner
	}
	return r, nil
}

var _ pool.Want = (*request)(nil)

// Kind implements pool.Want.
func (r *request) Kind() any { return r.kind }

// Fits implements pool.Want.
func (r *request) Fits(kind any) int {
	k, ok := kind.(*clientKind)
	switch {
	case ok && k.caps == r.kind.caps:
		return 2
	case ok && k.extensions == r.kind.extensions && !protocol.MayNeedInput(r.Method()):
		return 1
	}
	return 0
}

// take returns the session of a request, which must be given back to the pool. A client
// that changes its capabilities has several.
func (s *Server) take(ctx context.Context, r *request) (*pool.Entry, *session, error) {
	e, err := s.pool.Take(ctx, r.owner, r, pool.Use{Single: s.opts.PerRequest && !r.main, Pinned: r.stays})
	if err != nil {
		return nil, nil, err
	}
	ss := e.Item.(*session)
	if e.Renewed != "" {
		ss.renewed.CompareAndSwap(nil, &e.Renewed)
	}
	return e, ss, nil
}

// forward passes a request on that the server will not answer by asking. It runs
// on the goroutine that brought the request.
func (s *Server) forward(ctx context.Context, r *request) (*dragoman.Message, error) {
	for again := false; ; again = true {
		e, ss, err := s.take(ctx, r)
		if err != nil {
			return s.failed(ctx, r, err)
		}
		resp, err := ss.pass(ctx, r, r.Message)
		s.pool.Release(e)
		if err == nil {
			return s.answer(r, ss, resp, 0)
		}
		if again || !protocol.MayResend(r.Method(), err) || ctx.Err() != nil {
			return s.failed(ctx, r, err)
		}
	}
}

// answer returns the server's response as the client has it. rounds is how often
// the client has been asked for this request before.
func (s *Server) answer(r *request, ss *session, resp *dragoman.Message, rounds int) (*dragoman.Message, error) {
	method := r.Method()
	if resp.IsError() && ss.rev.HasURLElicitation() && protocol.MayNeedInput(method) {
		if e := resp.RPCError(); e.Code == protocol.CodeURLElicitation {
			return s.askForURLs(r, ss, e, rounds)
		}
	}
	out, err := ss.route(r.rev).Response(method, resp, ss.info)
	if err != nil {
		return r.Fail(failure(protocol.CodeInternal, nil, "the server's answer cannot be passed on: %v", err)), nil
	}
	if out.IsError() {
		return out, nil
	}
	if why := ss.renewed.Load(); why != nil && !ss.noticeGiven.Swap(true) {
		if out, err = out.Edit().SetMeta(protocol.MetaRenewed, quoted(*why)).Message(); err != nil {
			return nil, err
		}
	}
	if protocol.IsList(method) {
		return s.page(r, ss, out)
	}
	return out, nil
}

// failed returns the answer to a request that has none, because of err.
func (s *Server) failed(ctx context.Context, r *request, err error) (*dragoman.Message, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return protocol.Failure(r.Message, err), nil
}

// discover answers by what the server said at its initialize.
func (s *Server) discover(ctx context.Context, r *request) (*dragoman.Message, error) {
	e, ss, err := s.take(ctx, r)
	if err != nil {
		return s.failed(ctx, r, err)
	}
	defer s.pool.Release(e)
	result := map[string]any{
		"resultType":        protocol.ResultComplete,
		"supportedVersions": protocol.Names(s.opts.Revisions),
		"capabilities":      ss.route(r.rev).ServerCapabilities(ss.caps),
		"ttlMs":             s.opts.TTL.Milliseconds(),
		"cacheScope":        "private",
	}
	if ss.instructions != nil {
		result["instructions"] = ss.instructions
	}
	if ss.info != nil {
		result["_meta"] = map[string]json.RawMessage{protocol.MetaServerInfo: ss.info}
	}
	return r.Reply(result)
}

// Ping asks the server whether it is there, in the session of our own. req is a
// request of ours, which says what that session is opened with.
func (s *Server) Ping(ctx context.Context, req *dragoman.Message) error {
	return s.callOwn(ctx, req, true, func(ss *session) error {
		_, err := ss.ask(ctx, protocol.MethodPing, nil)
		return err
	})
}

// Handshake finds out whether the server takes a handshake. The session of our own that
// is opened for that stays open for as long as any other.
func (s *Server) Handshake(ctx context.Context, req *dragoman.Message) error {
	return s.callOwn(ctx, req, false, func(*session) error { return nil })
}

// callOwn does something in the session of our own.
func (s *Server) callOwn(ctx context.Context, req *dragoman.Message, stays bool, do func(*session) error) error {
	r, refusal := s.read(ctx, req, nil, true)
	if refusal != nil {
		return refusal
	}
	r.stays = stays
	e, ss, err := s.take(ctx, &r)
	if err != nil {
		return err
	}
	defer s.pool.Release(e)
	return do(ss)
}

// newID returns the id of a request that we make up.
func (s *Server) newID() dragoman.ID { return dragoman.IntID(s.ids.Add(1)) }

// Close ends subscriptions in good order, gives up the calls that wait for their
// client, ends all sessions, and waits for our goroutines.
func (s *Server) Close() error {
	s.busy.End()
	s.cancel(dragoman.ErrClosed)
	s.suspended.close()
	s.pool.Close()
	s.busy.Wait()
	return nil
}

// given returns a member of a request's params that is there and not null.
func given(req *dragoman.Message, name string) json.RawMessage {
	if value := req.Get(name); string(value) != "null" {
		return value
	}
	return nil
}

// decodes reports whether the body of a message is what v is for, and reads it.
func decodes(m *dragoman.Message, v any) bool { return m.Decode(v) == nil }

// quoted returns a text as JSON.
func quoted(text string) []byte {
	b, _ := json.Marshal(text) // a string always encodes
	return b
}

// failure makes a JSON-RPC error. data may be nil.
func failure(code int, data any, format string, args ...any) *dragoman.Error {
	e := &dragoman.Error{Code: code, Message: fmt.Sprintf(format, args...)}
	if data != nil {
		e.Data, _ = json.Marshal(data) // data are ours, which always encode
	}
	return e
}

// invalid says what is wrong with the params of a request.
func invalid(format string, args ...any) *dragoman.Error {
	return failure(protocol.CodeInvalidParams, nil, format, args...)
}
