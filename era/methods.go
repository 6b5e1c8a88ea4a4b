package era

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// FromMethods returns a server that is made of functions, for clients of both eras: the
// functions answer tools/list, tools/call and whatever else there is to serve, with the
// results that the schema of the protocol has. Handshakes, server/discover, the check of
// each request's envelope, and what the modern era wants in every result are done here.
//
// An error of tools/call that is no [*dragoman.Error] is a result that says that the tool
// has failed. opts may be nil.
func FromMethods(methods dragoman.Methods, opts *FrontOptions) *Front {
	var o FrontOptions
	if opts != nil {
		o = *opts
	}
	if o.Name == "" {
		o.Name, o.Version = "dragoman", "0.0.0"
	}
	info, _ := json.Marshal(map[string]string{"name": o.Name, "version": cmp.Or(o.Version, "0.0.0")}) // strings can always be encoded
	s := &methodServer{methods: maps.Clone(methods), info: info, changes: o.Changes}
	if call := s.methods[protocol.MethodCallTool]; call != nil {
		s.methods[protocol.MethodCallTool] = failedTool(call)
	}
	if s.methods[protocol.MethodDiscover] == nil {
		s.methods[protocol.MethodDiscover] = s.discover
	}
	if o.Changes != nil {
		s.methods[protocol.MethodListen] = o.Changes.listen
	}
	return NewFront(s, &o)
}

// A methodServer is a peer of the modern era that is made of functions.
type methodServer struct {
	methods dragoman.Methods
	info    json.RawMessage // who it is
	changes *Changes        // may be nil
}

// Call implements dragoman.Peer.
func (s *methodServer) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if s.methods[req.Method()] != nil {
		if e := protocol.CheckEnvelope(req); e != nil {
			return req.Fail(e), nil
		}
	}
	resp, err := s.methods.Call(ctx, req, from)
	if err != nil || resp.IsError() {
		return resp, err
	}
	e := resp.Edit()
	if resp.Get("resultType") == nil {
		e.Set("resultType", []byte(`"`+protocol.ResultComplete+`"`))
	}
	if protocol.Cacheable(req.Method()) {
		if resp.Get("ttlMs") == nil {
			e.Set("ttlMs", []byte("0"))
		}
		if resp.Get("cacheScope") == nil {
			e.Set("cacheScope", []byte(`"private"`))
		}
	}
	if resp.Meta(protocol.MetaServerInfo) == nil {
		e.SetMeta(protocol.MetaServerInfo, s.info)
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
			has[name] = s.changes.capabilities(name)
		}
	}
	return map[string]any{"supportedVersions": protocol.NamesOf(protocol.Modern), "capabilities": has}, nil
}

// failedTool makes the errors of a tool results.
func failedTool(call func(context.Context, *dragoman.Message, dragoman.Peer) (any, error)) func(context.Context, *dragoman.Message, dragoman.Peer) (any, error) {
	return func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (any, error) {
		result, err := call(ctx, req, from)
		if _, rpc := errors.AsType[*dragoman.Error](err); err == nil || rpc || ctx.Err() != nil {
			return result, err
		}
		return map[string]any{
			"content": []map[string]string{{"type": "text", "text": err.Error()}},
			"isError": true,
		}, nil
	}
}
