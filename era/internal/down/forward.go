package down

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// forward passes a request on that the server will not answer by asking. It runs
// on the goroutine that brought the request.
func (s *Server) forward(ctx context.Context, r *request) (*dragoman.Message, error) {
	for again := protocol.Repeatable(r.Method()); ; again = false {
		v, err := s.pool.get(ctx, r, false)
		if err != nil {
			return s.failed(ctx, r, err)
		}
		resp, err := v.pass(ctx, r, r.Message)
		s.pool.release(v, false)
		if err == nil {
			return s.answer(r, v, resp, 0)
		}
		if !again || !errors.Is(err, dragoman.ErrClosed) || ctx.Err() != nil {
			return s.failed(ctx, r, err)
		}
	}
}

// pass sends a request to the server. msg is r, or what is to be sent in its
// place.
func (v *session) pass(ctx context.Context, r *request, msg *dragoman.Message) (*dragoman.Message, error) {
	up, err := v.upward(r, msg)
	if err != nil {
		return nil, err
	}
	if r.from == nil || r.level < 0 && r.Meta(protocol.MetaProgressToken) == nil {
		return v.run(ctx, up, aside{v}) // nothing can be told on the way
	}
	in := &inside{session: v, route: v.route(r.rev), level: r.level, ear: ear{from: r.from}}
	if r.level >= 0 {
		v.raise(ctx, r.level)
		v.join(in)
		defer v.leave(in)
	}
	return v.run(ctx, up, in)
}

// upward returns a request as the server has it.
func (v *session) upward(r *request, msg *dragoman.Message) (*dragoman.Message, error) {
	up, err := v.route(r.rev).Request(msg, nil)
	if err == nil && v.rev.HasCoreTasks() && r.Method() == protocol.MethodCallTool && up.Get("task") != nil {
		// A modern client has no say in whether its call becomes a task.
		up, err = up.Edit().Drop("task").Message()
	}
	return up, err
}

// answer returns the server's response as the client has it. rounds is how often
// the client has been asked for this request before.
func (s *Server) answer(r *request, v *session, resp *dragoman.Message, rounds int) (*dragoman.Message, error) {
	method := r.Method()
	if resp.IsError() && v.rev.HasURLElicitation() && protocol.MayNeedInput(method) {
		if e := resp.RPCError(); e.Code == protocol.CodeURLElicitation {
			return s.sendAway(r, v, e, rounds)
		}
	}
	out, err := v.route(r.rev).Response(method, resp, v.info)
	if err != nil {
		return r.Fail(failure(protocol.CodeInternal, nil, "the server's answer cannot be passed on: %v", err)), nil
	}
	if protocol.IsList(method) && !out.IsError() {
		return s.page(r, v, out)
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
	v, err := s.pool.get(ctx, r, false)
	if err != nil {
		return s.failed(ctx, r, err)
	}
	defer s.pool.release(v, false)
	result := map[string]any{
		"resultType":        protocol.ResultComplete,
		"supportedVersions": s.supported(),
		"capabilities":      v.route(r.rev).ServerCapabilities(v.caps),
		"ttlMs":             s.opts.TTL.Milliseconds(),
		"cacheScope":        "private",
	}
	if v.instructions != nil {
		result["instructions"] = v.instructions
	}
	if v.info != nil {
		result["_meta"] = map[string]json.RawMessage{protocol.MetaServerInfo: v.info}
	}
	return r.Reply(result)
}
