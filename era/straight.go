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
type straight struct {
	server *Server
	client dragoman.Conn
	conn   flight[dragoman.Conn]
	opened chan dragoman.Conn // holds the last one, until attend takes it

	mu         sync.Mutex // guards what is below
	hello      *dragoman.Message
	route      adapt.Route
	caps       json.RawMessage // of the server, as it gave them
	ready      *dragoman.Message
	level      *dragoman.Message
	subscribed map[string]*dragoman.Message // by URI
}

func newStraight(s *Server, client dragoman.Conn) *straight {
	v := &straight{
		server: s, client: client,
		opened: make(chan dragoman.Conn, 1), subscribed: make(map[string]*dragoman.Message),
	}
	// Ends with the client, or with the server.
	s.busy.Start(v.attend)
	return v
}

// Call passes a request on. One whose conversation was lost under way is sent
// again only if that does no harm.
func (v *straight) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
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
	default:
		return v.server.ctx.Err() != nil
	}
}

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
	resp, err := conn.Call(ctx, req, from)
	if err != nil || resp == nil {
		return nil, err
	}
	if !resp.IsError() {
		v.remember(req)
	}
	if route.Same() {
		return resp, nil
	}
	return route.Response(req.Method(), resp, nil)
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
	if note.Method() == protocol.NoteInitialized {
		v.mu.Lock()
		v.ready = note
		v.mu.Unlock()
	}
	if conn, ok := v.conn.peek(); ok && conn.Err() == nil {
		return conn.Notify(ctx, note)
	}
	return nil
}
