package era

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/rounds"
	"github.com/dragoman-mcp/dragoman/internal/wire/token"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// FromMethods returns a server that is made of functions, for clients of both eras: the
// functions answer tools/list, tools/call and whatever else there is to serve, with the
// results that the schema of the protocol has. Handshakes, server/discover, the check of
// each request's envelope, and what the modern era requires in every result are done here.
// [CallOf] gives a function its [Call], by which it reports progress, logs, and asks the
// client.
//
// An error of tools/call that is no [*dragoman.Error] is a result that says that the tool
// has failed. opts may be nil.
func FromMethods(methods dragoman.Methods, opts *FrontendOptions) *Frontend {
	var o FrontendOptions
	if opts != nil {
		o = *opts
	}
	if o.Name == "" {
		o.Name, o.Version = "dragoman", "0.0.0"
	}
	if o.Info == nil {
		o.Info = map[string]string{"name": o.Name, "version": cmp.Or(o.Version, "0.0.0")}
	}
	s := &methodServer{methods: maps.Clone(methods), opts: &o, sealer: rounds.NewSealer()}
	s.modern = slices.DeleteFunc(o.served(), func(r protocol.Revision) bool { return r.Era() != protocol.Modern })
	if len(s.modern) == 0 { // legacy clients are served by a translation from one
		s.modern = []protocol.Revision{protocol.Latest}
	}
	s.info, _ = json.Marshal(o.Info) // what cannot be encoded is no introduction
	if s.methods[protocol.MethodDiscover] == nil {
		s.methods[protocol.MethodDiscover] = s.discover
	}
	if o.Changes != nil {
		s.methods[protocol.MethodListen] = o.Changes.listen
	}
	for method, f := range s.methods {
		s.methods[method] = s.serve(method, f)
	}
	return NewFrontend(s, &o)
}

// A methodServer is a peer of the modern era that is made of functions.
type methodServer struct {
	methods dragoman.Methods
	opts    *FrontendOptions
	info    json.RawMessage // who it is
	modern  []protocol.Revision
	sealer  *token.Sealer // of request states
}

// Call implements dragoman.Peer.
func (s *methodServer) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if s.methods[req.Method()] == nil {
		return req.Fail(&dragoman.Error{
			Code: protocol.CodeMethodNotFound, Message: "method not found: " + req.Method() + "; see the capabilities for what is served",
		}), nil
	}
	c, refused := s.newCall(ctx, req, from)
	if refused != nil {
		return req.Fail(refused), nil
	}
	resp, err := s.methods.Call(context.WithValue(ctx, callKey{}, c), req, from)
	if err != nil || resp.IsError() {
		return resp, err
	}
	return c.complete(resp)
}

// complete adds to a result what every result of the modern era has.
func (c *Call) complete(resp *dragoman.Message) (*dragoman.Message, error) {
	e := resp.Edit()
	kind := resp.Get("resultType")
	if kind == nil {
		e.Set("resultType", []byte(`"`+protocol.ResultComplete+`"`))
	}
	if protocol.Cacheable(c.req.Method()) && string(kind) != `"`+protocol.ResultInputRequired+`"` {
		var ttl time.Duration
		scope := "private"
		if cache := c.server.opts.Cache; cache != nil && len(c.current)+len(c.earlier) == 0 {
			ttl, scope = cache(c.req)
		}
		if resp.Get("ttlMs") == nil {
			e.Set("ttlMs", strconv.AppendInt(nil, ttl.Milliseconds(), 10))
		}
		if resp.Get("cacheScope") == nil {
			e.Set("cacheScope", []byte(`"`+scope+`"`))
		}
	}
	if resp.Meta(protocol.MetaServerInfo) == nil {
		e.SetMeta(protocol.MetaServerInfo, c.server.info)
	}
	return e.Message()
}

// Notify implements dragoman.Peer.
func (s *methodServer) Notify(ctx context.Context, note *dragoman.Message) error {
	return s.methods.Notify(ctx, note)
}

// capabilities are what a server has if it has a method.
var capabilities = map[string]string{
	protocol.MethodListTools:     "tools",
	protocol.MethodListPrompts:   "prompts",
	protocol.MethodListResources: "resources",
	protocol.MethodComplete:      "completions",
}

// discover says what the functions are good for.
func (s *methodServer) discover(context.Context, *dragoman.Message, dragoman.Peer) (any, error) {
	has := make(map[string]any)
	for method := range s.methods {
		if name, ok := capabilities[method]; ok {
			has[name] = s.opts.Changes.capabilities(name)
		}
	}
	if s.opts.Logs {
		has["logging"] = struct{}{}
	}
	result := map[string]any{"supportedVersions": protocol.Names(s.modern), "capabilities": has}
	if s.opts.Instructions != "" {
		result["instructions"] = s.opts.Instructions
	}
	return result, nil
}

type method = func(context.Context, *dragoman.Message, dragoman.Peer) (any, error)

// serve returns a function that makes results of the errors of another one which ask the
// client, or say that a tool has failed.
func (s *methodServer) serve(name string, f method) method {
	return func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (any, error) {
		result, err := f(ctx, req, from)
		if err == nil || ctx.Err() != nil {
			return result, err
		}
		if input, ok := errors.AsType[*inputRequired](err); ok {
			return CallOf(ctx).inputResult(input)
		}
		if _, rpc := errors.AsType[*dragoman.Error](err); rpc || name != protocol.MethodCallTool {
			return result, err
		}
		return map[string]any{
			"content": []map[string]string{{"type": "text", "text": err.Error()}},
			"isError": true,
		}, nil
	}
}
