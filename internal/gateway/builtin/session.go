package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A session is a conversation in the legacy era, which is served here without a
// translation: tests of translations compare with it.
type session struct {
	server *Server
	client dragoman.Conn
	hello  atomic.Pointer[initializeParams] // set once, by initialize
	asked  atomic.Int64                     // questions to the client, for their ids

	mu         sync.Mutex
	level      int             // guarded by mu
	subscribed map[string]bool // URIs; guarded by mu
}

// initializeParams are what initialize settled.
type initializeParams struct {
	rev protocol.Revision
	can protocol.Abilities
}

// Call serves one request.
func (ss *session) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	h := legacyHandlers[req.Method()]
	if h == nil {
		h = handlers[req.Method()]
	}
	if h == nil {
		return req.Fail(failure(protocol.CodeMethodNotFound, nil,
			"method not found: %s; see the capabilities for what is served", req.Method())), nil
	}
	c := &call{server: ss.server, session: ss, req: req, from: from}
	if settled := ss.hello.Load(); settled != nil {
		c.rev, c.can = settled.rev, settled.can
	} else if m := req.Method(); m != protocol.MethodInitialize && m != protocol.MethodPing {
		return req.Fail(failure(protocol.CodeInvalidRequest, nil,
			"%s before initialize; send initialize first, then notifications/initialized", m)), nil
	}
	result, err := h(ctx, c)
	rpc, isRPC := errors.AsType[*dragoman.Error](err)
	switch {
	case err == nil:
		return req.Reply(result)
	case ctx.Err() != nil:
		// The caller does not wait for an answer any more.
		return nil, context.Cause(ctx)
	case isRPC:
		return req.Fail(rpc), nil
	case req.Method() == protocol.MethodCallTool:
		return req.Reply(toolResult{Content: []block{text(err.Error())}, IsError: true})
	}
	return req.Fail(failure(protocol.CodeInvalidRequest, nil, "%v", err)), nil
}

// legacyHandlers are those of methods that the modern era does not have.
var legacyHandlers = map[string]handler{
	protocol.MethodInitialize:  initialize,
	protocol.MethodPing:        ping,
	protocol.MethodSetLevel:    setLevel,
	protocol.MethodSubscribe:   subscribe,
	protocol.MethodUnsubscribe: unsubscribe,
}

// Notify takes one notification. Cancelling is not among them: that is the
// business of the peer that made the call.
func (ss *session) Notify(_ context.Context, note *dragoman.Message) error {
	if note.Method() == protocol.NoteInitialized && ss.hello.Load() != nil {
		ss.server.sessions.Add(ss, 0)
	}
	return nil
}

func initialize(_ context.Context, c *call) (any, error) {
	var params struct {
		ProtocolVersion *string         `json:"protocolVersion"`
		Capabilities    json.RawMessage `json:"capabilities"`
	}
	if err := c.req.Decode(&params); err != nil {
		return nil, invalid("params of initialize cannot be read: %v", err)
	}
	if params.ProtocolVersion == nil {
		return nil, invalid("params.protocolVersion is missing; name the newest revision that you speak")
	}
	var can protocol.Abilities
	if params.Capabilities != nil {
		var err error
		if can, err = protocol.AbilitiesOf(params.Capabilities); err != nil {
			return nil, invalid("params.capabilities of initialize cannot be read: %v", err)
		}
	}
	rev := protocol.NegotiateLegacy(*params.ProtocolVersion, c.server.opts.Revisions)
	if !c.session.hello.CompareAndSwap(nil, &initializeParams{rev, can}) {
		return nil, failure(protocol.CodeInvalidRequest, nil,
			"this conversation is initialized already; open another for other parameters")
	}
	return object{
		"protocolVersion": rev.String(),
		"capabilities":    c.server.capabilities(rev),
		"serverInfo":      c.server.opts.info(rev),
		"instructions":    instructions,
	}, nil
}

func ping(context.Context, *call) (any, error) { return object{}, nil }

func setLevel(_ context.Context, c *call) (any, error) {
	level, err := levelOf(c.req.Get("level"))
	if err != nil {
		return nil, err
	}
	c.session.setLevel(level)
	return object{}, nil
}

func subscribe(_ context.Context, c *call) (any, error) {
	uri, err := c.knownURI()
	if err != nil {
		return nil, err
	}
	c.session.subscribe(uri)
	// Some clients never say that they are initialized; this one has subscribed.
	c.server.sessions.Add(c.session, 0)
	return object{}, nil
}

func unsubscribe(_ context.Context, c *call) (any, error) {
	uri, err := c.uri()
	if err != nil {
		return nil, err
	}
	c.session.unsubscribe(uri)
	return object{}, nil
}

func (ss *session) logLevel() int {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.level
}

func (ss *session) setLevel(level int) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.level = level
}

func (ss *session) subscribe(uri string) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.subscribed == nil {
		ss.subscribed = make(map[string]bool)
	}
	ss.subscribed[uri] = true
}

func (ss *session) unsubscribe(uri string) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	delete(ss.subscribed, uri)
}

func (ss *session) isSubscribed(uri string) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.subscribed[uri]
}

// Offer notifies the client of a change, unless it is that of a resource which the client
// has not subscribed to.
func (ss *session) Offer(note *dragoman.Message) {
	if uri := note.URI(); uri == "" || ss.isSubscribed(uri) {
		// If it fails, the client is gone, and the hub will forget the session.
		_ = ss.client.Notify(context.Background(), note)
	}
}

// Ended reports whether the conversation has ended.
func (ss *session) Ended() bool { return ss.client.Err() != nil }
