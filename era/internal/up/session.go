package up

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/sessions"
	"github.com/dragoman-mcp/dragoman/internal/wire/subscription"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A session is one conversation with a legacy client.
type session struct {
	server *Server
	client dragoman.Conn
	ctx    context.Context                   // of what is done for it outside of its requests
	hello  atomic.Pointer[handshake]         // set once, by initialize
	env    atomic.Pointer[protocol.Envelope] // set by setLevel; before that it is the hello's

	mu      sync.Mutex
	changes *subscription.Subscription // nil as long as nothing is to be heard; guarded by mu
}

// Call serves one request.
func (ss *session) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if ss.server.ctx.Err() != nil {
		return nil, dragoman.ErrClosed
	}
	h := ss.hello.Load()
	switch method := req.Method(); {
	case method == protocol.MethodPing:
		return req.Reply(nil)
	case method == protocol.MethodInitialize && h == nil:
		if refusal := sessions.CheckInitialize(req); refusal != nil {
			return req.Fail(refusal), nil
		}
		return ss.initialize(ctx, req)
	case method == protocol.MethodInitialize:
		return alreadyInitialized(req), nil
	case h == nil:
		return req.Fail(fault(protocol.CodeInvalidRequest,
			method+" before initialize; send initialize first, then notifications/initialized")), nil
	case endsHere(method):
		return ss.own(ctx, h, req)
	}
	return ss.forward(ctx, h, req, from)
}

// endsHere reports whether requests of a method are not passed on: those whose
// state is ours, and those of the modern era, which the client does not know.
func endsHere(method string) bool {
	switch method {
	case protocol.MethodSetLevel, protocol.MethodSubscribe, protocol.MethodUnsubscribe,
		protocol.MethodDiscover, protocol.MethodListen, protocol.MethodGetTask, protocol.MethodTaskResult,
		protocol.MethodListTasks, protocol.MethodUpdateTask, protocol.MethodCancelTask:
		return true
	}
	return false
}

// own serves what is not passed on.
func (ss *session) own(ctx context.Context, h *handshake, req *dragoman.Message) (*dragoman.Message, error) {
	switch method := req.Method(); {
	case method == protocol.MethodSetLevel && h.facts.logs:
		return ss.setLevel(h, req)
	case method == protocol.MethodSubscribe && h.facts.subscribes:
		return ss.subscribe(ctx, h, req)
	case method == protocol.MethodUnsubscribe && h.facts.subscribes:
		return ss.unsubscribe(req)
	default:
		// What is left is of the modern era, or a capability that we did not name.
		return req.Fail(fault(protocol.CodeMethodNotFound,
			"method not found: "+method+"; see the capabilities for what is served")), nil
	}
}

// setLevel notes from which level on the client wants log messages.
func (ss *session) setLevel(h *handshake, req *dragoman.Message) (*dragoman.Message, error) {
	var level string
	text := req.Get("level")
	if text != nil {
		_ = json.Unmarshal(text, &level) // what is no string is no level
	}
	if protocol.LogLevel(level) < 0 {
		return invalid(req, "unknown log level %s; use one of %q", text, protocol.LogLevels), nil
	}
	env := h.env
	env.LogLevel = json.RawMessage(`"` + level + `"`)
	ss.env.Store(&env)
	return req.Reply(nil)
}

// envelope returns what the next request says about the client.
func (ss *session) envelope(h *handshake) *protocol.Envelope {
	if env := ss.env.Load(); env != nil {
		return env
	}
	return &h.env
}

// Notify takes one notification. None continues to the server: what a modern
// server could be told is told by the end of a request's context, and changes
// of the roots have no meaning for it.
func (ss *session) Notify(_ context.Context, note *dragoman.Message) error {
	if h := ss.hello.Load(); h != nil && note.Method() == protocol.NoteInitialized && !h.facts.lists.Empty() {
		ss.subscription(h)
	}
	return nil
}

// invalid says what is wrong with the params of a request.
func invalid(req *dragoman.Message, format string, args ...any) *dragoman.Message {
	return req.Fail(fault(protocol.CodeInvalidParams, fmt.Sprintf(format, args...)))
}
