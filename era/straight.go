package era

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/adapt"
	"github.com/dragoman-mcp/dragoman/era/internal/down"
	"github.com/dragoman-mcp/dragoman/era/internal/pool"
	"github.com/dragoman-mcp/dragoman/internal/flight"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// straight is the session of a legacy client that has a session with a legacy
// server for itself. Messages pass as they are, if the two agree on a revision;
// else each side is spoken to in its own.
//
// When the conversation with the server is lost, the next request opens another,
// or we do if the client has subscribed to something. The handshake, the log
// level and the subscriptions are repeated on it. The client does not notice,
// except that it is told that lists and subscribed resources may have changed.
//
// If the server turns out to be modern alone, the session crosses over.
type straight struct {
	server *Server
	client dragoman.Conn
	caller *dragoman.Caller
	owner  pool.Key
	conn   flight.Flight[*pool.Entry]
	opened chan dragoman.Conn // holds the last one, until attend takes it
	ended  chan struct{}      // closed by end
	once   sync.Once
	other  atomic.Pointer[dragoman.Peer] // who serves the session since it has crossed over

	mu         sync.Mutex // guards what is below
	stateful   bool       // a tool may have left something with the server
	renewed    bool       // the conversation is a new one, which the client may have to know
	hello      *dragoman.Message
	route      adapt.Route
	caps       json.RawMessage // of the server, as it gave them
	ready      *dragoman.Message
	level      *dragoman.Message
	subscribed map[string]*dragoman.Message // by URI
}

func newStraight(s *Server, client dragoman.Conn, caller *dragoman.Caller) *straight {
	v := &straight{
		server: s, client: client, caller: caller, owner: pool.Key{Caller: caller.Key(), Session: caller.Session},
		opened: make(chan dragoman.Conn, 1), ended: make(chan struct{}), subscribed: make(map[string]*dragoman.Message),
	}
	// Ends with the client, or with the server.
	s.busy.Start(v.attend)
	return v
}

// Call implements dragoman.Peer.
func (v *straight) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if other := v.other.Load(); other != nil {
		return (*other).Call(ctx, req, from)
	}
	resp, err := v.pass(ctx, req, from)
	if req.Method() != protocol.MethodInitialize {
		return resp, err
	}
	if err == nil && !resp.IsError() && v.server.isModern() {
		err = v.check(ctx)
	}
	if err == nil && resp.IsError() || err != nil && ctx.Err() == nil && !errors.Is(err, dragoman.ErrClosed) {
		if other := v.cross(ctx); other != nil {
			return other.Call(ctx, req, from)
		}
	}
	return resp, err
}

// check finds out whether a modern server that has taken a handshake takes what
// follows it: some refuse that.
func (v *straight) check(ctx context.Context) error {
	ping, err := dragoman.NewRequest(v.server.repeatID(), protocol.MethodPing, nil)
	if err != nil {
		return err
	}
	_, err = v.pass(ctx, ping, nil)
	return err
}

// cross has a client use the crossing whose handshake the server has refused. It
// returns nil if the server is not modern.
func (v *straight) cross(ctx context.Context) dragoman.Peer {
	s := v.server
	if s.Era != nil {
		return nil
	}
	if era, known := s.found.Peek(); known {
		s.wasRefused(era)
	}
	if era, err := s.era(ctx); err != nil || era != protocol.Modern {
		return nil
	}
	s.refuses.Store(true)
	v.end()
	other, err := s.front.cross(ctx, v.client, v.caller)
	if err != nil {
		return nil
	}
	v.other.Store(&other)
	return other
}

// pass passes a request on. One whose conversation was lost under way is sent
// again only if that does no harm.
func (v *straight) pass(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	for again := false; ; again = true {
		conn, err := v.get(ctx)
		if err != nil {
			return unavailable(ctx, req, err)
		}
		resp, err := v.ask(ctx, conn, req, from)
		if err == nil || again || !errors.Is(err, dragoman.ErrClosed) || !repeatable(req.Method()) || ctx.Err() != nil || v.over() {
			return resp, err
		}
	}
}

// repeatable tells whether a request may be sent again on another conversation.
func repeatable(method string) bool {
	switch method {
	case protocol.MethodInitialize, protocol.MethodSetLevel, protocol.MethodSubscribe, protocol.MethodUnsubscribe:
		return true
	}
	return protocol.Repeatable(method)
}

func (v *straight) over() bool {
	select {
	case <-v.client.Done():
		return true
	case <-v.ended:
		return true
	default:
		return v.server.ctx.Err() != nil
	}
}

// end ends the session before its client does.
func (v *straight) end() { v.once.Do(func() { close(v.ended) }) }

// ask passes a request on and learns from the answer.
func (v *straight) ask(ctx context.Context, conn dragoman.Conn, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if req.Method() == protocol.MethodInitialize {
		return v.initialize(ctx, conn, req)
	}
	route := v.revisions()
	if !route.Same() {
		var err error
		if req, err = route.Request(req, nil); err != nil {
			return nil, err
		}
		from = route.Peer(from)
	}
	if from != nil && v.server.Changed != nil {
		from = told{from, v}
	}
	resp, err := conn.Call(ctx, req, from)
	if err != nil || resp == nil {
		return nil, err
	}
	if resp, err = v.learn(req, resp); err != nil || route.Same() {
		return resp, err
	}
	return route.Response(req.Method(), resp, nil)
}

// learn notes what an answer shows, and says in it if the server has lost what
// earlier calls may have left.
func (v *straight) learn(req, resp *dragoman.Message) (*dragoman.Message, error) {
	if resp.IsError() {
		return resp, nil
	}
	v.remember(req)
	if req.Method() != protocol.MethodCallTool {
		return resp, nil
	}
	v.mu.Lock()
	tell := v.renewed
	v.stateful, v.renewed = true, false
	v.mu.Unlock()
	if !tell {
		return resp, nil
	}
	return renewed(resp, "it was lost")
}

// initialize passes the handshake on. The client gets the revision that it asked
// for if we know that, also from a server that would rather speak another.
func (v *straight) initialize(ctx context.Context, conn dragoman.Conn, req *dragoman.Message) (*dragoman.Message, error) {
	if v.settled() {
		return req.Fail(&dragoman.Error{
			Code:    protocol.CodeInvalidRequest,
			Message: "this conversation is initialized already; open another for other parameters",
		}), nil
	}
	sent, resp, err := shakeHands(ctx, conn, req)
	if err != nil || resp.IsError() {
		return resp, err
	}
	route, err := routeOf(req, resp)
	if err != nil {
		return protocol.Failure(req, err), nil //nolint:nilerr // that is the answer
	}
	v.mu.Lock()
	v.hello, v.route, v.caps = sent, route, resp.Get("capabilities")
	v.mu.Unlock()
	if route.Same() {
		return resp, nil
	}
	e := resp.Edit().Set("protocolVersion", strconv.AppendQuote(nil, route.Client.String()))
	if caps := resp.Get("capabilities"); caps != nil {
		e.Set("capabilities", route.ServerCapabilities(caps))
	}
	return e.Message()
}

// shakeHands sends initialize, a second time if the server names revisions that
// it would take. It returns what was sent last.
func shakeHands(ctx context.Context, conn dragoman.Conn, req *dragoman.Message) (sent, resp *dragoman.Message, err error) {
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
	answered := text(resp.Get("protocolVersion"))
	server := protocol.ParseRevision(answered)
	if server == protocol.Unknown || server.Era() != protocol.Legacy {
		return adapt.Route{}, fmt.Errorf("%w: it answers initialize with %q", ErrNoRevision, answered)
	}
	client := protocol.ParseRevision(text(req.Get("protocolVersion")))
	if client == protocol.Unknown || client.Era() != protocol.Legacy {
		client = server // it takes what the server has, or leaves
	}
	return adapt.Route{Client: client, Server: server}, nil
}

// text returns the string that JSON text is, or "".
func text(value json.RawMessage) (s string) {
	_ = json.Unmarshal(value, &s) // what is no string has no text
	return s
}

// remember keeps what a new conversation with the server has to be told.
func (v *straight) remember(req *dragoman.Message) {
	switch req.Method() {
	case protocol.MethodSetLevel, protocol.MethodSubscribe, protocol.MethodUnsubscribe:
	default:
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	switch req.Method() {
	case protocol.MethodSetLevel:
		v.level = req
	case protocol.MethodSubscribe:
		if len(v.subscribed) < maxRemembered {
			v.subscribed[req.URI()] = req
		}
	case protocol.MethodUnsubscribe:
		delete(v.subscribed, req.URI())
	}
}

// maxRemembered is how many subscriptions of a session survive the loss of its
// conversation with the server.
const maxRemembered = 1024

func (v *straight) settled() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.hello != nil
}

func (v *straight) revisions() adapt.Route {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.route
}

// Notify passes a notification on. Without a conversation there is nobody who
// would miss it.
func (v *straight) Notify(ctx context.Context, note *dragoman.Message) error {
	if other := v.other.Load(); other != nil {
		return (*other).Notify(ctx, note)
	}
	if note.Method() == protocol.NoteInitialized {
		v.mu.Lock()
		v.ready = note
		v.mu.Unlock()
	}
	if e, ok := v.conn.Peek(); ok && !e.Item.Over() {
		return connOf(e).Notify(ctx, note)
	}
	return nil
}

// get returns a conversation with the server that is not over.
func (v *straight) get(ctx context.Context) (dragoman.Conn, error) {
	if e, ok := v.conn.Peek(); ok {
		if !e.Item.Over() {
			return connOf(e), nil
		}
		if v.conn.Forget(func(other *pool.Entry) bool { return other == e }) {
			v.server.pool.Release(e)
		}
	}
	e, err := v.conn.Get(ctx, v.server.busy.Start, func() (*pool.Entry, error) { return v.open(dragoman.As(v.server.ctx, ctx)) })
	if err != nil {
		return nil, err
	}
	return connOf(e), nil
}

// An own conversation is one in the pool that is a session's alone.
type own struct{ dragoman.Conn }

// Over implements pool.Item.
func (c own) Over() bool { return c.Err() != nil }

// Stateful implements pool.Item.
func (c own) Stateful() bool { return false } // its session says what is lost with it

func connOf(e *pool.Entry) dragoman.Conn { return e.Item.(own).Conn }

// open opens a conversation and takes up on it where the one before ended.
func (v *straight) open(ctx context.Context) (*pool.Entry, error) {
	e, err := v.server.pool.Take(ctx, v.owner, &pool.Want{Open: func(ctx context.Context) (pool.Item, error) {
		conn, err := v.server.dial(ctx, (*hearer)(v))
		return own{conn}, err
	}})
	if err != nil {
		return nil, err
	}
	if err := v.takeUp(ctx, connOf(e)); err != nil || v.over() {
		v.server.pool.Release(e)
		if err == nil {
			err = dragoman.ErrClosed
		}
		return nil, err
	}
	select {
	case <-v.opened: // over by now
	default:
	}
	v.opened <- connOf(e) // there is room: nobody else opens one meanwhile
	return e, nil
}

// attend closes the conversation with the server when the client has gone. When
// it is lost before, and the client has subscribed to something, it is opened
// anew, a few times: such a client may wait for news without asking for anything.
func (v *straight) attend() {
	var (
		lost   <-chan struct{}
		began  time.Time
		losses int
	)
	for {
		select {
		case <-v.client.Done():
		case <-v.ended:
		case <-v.server.ctx.Done():
		case conn := <-v.opened:
			lost, began = conn.Done(), time.Now()
			continue
		case <-lost:
			lost = nil
			if time.Since(began) > down.Steady {
				losses = 0
			}
			losses = v.reopen(losses)
			continue
		}
		if e, ok := v.conn.Last(); ok {
			v.server.pool.Release(e) // and with it the conversation
		}
		return
	}
}

// reopen opens a conversation that the client needs, after so many losses in a
// row. It returns how many there have been.
func (v *straight) reopen(losses int) int {
	for losses < down.MaxLosses && v.subscribes() {
		losses++
		if !v.server.pause(v.client.Done(), losses) {
			break
		}
		if _, err := v.get(v.server.ctx); err == nil {
			break
		}
	}
	return losses
}

func (v *straight) subscribes() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.subscribed) > 0
}

// takeUp repeats what the server knew, if it knew anything.
func (v *straight) takeUp(ctx context.Context, conn dragoman.Conn) error {
	v.mu.Lock()
	hello, ready, route := v.hello, v.ready, v.route
	v.renewed, v.stateful = v.renewed || v.stateful, false
	again := make([]*dragoman.Message, 0, len(v.subscribed)+1)
	if v.level != nil {
		again = append(again, v.level)
	}
	for _, req := range v.subscribed {
		again = append(again, req)
	}
	v.mu.Unlock()
	if hello == nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(v.server.DialTimeout, DefaultDialTimeout), errDial)
	defer cancel()
	resp, err := conn.Call(ctx, hello, nil)
	switch {
	case err != nil:
		return err
	case resp.IsError():
		return resp.RPCError()
	case text(resp.Get("protocolVersion")) != route.Server.String():
		return fmt.Errorf("era: the server has come back with another revision, %q", text(resp.Get("protocolVersion")))
	}
	if ready != nil {
		if err := conn.Notify(ctx, ready); err != nil {
			return err
		}
	}
	for _, req := range again {
		if _, err := conn.Call(ctx, req.WithID(v.server.repeatID()), nil); err != nil {
			return err
		}
	}
	v.announce(ctx, again)
	return nil
}

// repeatID is the id of something that we send once more. No two are under way
// with one.
func (s *Server) repeatID() dragoman.ID {
	return dragoman.StringID(fmt.Sprintf("again-%d", s.repeats.Add(1)))
}

// announce tells the client what may have changed while nobody listened.
func (v *straight) announce(ctx context.Context, subscriptions []*dragoman.Message) {
	v.mu.Lock()
	caps, route := v.caps, v.route
	v.mu.Unlock()
	lost := protocol.ListsOf(caps)
	for _, req := range subscriptions {
		if req.Method() == protocol.MethodSubscribe {
			lost.URIs = append(lost.URIs, req.URI())
		}
	}
	for note := range lost.ChangeNotes() {
		if err := route.Peer(v.client).Notify(ctx, note); err != nil {
			v.server.log.Debug("a client was not told of a change", "method", note.Method(), "error", err)
		}
	}
}

// told is the client inside of a call. What it is told of changed lists is told to
// others too.
type told struct {
	dragoman.Peer
	session *straight
}

func (t told) Notify(ctx context.Context, note *dragoman.Message) error {
	t.session.server.changed(t.session.caller, note)
	return t.Peer.Notify(ctx, note)
}

// A hearer is the client as the server sees it outside of any call.
type hearer straight

func (h *hearer) peer() dragoman.Peer {
	v := (*straight)(h)
	return v.revisions().Peer(v.client)
}

func (h *hearer) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	return h.peer().Call(ctx, req, from)
}

func (h *hearer) Notify(ctx context.Context, note *dragoman.Message) error {
	h.server.changed(h.caller, note)
	return h.peer().Notify(ctx, note)
}
