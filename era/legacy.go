package era

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/adapt"
	"github.com/dragoman-mcp/dragoman/era/internal/down"
	"github.com/dragoman-mcp/dragoman/era/internal/pool"
	"github.com/dragoman-mcp/dragoman/internal/util/syncs"
	"github.com/dragoman-mcp/dragoman/internal/wire/sessions"
	"github.com/dragoman-mcp/dragoman/internal/wire/subscription"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// legacySession is the session of a legacy client that has a session with a legacy
// server for itself. Messages pass as they are, if the two agree on a revision;
// else each side is spoken to in its own.
//
// When the conversation with the server is lost, the next request opens another,
// or we do if the client has subscribed to something. The handshake, the log
// level and the subscriptions are repeated on it. The client does not notice,
// except that it is told that lists and subscribed resources may have changed.
//
// If the server turns out to be modern alone, or to be modern and to keep no legacy sessions,
// the session crosses over.
type legacySession struct {
	server *Server
	front  *frontConn // whose session it is until it crosses over
	client dragoman.Conn
	caller *dragoman.Caller
	owner  pool.Key
	conn   syncs.Flight[*pool.Entry]
	opened chan dragoman.Conn // holds the last one, until attend takes it
	ended  chan struct{}      // closed by end
	once   sync.Once

	crossing syncs.Flight[dragoman.Peer] // the session that takes the place of this one

	memory sessions.Memory // what the server has been told

	mu       sync.Mutex // guards what is below
	stateful bool       // a tool may have left something with the server
	renewed  bool       // the conversation is a new one, which the client may have to know
	route    adapt.Route
}

func newLegacySession(s *Server, c *frontConn, caller *dragoman.Caller) *legacySession {
	ls := &legacySession{
		server: s, front: c, client: c.client, caller: caller, owner: pool.Key{Caller: caller.Key(), Session: caller.Session},
		opened: make(chan dragoman.Conn, 1), ended: make(chan struct{}),
	}
	// Ends with the client, or with the server.
	s.busy.Start(ls.supervise)
	return ls
}

// Call implements dragoman.Peer.
func (ls *legacySession) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if req.Method() != protocol.MethodInitialize {
		return ls.pass(ctx, req, from)
	}
	if refusal := sessions.CheckInitialize(req); refusal != nil {
		return req.Fail(refusal), nil
	}
	resp, err := ls.pass(ctx, req, from)
	if err == nil && !resp.IsError() && ls.server.isModern() {
		if ls.isStateless() {
			if other := ls.cross(ctx, new(sessions.Memory)); other != nil {
				return other.Call(ctx, req, from)
			}
			return resp, nil
		}
		err = ls.check(ctx)
	}
	if err == nil && resp.IsError() || err != nil && ctx.Err() == nil && (!errors.Is(err, dragoman.ErrClosed) || ls.server.assumed.Load()) {
		if other := ls.cross(ctx, new(sessions.Memory)); other != nil { // the client begins only now
			return other.Call(ctx, req, from)
		}
	}
	return resp, err
}

// isStateless reports whether the server has taken the handshake without beginning a session.
// It cannot ask the client anything, and forgets what it is told.
func (ls *legacySession) isStateless() bool {
	e, ok := ls.conn.Peek()
	return ok && !down.HasSession(connOf(e))
}

// check finds out whether a modern server that has taken a handshake takes what
// follows it: some refuse that.
func (ls *legacySession) check(ctx context.Context) error {
	ping, err := dragoman.NewRequest(ls.server.repeatID(), protocol.MethodPing, nil)
	if err != nil {
		return err
	}
	_, err = ls.pass(ctx, ping, nil)
	return err
}

// cross has a client use the crossing whose handshake the server has refused, or has taken
// without beginning a session. The
// crossing is told what memory holds. It returns nil if the server is not modern.
func (ls *legacySession) cross(ctx context.Context, memory *sessions.Memory) dragoman.Peer {
	other, err := ls.crossing.Get(ctx, syncs.OnCaller, func() (dragoman.Peer, error) { return ls.crossOver(ctx, memory) })
	if err != nil {
		return nil
	}
	return other
}

// crossOver begins the session again behind the crossing, and tells that what the
// server was told.
func (ls *legacySession) crossOver(ctx context.Context, memory *sessions.Memory) (dragoman.Peer, error) {
	s := ls.server
	if s.Era != nil {
		return nil, errNotModern
	}
	if era, known := s.found.Peek(); known {
		s.wasRefused(era)
	}
	if era, err := s.era(ctx); err != nil || era != protocol.Modern {
		return nil, errNotModern
	}
	s.refuses.Store(true)
	ls.end()
	other, err := s.front.cross(ctx, ls.front, ls.caller)
	if err != nil {
		return nil, err
	}
	accept := func(*dragoman.Message) error { return nil }
	if err := memory.Replay(ctx, other, s.repeatID, accept, s.log); err != nil {
		return nil, err
	}
	ls.front.legacy.Replace(frontSession{other, ls.caller})
	return other, nil
}

var errNotModern = errors.New("era: the server is not modern")

// crossAfter has a session continue by the crossing when the server has come back as a
// modern one: it has refused the handshake that was repeated to it. It returns nil if
// that is not so.
func (ls *legacySession) crossAfter(ctx context.Context, err error) dragoman.Peer {
	if _, refused := errors.AsType[*dragoman.Error](err); !refused || !ls.memory.IsOpen() {
		return nil
	}
	other := ls.cross(ctx, &ls.memory)
	if other != nil {
		ls.remind(ctx)
	}
	return other
}

// pass passes a request on. One whose conversation was lost in flight is sent
// again only if that does no harm.
func (ls *legacySession) pass(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	for again := false; ; again = true {
		conn, err := ls.get(ctx)
		if err != nil {
			if other := ls.crossAfter(ctx, err); other != nil {
				return other.Call(ctx, req, from)
			}
			return unavailable(ctx, req, err)
		}
		resp, err := ls.ask(ctx, conn, req, from)
		if again || !protocol.MayResend(req.Method(), err) || ctx.Err() != nil || ls.isOver() {
			return resp, err
		}
	}
}

func (ls *legacySession) isOver() bool {
	select {
	case <-ls.client.Done():
		return true
	case <-ls.ended:
		return true
	default:
		return ls.server.ctx.Err() != nil
	}
}

// end ends the session before its client does.
func (ls *legacySession) end() { ls.once.Do(func() { close(ls.ended) }) }

// ask passes a request on and learns from the answer.
func (ls *legacySession) ask(ctx context.Context, conn dragoman.Conn, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if req.Method() == protocol.MethodInitialize {
		return ls.initialize(ctx, conn, req)
	}
	route := ls.revisions()
	if !route.Same() {
		var err error
		if req, err = route.Request(req, nil); err != nil {
			return nil, err
		}
		from = route.Peer(from)
	}
	if from != nil && ls.server.Changed != nil {
		from = observedClient{from, ls}
	}
	resp, err := conn.Call(ctx, req, from)
	if err != nil || resp == nil {
		return nil, err
	}
	if resp, err = ls.learn(req, resp); err != nil || route.Same() {
		return resp, err
	}
	return route.Response(req.Method(), resp, nil)
}

// learn notes what an answer shows, and says in it if the server has lost what
// earlier calls may have left.
func (ls *legacySession) learn(req, resp *dragoman.Message) (*dragoman.Message, error) {
	if resp.IsError() {
		return resp, nil
	}
	ls.memory.Learn(req, resp)
	if req.Method() != protocol.MethodCallTool {
		return resp, nil
	}
	ls.mu.Lock()
	tell := ls.renewed
	ls.stateful, ls.renewed = true, false
	ls.mu.Unlock()
	if !tell {
		return resp, nil
	}
	return renewed(resp, "it was lost")
}

// initialize passes the handshake on. The client gets the revision that it asked
// for if we know that, also from a server that would rather speak another.
func (ls *legacySession) initialize(ctx context.Context, conn dragoman.Conn, req *dragoman.Message) (*dragoman.Message, error) {
	if ls.memory.IsOpen() {
		return req.Fail(&dragoman.Error{
			Code:    protocol.CodeInvalidRequest,
			Message: "this conversation is initialized already; open another for other parameters",
		}), nil
	}
	sent, resp, err := handshake(ctx, conn, req)
	if err != nil || resp.IsError() {
		return resp, err
	}
	route, err := routeOf(req, resp)
	if err != nil {
		return protocol.Failure(req, err), nil //nolint:nilerr // that is the answer
	}
	ls.server.accepted()
	ls.memory.Opened(sent, resp)
	ls.setRevisions(route)
	if route.Same() {
		return resp, nil
	}
	e := resp.Edit().Set("protocolVersion", strconv.AppendQuote(nil, route.Client.String()))
	if caps := resp.Get("capabilities"); caps != nil {
		e.Set("capabilities", route.ServerCapabilities(caps))
	}
	return e.Message()
}

// handshake sends initialize, a second time if the server names revisions that
// it would take. It returns what was sent last.
func handshake(ctx context.Context, conn dragoman.Conn, req *dragoman.Message) (sent, resp *dragoman.Message, err error) {
	resp, err = conn.Call(ctx, req, nil)
	if err != nil || !resp.IsError() {
		return req, resp, err
	}
	var data struct {
		Supported json.RawMessage `json:"supported"`
	}
	_ = json.Unmarshal(resp.RPCError().Data, &data) // without it, the refusal stands
	names, _ := versions(data.Supported)
	for _, r := range protocol.Revisions() {
		if r.Era() == protocol.Legacy && slices.Contains(names, r.String()) {
			other, err := req.Edit().Set("protocolVersion", strconv.AppendQuote(nil, r.String())).Message()
			if err != nil {
				return nil, nil, err
			}
			resp, err = conn.Call(ctx, other, nil)
			return other, resp, err
		}
	}
	return req, resp, nil
}

// routeOf returns what the two sides speak after a handshake.
func routeOf(req, resp *dragoman.Message) (adapt.Route, error) {
	server, err := revisionOf(resp)
	if err != nil {
		return adapt.Route{}, err
	}
	client := protocol.ParseRevision(protocol.VersionOf(req))
	if client == protocol.Unknown || client.Era() != protocol.Legacy {
		client = server // it takes what the server has, or leaves
	}
	return adapt.Route{Client: client, Server: server}, nil
}

// revisionOf returns the revision by which a server has answered initialize.
func revisionOf(resp *dragoman.Message) (protocol.Revision, error) {
	answered := protocol.VersionOf(resp)
	r := protocol.ParseRevision(answered)
	if r == protocol.Unknown || r.Era() != protocol.Legacy {
		return protocol.Unknown, fmt.Errorf("%w: it answers initialize with %q", ErrNoRevision, answered)
	}
	return r, nil
}

func (ls *legacySession) revisions() adapt.Route {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.route
}

func (ls *legacySession) setRevisions(route adapt.Route) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.route = route
}

// Notify passes a notification on. Without a conversation there is nobody who
// would miss it.
func (ls *legacySession) Notify(ctx context.Context, note *dragoman.Message) error {
	if note.Method() == protocol.NoteInitialized {
		ls.memory.Initialized()
	}
	if e, ok := ls.conn.Peek(); ok && !e.Item.Over() {
		return connOf(e).Notify(ctx, note)
	}
	return nil
}

// get returns a conversation with the server that is not over.
func (ls *legacySession) get(ctx context.Context) (dragoman.Conn, error) {
	if e, ok := ls.conn.Peek(); ok {
		if !e.Item.Over() {
			return connOf(e), nil
		}
		if ls.conn.Forget(func(other *pool.Entry) bool { return other == e }) {
			ls.server.pool.Release(e)
		}
	}
	e, err := ls.conn.Get(ctx, ls.server.busy.Start, func() (*pool.Entry, error) { return ls.open(dragoman.WithCallerOf(ls.server.ctx, ctx)) })
	if err != nil {
		return nil, err
	}
	return connOf(e), nil
}

// A sessionConn is a conversation in the pool that is a session's alone.
type sessionConn struct{ dragoman.Conn }

// Over implements pool.Item.
func (c sessionConn) Over() bool { return c.Err() != nil }

// Stateful implements pool.Item.
func (c sessionConn) Stateful() bool { return false } // its session says what is lost with it

func connOf(e *pool.Entry) dragoman.Conn { return e.Item.(sessionConn).Conn }

// wantSession wants a conversation that is a session's alone.
type wantSession struct{ *legacySession }

func (wantSession) Kind() any    { return protocol.Legacy }
func (wantSession) Fits(any) int { return 0 }

func (w wantSession) Open(ctx context.Context) (pool.Item, error) {
	conn, err := w.server.dial(ctx, (*localClient)(w.legacySession))
	return sessionConn{conn}, err
}

// open opens a conversation and takes up on it where the one before ended.
func (ls *legacySession) open(ctx context.Context) (*pool.Entry, error) {
	e, err := ls.server.pool.Take(ctx, ls.owner, wantSession{ls}, pool.Use{Single: true})
	if err != nil {
		return nil, err
	}
	if err := ls.replay(ctx, connOf(e)); err != nil || ls.isOver() {
		ls.server.pool.Release(e)
		if err == nil {
			err = dragoman.ErrClosed
		}
		return nil, err
	}
	select {
	case <-ls.opened: // over by now
	default:
	}
	ls.opened <- connOf(e) // there is room: nobody else opens one meanwhile
	return e, nil
}

// supervise closes the conversation with the server when the client has gone. When
// it is lost before, and the client has subscribed to something, it is opened
// again, a few times: such a client may wait for news without asking for anything.
func (ls *legacySession) supervise() {
	var (
		lost   <-chan struct{}
		losses subscription.Losses
	)
	for {
		select {
		case <-ls.client.Done():
		case <-ls.ended:
		case <-ls.server.ctx.Done():
		case conn := <-ls.opened:
			lost = conn.Done()
			losses.Opened()
			continue
		case <-lost:
			lost = nil
			losses.Lost()
			ls.reopen(&losses)
			continue
		}
		if e, ok := ls.conn.WaitValue(); ok {
			ls.server.pool.Release(e) // and with it the conversation
		}
		return
	}
}

// reopen opens a connection that the client needs, unless too many were lost in a row.
func (ls *legacySession) reopen(losses *subscription.Losses) {
	for ls.memory.Subscribes() && losses.Retry(ls.client.Done(), ls.server.ctx.Done()) {
		if _, err := ls.get(ls.server.ctx); err == nil {
			break
		}
	}
}

// replay tells a new conversation what the server knew, if it knew anything, and
// the client what it may have missed.
func (ls *legacySession) replay(ctx context.Context, conn dragoman.Conn) error {
	if !ls.memory.IsOpen() {
		return nil
	}
	ls.mu.Lock()
	ls.renewed, ls.stateful = ls.renewed || ls.stateful, false
	ls.mu.Unlock()
	ctx, cancel := ls.server.dialContext(ctx)
	defer cancel()
	if err := ls.memory.Replay(ctx, conn, ls.server.repeatID, ls.acceptRevision, ls.server.log); err != nil {
		return err
	}
	ls.remind(ctx)
	return nil
}

// acceptRevision takes the revision of a server that has come back. It may be another than
// before: the client keeps its own.
func (ls *legacySession) acceptRevision(answer *dragoman.Message) error {
	server, err := revisionOf(answer)
	if err == nil {
		ls.setRevisions(adapt.Route{Client: ls.revisions().Client, Server: server})
	}
	return err
}

// repeatID is the id of something that we send once more. No two are in progress
// with one.
func (s *Server) repeatID() dragoman.ID {
	return dragoman.StringID(fmt.Sprintf("again-%d", s.repeats.Add(1)))
}

// remind tells the client what may have changed while nobody listened.
func (ls *legacySession) remind(ctx context.Context) {
	client, missed := ls.revisions().Peer(ls.client), ls.memory.Missed()
	for note := range missed.ChangeNotes() {
		if err := client.Notify(ctx, note); err != nil {
			ls.server.log.Debug("a client was not told of a change", "method", note.Method(), "error", err)
		}
	}
}

// observedClient is the client inside of a call. What it is told of changed lists is told to
// others too.
type observedClient struct {
	dragoman.Peer
	session *legacySession
}

// Unwrap returns the client itself.
func (t observedClient) Unwrap() dragoman.Peer { return t.Peer }

func (t observedClient) Notify(ctx context.Context, note *dragoman.Message) error {
	t.session.server.changed(t.session.caller, note)
	return t.Peer.Notify(ctx, note)
}

// A localClient is the client as the server sees it outside of any call.
type localClient legacySession

func (h *localClient) peer() dragoman.Peer {
	ls := (*legacySession)(h)
	return ls.revisions().Peer(ls.client)
}

func (h *localClient) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	return h.peer().Call(ctx, req, from)
}

func (h *localClient) Notify(ctx context.Context, note *dragoman.Message) error {
	h.server.changed(h.caller, note)
	return h.peer().Notify(ctx, note)
}
