package builtin

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A session is one conversation. What it remembers is of the legacy era only:
// requests of the modern era are passed on to where they stand for themselves.
type session struct {
	server *Server
	client dragoman.Conn
	hello  atomic.Pointer[initializeParams] // set once, by initialize
	asked  atomic.Int64                     // questions to the client, for their ids

	mu         sync.Mutex
	level      int             // guarded by mu
	subscribed map[string]bool // URIs; guarded by mu
}

// A initializeParams is what initialize settled.
type initializeParams struct {
	rev  protocol.Revision
	caps capabilities
}

// Call serves one request.
func (ss *session) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	switch {
	case !ss.server.serves(protocol.Legacy):
		if req.Method() == protocol.MethodInitialize && !protocol.IsModern(req) {
			return ss.refuse(req), nil
		}
		return ss.server.callModern(ctx, req, from)
	case protocol.IsModern(req) && ss.server.serves(protocol.Modern):
		return ss.server.callModern(ctx, req, from)
	}
	h := methodOf(req.Method(), protocol.Legacy)
	if h == nil {
		return noMethod(req), nil
	}
	c := &call{server: ss.server, session: ss, req: req, from: from, level: ss.logLevel()}
	if settled := ss.hello.Load(); settled != nil {
		c.rev, c.caps = settled.rev, settled.caps
	} else if m := req.Method(); m != protocol.MethodInitialize && m != protocol.MethodPing {
		return req.Fail(failure(protocol.CodeInvalidRequest, nil,
			"%s before initialize; send initialize first, then notifications/initialized", m)), nil
	}
	return c.run(ctx, h)
}

// refuse answers the initialize of a client that is too old for this server, by
// naming the revisions that it could use.
func (ss *session) refuse(req *dragoman.Message) *dragoman.Message {
	return req.Fail(ss.server.unsupported(protocol.VersionOf(req)))
}

// Notify takes one notification. Cancelling is not among them: that is the
// business of the peer that made the call.
func (ss *session) Notify(_ context.Context, note *dragoman.Message) error {
	if note.Method() == protocol.NoteInitialized && ss.hello.Load() != nil {
		ss.server.addSession(ss)
	}
	return nil
}

func initialize(_ context.Context, c *call) (any, error) {
	var params struct {
		ProtocolVersion *string        `json:"protocolVersion"`
		Capabilities    capabilities   `json:"capabilities"`
		ClientInfo      implementation `json:"clientInfo"`
	}
	if err := c.req.Decode(&params); err != nil {
		return nil, invalid("params of initialize cannot be read: %v", err)
	}
	if params.ProtocolVersion == nil {
		return nil, invalid("params.protocolVersion is missing; name the newest revision that you speak")
	}
	rev := protocol.NegotiateLegacy(*params.ProtocolVersion, c.server.opts.Revisions)
	if !c.session.hello.CompareAndSwap(nil, &initializeParams{rev, params.Capabilities}) {
		return nil, failure(protocol.CodeInvalidRequest, nil,
			"this conversation is initialized already; open another for other parameters")
	}
	return object{
		"protocolVersion": rev.String(),
		"capabilities":    c.server.capabilities(rev),
		"serverInfo":      c.server.infos[rev],
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

func subscribeLegacy(_ context.Context, c *call) (any, error) {
	uri, err := c.knownURI()
	if err != nil {
		return nil, err
	}
	c.session.subscribe(uri)
	// Some clients never say that they are initialized; this one has subscribed.
	c.server.addSession(c.session)
	return object{}, nil
}

func unsubscribeLegacy(_ context.Context, c *call) (any, error) {
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

// ended reports whether the conversation has ended.
func (ss *session) ended() bool {
	select {
	case <-ss.client.Done():
		return true
	default:
		return false
	}
}

// An implementation is how a program introduces itself.
type implementation struct {
	Name    *string `json:"name"`
	Version *string `json:"version"`
}

// capabilities are what a client can do.
type capabilities struct {
	Sampling    json.RawMessage `json:"sampling"`
	Roots       json.RawMessage `json:"roots"`
	Elicitation *struct {
		Form json.RawMessage `json:"form"`
		URL  json.RawMessage `json:"url"`
	} `json:"elicitation"`
}
