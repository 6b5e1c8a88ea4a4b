package down

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/running"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A Server is a legacy server as modern clients see it.
type Server struct {
	dial func(context.Context, dragoman.Peer) (dragoman.Conn, error)
	opts Options
	log  *slog.Logger

	ctx    context.Context // ends with Close
	cancel context.CancelCauseFunc
	busy   running.Group // our goroutines

	kinds kinds
	pool  pool
	desk  desk
	seal  sealer
	ids   atomic.Int64 // of requests that we make up
}

var _ dragoman.Peer = (*Server)(nil)

// New returns the modern door of a legacy server. dial opens a conversation with
// it that is not initialized yet; local is asked and told what belongs to no call.
// A Conn that is a [dragoman.Correlator] is given any number of calls at once that
// the server may answer by asking; others get one at a time. Changes are
// not promised to anybody if the Conn is a [dragoman.Hearer] that hears nothing.
// opts may be nil.
func New(dial func(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error), opts *Options) *Server {
	s := &Server{dial: dial, opts: opts.withDefaults(), seal: newSealer()}
	s.log = s.opts.Logger
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.pool.init(s)
	s.desk.init(s)
	return s
}

// A request is one of a client's.
type request struct {
	*dragoman.Message
	from   dragoman.Peer // may be nil
	caller string
	rev    protocol.Revision // the client's
	kind   *kind
	level  int             // of log messages that are wanted, or -1
	info   json.RawMessage // how the client introduces itself, or nil
}

// key returns whose sessions the request may use.
func (r *request) key() key { return key{r.caller, r.kind.caps} }

// Call implements dragoman.Peer.
func (s *Server) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	r, refusal := s.read(ctx, req, from)
	if refusal != nil {
		return req.Fail(refusal), nil
	}
	switch req.Method() {
	case protocol.MethodDiscover:
		return s.discover(ctx, &r)
	case protocol.MethodListen:
		return s.listen(ctx, &r)
	case protocol.MethodListTools, protocol.MethodListResources, protocol.MethodListTemplates, protocol.MethodListPrompts:
		return s.list(ctx, &r)
	case protocol.MethodCallTool, protocol.MethodGetPrompt, protocol.MethodReadResource:
		switch {
		case given(req, "requestState") != nil || given(req, "inputResponses") != nil:
			return s.resume(ctx, &r)
		case r.kind.can.any():
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
	return s.forward(ctx, &r)
}

// Notify implements dragoman.Peer. A modern client has nothing to tell a server:
// cancelling is the business of whoever made the call.
func (s *Server) Notify(context.Context, *dragoman.Message) error { return nil }

// read reads the envelope of a request.
func (s *Server) read(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (request, *dragoman.Error) {
	r := request{Message: req, from: from, level: -1}
	env, err := protocol.ReadEnvelope(req)
	if err != nil {
		return r, invalid("%v", err)
	}
	r.rev = protocol.ParseRevision(env.Version)
	if r.rev.Era() != protocol.Modern || !slices.Contains(s.opts.Revisions, r.rev) {
		return r, s.unsupported(env.Version)
	}
	if r.kind, err = s.kinds.of(env.Capabilities); err != nil {
		return r, invalid("params._meta.%s cannot be read: %v", protocol.MetaClientCapabilities, err)
	}
	if env.LogLevel != nil {
		if r.level = protocol.LogLevel(req.MetaText(protocol.MetaLogLevel)); r.level < 0 {
			return r, invalid("params._meta.%s: unknown level %s; use one of %q", protocol.MetaLogLevel, env.LogLevel, protocol.LogLevels)
		}
	}
	r.caller, r.info = s.opts.Caller(ctx), env.Client
	return r, nil
}

func (s *Server) supported() []string {
	names := make([]string, len(s.opts.Revisions))
	for i, rev := range s.opts.Revisions {
		names[i] = rev.String()
	}
	return names
}

func (s *Server) unsupported(requested string) *dragoman.Error {
	return failure(protocol.CodeUnsupported, map[string]any{"supported": s.supported(), "requested": requested},
		"protocol version %q is not served here; use one of data.supported", requested)
}

// newID returns the id of a request that we make up.
func (s *Server) newID() dragoman.ID { return dragoman.IntID(s.ids.Add(1)) }

// Close ends subscriptions in good order, gives up the calls that wait for their
// client, ends all sessions, and waits for our goroutines.
func (s *Server) Close() error {
	s.busy.End()
	s.cancel(dragoman.ErrClosed)
	s.desk.close()
	s.pool.close()
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

// decodes tells whether the body of a message is what v is for, and reads it.
func decodes(m *dragoman.Message, v any) bool { return m.Decode(v) == nil }

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
