package down

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/adapt"
	"github.com/dragoman-mcp/dragoman/era/internal/pool"
	"github.com/dragoman-mcp/dragoman/internal/wire/subscription"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A session is one conversation with the legacy server. As a peer it is the local
// one of that conversation: it takes what the server says outside of calls, and
// what it says inside of one but does not say so.
type session struct {
	server *Server
	caller *dragoman.Caller // who had it opened
	owner  pool.Key         // whose requests use it
	kind   *clientKind      // of the clients it serves
	main   bool             // it is our own, so there is nobody to ask
	handle string           // names the session in cursors

	// Set by open, and not changed afterwards.
	conn               dragoman.Conn
	correlates         bool // the conversation says which call a question belongs to
	receivesBackground bool // the conversation delivers what belongs to no call
	rev                protocol.Revision
	info               json.RawMessage // serverInfo
	caps               json.RawMessage
	instructions       json.RawMessage // or nil
	serves             services
	ready              atomic.Bool // all that is set

	running     atomic.Int32           // requests in flight, but for those of the session itself
	stateful    atomic.Bool            // a tool may have left something behind
	renewed     atomic.Pointer[string] // why there is no session before this one any more, if somebody may miss it
	noticeGiven atomic.Bool            // and somebody has been told so
	level       atomic.Int32           // of logs that the server was told to send; unset is larger than all
	levelling   ctxLock                // who changes level
	watching    ctxLock                // who changes watched
	tools       taskTools
	listens     subscription.Hub // of clients

	mu         sync.Mutex
	calls      []*pendingCall // that the server may ask in, oldest first; guarded by mu
	open       []*question    // that have no answer yet, oldest first; guarded by mu
	earlyRoots []*question    // for the roots, that came while there was no call, until the server has had time for the answers; guarded by mu
	nextKey    int            // of questions; guarded by mu
	loggers    map[logger]struct{}
	watched    map[string]int // how many subscriptions want a URI; changed by who holds watching
}

var _ pool.Item = (*session)(nil)

// services are what matters of a server's capabilities.
type services struct {
	Tools, Prompts, Resources, Logging *struct{}

	Tasks struct {
		Requests struct{ Tools struct{ Call *struct{} } }
	}
}

// noLevel is the level of a session whose server was not told any.
const noLevel = 1000

// Open implements pool.Want: it opens a session for the caller of the request.
func (r *request) Open(ctx context.Context) (pool.Item, error) {
	ss := &session{
		server: r.server, caller: dragoman.CallerOf(ctx), owner: r.owner, kind: r.kind, main: r.main, handle: rand.Text(),
		levelling: newCtxLock(), watching: newCtxLock(), tools: newTaskTools(),
		loggers: make(map[logger]struct{}),
		watched: make(map[string]int),
	}
	ss.level.Store(noLevel)
	if err := ss.handshake(ctx, r.info); err != nil {
		if ss.conn != nil {
			_ = ss.conn.Close() // what it ends with is err
		}
		return nil, err
	}
	return ss, nil
}

// Over implements pool.Item.
func (ss *session) Over() bool { return ss.conn.Err() != nil }

// Stateful implements pool.Item.
func (ss *session) Stateful() bool { return ss.stateful.Load() }

// Close implements pool.Item.
func (ss *session) Close() error { return ss.conn.Close() }

// route returns how messages go between a client of a revision and the server.
func (ss *session) route(client protocol.Revision) adapt.Route {
	return adapt.Route{Client: client, Server: ss.rev}
}

// handshake dials and initializes. If the server refuses the newest legacy
// revision and names others, one of those is asked for.
func (ss *session) handshake(ctx context.Context, info json.RawMessage) (err error) {
	if ss.conn, err = ss.server.dial(ctx, ss); err != nil {
		ss.conn = nil
		return protocol.Unavailable(fmt.Errorf("it cannot be dialled: %w", err))
	}
	if c, ok := dragoman.PeerAs[dragoman.LocalAsker](ss.conn); ok {
		c.AskLocal()
	}
	resp, err := ss.sendInitialize(ctx, protocol.LatestLegacy, info)
	if err == nil && resp.IsError() {
		if other := named(resp.RPCError()); other != protocol.Unknown {
			resp, err = ss.sendInitialize(ctx, other, info)
		}
	}
	if opts := &ss.server.opts; err == nil && !resp.IsError() && opts.Doubtful != nil && opts.Doubtful() {
		if err = errStateless; HasSession(ss.conn) {
			_, err = ss.ask(ctx, protocol.MethodPing, nil)
		}
	}
	if ss.server.isRefusal(ctx, resp, err) {
		ss.server.opts.Refused()
	}
	switch {
	case err != nil:
		return protocol.Unavailable(fmt.Errorf("initialize failed: %w", err))
	case resp.IsError():
		return protocol.Unavailable(errors.New("initialize was refused: " + resp.RPCError().Error()))
	}
	if err := ss.learn(resp); err != nil {
		return err
	}
	if ss.server.opts.Accepted != nil {
		ss.server.opts.Accepted()
	}
	ss.correlates, ss.receivesBackground = dragoman.Correlates(ss.conn), dragoman.ReceivesBackground(ss.conn)
	ss.ready.Store(true)
	note, err := dragoman.NewNotification(protocol.NoteInitialized, nil)
	if err == nil {
		err = ss.conn.Notify(ctx, note)
	}
	if err != nil {
		return protocol.Unavailable(fmt.Errorf("the handshake failed: %w", err))
	}
	if ss.kind.can.Roots && !ss.main {
		// Many servers ask for the roots now, and refuse every path until they have an
		// answer: the first call waits behind that.
		ss.settle(ctx)
	}
	return nil
}

// errStateless is why a modern server is not used in the legacy era.
var errStateless = errors.New("the server keeps no legacy sessions")

// HasSession reports whether the server keeps a session for a connection that is initialized.
// Over Streamable HTTP one that gives no session id does not.
func HasSession(conn dragoman.Conn) bool {
	c, ok := dragoman.PeerAs[interface{ HasSession() bool }](conn)
	return !ok || c.HasSession()
}

// isRefusal reports whether the outcome of a handshake is a refusal, which Refused is to
// be told of.
func (s *Server) isRefusal(ctx context.Context, resp *dragoman.Message, err error) bool {
	switch {
	case s.opts.Refused == nil:
		return false
	case err == nil:
		return resp.IsError()
	case errors.Is(err, dragoman.ErrClosed):
		return s.opts.Assumed != nil && s.opts.Assumed() && ctx.Err() == nil
	}
	return ctx.Err() == nil
}

// settle waits until the server has taken what it was told, as its answer to a ping
// shows. A server that does not answer may do so later.
func (ss *session) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	_, _ = ss.ask(ctx, protocol.MethodPing, nil)
}

func (ss *session) sendInitialize(ctx context.Context, rev protocol.Revision, info json.RawMessage) (*dragoman.Message, error) {
	if info == nil {
		info, _ = json.Marshal(map[string]string{"name": ss.server.opts.Name, "version": ss.server.opts.Version}) // strings encode
	}
	req, err := dragoman.NewRequest(ss.server.newID(), protocol.MethodInitialize, map[string]any{
		"protocolVersion": rev.String(), "capabilities": json.RawMessage(ss.kind.caps), "clientInfo": info,
	})
	if err != nil {
		return nil, err
	}
	return ss.conn.Call(ctx, req, ss)
}

// named returns the newest legacy revision that an error says the server has.
func named(e *dragoman.Error) protocol.Revision {
	var data struct{ Supported []string }
	if json.Unmarshal(e.Data, &data) != nil {
		return protocol.Unknown
	}
	best := protocol.Unknown
	for _, name := range data.Supported {
		if rev := protocol.ParseRevision(name); rev.HasSessions() && rev != protocol.LatestLegacy {
			best = max(best, rev)
		}
	}
	return best
}

// learn takes the server's answer to initialize.
func (ss *session) learn(resp *dragoman.Message) error {
	version := protocol.VersionOf(resp) // none is as bad as an unknown one
	ss.rev = protocol.ParseRevision(version)
	if ss.rev == protocol.Unknown || !ss.rev.HasSessions() {
		return &dragoman.Error{
			Code:    protocol.CodeInternal,
			Message: fmt.Sprintf("the server answers initialize with protocol version %q, which the gateway cannot speak to it", version),
		}
	}
	if info := resp.Get("serverInfo"); dragoman.IsObject(info) {
		ss.info = info
	}
	ss.caps = json.RawMessage("{}")
	if caps := resp.Get("capabilities"); dragoman.IsObject(caps) {
		ss.caps = caps
		_ = json.Unmarshal(caps, &ss.serves) // what cannot be read is not served
	}
	if text := resp.Get("instructions"); len(text) > 0 && text[0] == '"' {
		ss.instructions = text
	}
	return nil
}

// ask sends the server a request of our own.
func (ss *session) ask(ctx context.Context, method string, params any) (*dragoman.Message, error) {
	req, err := dragoman.NewRequest(ss.server.newID(), method, params)
	if err != nil {
		return nil, err
	}
	return ss.conn.Call(ctx, req, quietCaller{ss})
}

// pass sends a request to the server. msg is r, or what is to be sent in its
// place.
func (ss *session) pass(ctx context.Context, r *request, msg *dragoman.Message) (*dragoman.Message, error) {
	up, err := ss.toServer(r, msg)
	if err != nil {
		return nil, err
	}
	if r.from == nil || r.level < 0 && r.Meta(protocol.MetaProgressToken) == nil && !protocol.Lasts(r.Method()) {
		return ss.run(ctx, up, quietCaller{ss}) // nothing can be told on the way
	}
	in := &requestCaller{session: ss, route: ss.route(r.rev), level: r.level, client: callerPeer{from: r.from}}
	if r.level >= 0 {
		ss.raiseLogLevel(ctx, r.level)
		ss.join(in)
		defer ss.leave(in)
	}
	return ss.run(ctx, up, in)
}

// toServer returns a request as the server has it.
func (ss *session) toServer(r *request, msg *dragoman.Message) (*dragoman.Message, error) {
	up, err := ss.route(r.rev).Request(msg, nil)
	if err == nil && ss.rev.HasCoreTasks() && r.Method() == protocol.MethodCallTool && up.Get("task") != nil {
		// A modern client has no say in whether its call becomes a task.
		up, err = up.Edit().Drop("task").Message()
	}
	return up, err
}

// Call implements dragoman.Peer: it takes a question that is not said to belong to
// a call.
func (ss *session) Call(ctx context.Context, q *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	return ss.question(ctx, q, nil)
}

// Notify implements dragoman.Peer: it takes what is not said to belong to a call.
func (ss *session) Notify(ctx context.Context, note *dragoman.Message) error {
	if note.Method() == protocol.NoteMessage {
		// A conversation that does not correlate has given a log message to the
		// only call in flight, if there was one. What is left may be of a call
		// that is over, and must not reach the next one's client.
		if l := ss.logger(); l != nil && ss.ready.Load() && ss.correlates {
			l.log(ctx, note)
		}
		return nil
	}
	ss.handled(note)
	return nil
}

// handled takes a notification that never belongs to a call, and reports whether it
// is one.
func (ss *session) handled(note *dragoman.Message) bool {
	switch note.Method() {
	case protocol.NoteToolsChanged:
		ss.tools.forget()
		ss.changed(note)
	case protocol.NotePromptsChanged, protocol.NoteResourcesChanged, protocol.NoteResourceUpdated:
		ss.changed(note)
	case protocol.NoteElicitationComplete, protocol.NoteTaskStatus:
		// The modern era has neither.
	default:
		return false
	}
	if ss.server.opts.Changed != nil {
		ss.server.opts.Changed(ss.caller, note)
	}
	return true
}

// A callerPeer is a client as seen from inside its request. It is told nothing once
// the request has its answer.
type callerPeer struct {
	from dragoman.Peer // may be nil

	mu   sync.Mutex
	over bool           // guarded by mu
	busy sync.WaitGroup // who is telling it something; none is added once over is set
}

func (l *callerPeer) notify(ctx context.Context, note *dragoman.Message) error {
	l.mu.Lock()
	if l.over || l.from == nil || note == nil {
		l.mu.Unlock()
		return nil
	}
	l.busy.Add(1)
	l.mu.Unlock()
	defer l.busy.Done()
	return l.from.Notify(ctx, note)
}

// end makes sure that it is told nothing more, and waits for what it is being told.
func (l *callerPeer) end() {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.busy.Wait()
}

// requestCaller is the caller as a server sees it that is not to ask it anything.
type requestCaller struct {
	session *session
	route   adapt.Route
	level   int // of log messages that are wanted, or -1
	client  callerPeer
}

// Call takes a question.
func (in *requestCaller) Call(ctx context.Context, q *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	return in.session.question(ctx, q, nil)
}

// Notify takes what belongs to the request.
func (in *requestCaller) Notify(ctx context.Context, note *dragoman.Message) error {
	switch note.Method() {
	case protocol.NoteMessage:
		in.log(ctx, note)
		return nil
	case protocol.NoteProgress:
	default:
		if in.session.handled(note) {
			return nil
		}
	}
	return in.client.notify(ctx, in.route.Note(note))
}

// log implements logger.
func (in *requestCaller) log(ctx context.Context, note *dragoman.Message) {
	if isSevere(note, in.level) {
		_ = in.client.notify(ctx, in.route.Note(note)) // who cannot be told still gets the answer
	}
}

// quietCaller is the caller of a request that wants nothing on the way.
type quietCaller struct{ *session }

// Notify takes what belongs to the request, or is said to.
func (a quietCaller) Notify(ctx context.Context, note *dragoman.Message) error {
	if a.ready.Load() && a.correlates && note.Method() == protocol.NoteMessage {
		return nil // of this request, which does not want it
	}
	return a.session.Notify(ctx, note)
}

// A logger is a request in flight that wants log messages.
type logger interface {
	log(ctx context.Context, note *dragoman.Message)
}

// isSevere reports whether a log message is of a level or more severe. Of a level that
// does not exist nothing can be said, so it is not.
func isSevere(note *dragoman.Message, level int) bool {
	if level < 0 {
		return false
	}
	var name string
	return json.Unmarshal(note.Get("level"), &name) == nil && protocol.LogLevel(name) >= level
}

// join and leave note who wants log messages.
func (ss *session) join(l logger) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.loggers[l] = struct{}{}
}

func (ss *session) leave(l logger) {
	ss.mu.Lock()
	delete(ss.loggers, l)
	ss.mu.Unlock()
	if in, ok := l.(*requestCaller); ok {
		in.client.end() // it may be told by who is not inside the request
	}
}

// logger returns the only request that wants log messages, or nil.
func (ss *session) logger() logger {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if len(ss.loggers) == 1 {
		for l := range ss.loggers {
			return l
		}
	}
	return nil
}

// raiseLogLevel makes the server send log messages of a level. The level is the whole
// session's, so it is never lowered, and each request takes what it wants.
func (ss *session) raiseLogLevel(ctx context.Context, level int) {
	if level < 0 || ss.serves.Logging == nil || int32(level) >= ss.level.Load() { // #nosec G115 -- one of eight levels
		return
	}
	if ss.levelling.lock(ctx) != nil {
		return // the request is over
	}
	defer ss.levelling.unlock()
	if int32(level) >= ss.level.Load() { // #nosec G115 -- one of eight levels
		return
	}
	resp, err := ss.ask(ctx, protocol.MethodSetLevel, map[string]string{"level": protocol.LogLevels[level]})
	if err != nil {
		return // the session is over, or the request
	}
	if resp.IsError() {
		ss.server.log.Debug("the server refuses a log level", "level", protocol.LogLevels[level], "error", resp.RPCError())
	}
	// One that was refused is not asked for again.
	ss.level.Store(int32(level)) // #nosec G115 -- one of eight levels
}

// A ctxLock lets one at a time see to something that takes a while.
type ctxLock chan struct{}

func newCtxLock() ctxLock { return make(ctxLock, 1) }

// lock fails if ctx ends first.
func (g ctxLock) lock(ctx context.Context) error {
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (g ctxLock) unlock() { <-g }
