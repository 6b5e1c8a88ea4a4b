package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/rules"
	"github.com/dragoman-mcp/dragoman/internal/toollist"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// views are what callers are offered of one server: what its configuration says, as far
// as the rules allow it.
type views struct {
	server string
	config func() *config.Server
	rules  *atomic.Pointer[rules.Set] // of the gateway
	tools  toollist.Cache             // what rules ask of tools
}

// A view is what one caller is offered of a server at one time.
type view struct {
	*views
	conf   *config.Server
	grant  *rules.Grant // nil if everything is allowed
	caller *dragoman.Caller
}

// of returns the view of who makes a request. In a conversation over a socket that is who
// has begun it.
func (s *views) of(ctx context.Context, began *dragoman.Caller) *view {
	v := &view{views: s, conf: s.config(), caller: dragoman.CallerOf(ctx)}
	if v.caller.Principal == "" && began != nil {
		v.caller = began
	}
	v.grant = s.rules.Load().For(v.caller, s.server)
	return v
}

// hides returns what tells whether a notification is about a resource that a caller is not
// offered when it comes.
func (s *views) hides(ctx context.Context, began *dragoman.Caller) func(*dragoman.Message) bool {
	at := dragoman.WithCallerOf(context.Background(), ctx)
	return func(note *dragoman.Message) bool {
		return note.Method() == protocol.NoteResourceUpdated && !s.of(at, began).offersResource(note.URI())
	}
}

// nothing is the answer to somebody for whom there is nothing here: that of a server that
// has nothing. The server is not asked, and whether it is there is not told.
func (v *view) nothing(req *dragoman.Message) *dragoman.Message {
	result := map[string]any{}
	switch req.Method() {
	case protocol.MethodListTools:
		result["tools"] = []any{}
	case protocol.MethodListPrompts:
		result["prompts"] = []any{}
	case protocol.MethodListResources:
		result["resources"] = []any{}
	case protocol.MethodListTemplates:
		result["resourceTemplates"] = []any{}
	case protocol.MethodDiscover:
		result["supportedVersions"], result["capabilities"] = []string{protocol.Latest.String()}, map[string]any{}
	case protocol.MethodCallTool:
		return req.Fail(unknown("tool", req.Name()))
	case protocol.MethodGetPrompt:
		return req.Fail(unknown("prompt", req.Name()))
	case protocol.MethodReadResource, protocol.MethodSubscribe:
		return req.Fail(noResource(req))
	default:
		return req.Fail(&dragoman.Error{Code: protocol.CodeMethodNotFound, Message: "Method not found: " + req.Method()})
	}
	if protocol.IsModern(req) {
		result["resultType"], result["ttlMs"], result["cacheScope"] = protocol.ResultComplete, 0, "private"
	}
	resp, err := req.Reply(result)
	if err != nil {
		return req.Fail(&dragoman.Error{Code: protocol.CodeInternal, Message: err.Error()})
	}
	return resp
}

// refusal returns the error for a request about something that is not offered: that for
// something that does not exist, in the request's era. It is nil if there is none. server
// is asked for its tools if a rule depends on them.
func (v *view) refusal(ctx context.Context, server dragoman.Peer, req *dragoman.Message) *dragoman.Error {
	method := req.Method()
	switch method {
	case protocol.MethodCallTool:
		own, ok := ownName(&v.conf.Tools, req.Name())
		if !ok {
			return unknown("tool", req.Name())
		}
		return judged(v.grant.Tool(method, own, func() (rules.Hints, bool) { return v.hints(ctx, server, req, own) }), unknown("tool", req.Name()))
	case protocol.MethodGetPrompt:
		if !v.conf.Prompts.Offers(req.Name()) {
			return unknown("prompt", req.Name())
		}
		return judged(v.grant.Prompt(method, req.Name()), unknown("prompt", req.Name()))
	case protocol.MethodReadResource, protocol.MethodSubscribe:
		if !v.conf.Resources.Offers(req.URI()) {
			return noResource(req)
		}
		return judged(v.grant.Resource(method, req.URI()), noResource(req))
	case protocol.MethodComplete:
		return v.refusedRef(req.Get("ref"))
	}
	if v.grant == nil || method == protocol.MethodDiscover || method == protocol.MethodPing {
		return nil
	}
	return judged(v.grant.Method(method), &dragoman.Error{Code: protocol.CodeMethodNotFound, Message: "Method not found: " + method})
}

// judged returns the error of a verdict, which is otherwise if there is nothing to be done
// about it.
func judged(v rules.Verdict, otherwise *dragoman.Error) *dragoman.Error {
	switch {
	case v.Allowed:
		return nil
	case len(v.Scopes) > 0:
		return protocol.ScopeNeeded(v.Scopes)
	}
	return otherwise
}

// hints returns what the server says of a tool.
func (v *view) hints(ctx context.Context, server dragoman.Peer, req *dragoman.Message, name string) (rules.Hints, bool) {
	fetch := func(ctx context.Context, req *dragoman.Message) (*dragoman.Message, error) {
		return server.Call(ctx, req, nil)
	}
	meta := json.RawMessage("{}")
	if protocol.IsModern(req) {
		meta = req.Get("_meta")
	}
	list, err := v.tools.Get(ctx, v.caller.Key()+"\x00"+v.caller.Session, meta, fetch)
	if err != nil {
		return rules.Hints{}, false
	}
	tool := list.Tool(name)
	if tool == nil {
		return rules.Hints{}, false
	}
	return rules.HintsOf(tool.Annotations), true
}

// refusedRef is refusal for what is to be completed. Servers differ in which of two
// members with one name they take, and in whether case matters, so all must be offered.
func (v *view) refusedRef(ref []byte) *dragoman.Error {
	for key, value := range dragoman.Members(ref) {
		text, _ := dragoman.Text(value)
		switch {
		case strings.EqualFold(key, "name") && !v.offersPrompt(text):
			return unknown("prompt", text)
		case strings.EqualFold(key, "uri") && !v.offersResource(text):
			return unknown("resource", text)
		}
	}
	if e := v.grant.Method(protocol.MethodComplete); !e.Allowed {
		return judged(e, &dragoman.Error{Code: protocol.CodeMethodNotFound, Message: "Method not found: " + protocol.MethodComplete})
	}
	return nil
}

func (v *view) offersPrompt(name string) bool {
	return v.conf.Prompts.Offers(name) && v.grant.Prompt(protocol.MethodGetPrompt, name).Shown()
}

func (v *view) offersResource(uri string) bool {
	return v.conf.Resources.Offers(uri) && v.grant.Resource(protocol.MethodReadResource, uri).Shown()
}

func (v *view) offersTool(own string, tool []byte) bool {
	t := &v.conf.Tools
	name, ok := ownName(t, cmp.Or(t.Rename[own], own))
	if !ok || name != own { // another tool has its name
		return false
	}
	return v.grant.Tool(protocol.MethodCallTool, own, func() (rules.Hints, bool) { return rules.HintsOf(dragoman.Member(tool, "annotations")), true }).Shown()
}

// offers returns where the result of a method has its list, what tells the elements apart,
// and which ones are offered; nil if all are, as they are.
func (v *view) offers(method string) (array, key string, offers func(name string, element []byte) bool) {
	c := v.conf
	switch method {
	case protocol.MethodListTools:
		if t := &c.Tools; v.grant != nil || len(t.Include)+len(t.Exclude)+len(t.Rename)+len(t.Describe) > 0 {
			offers = v.offersTool
		}
		return "tools", "name", offers
	case protocol.MethodListPrompts:
		if v.grant != nil || len(c.Prompts.Include)+len(c.Prompts.Exclude) > 0 {
			offers = func(name string, _ []byte) bool { return v.offersPrompt(name) }
		}
		return "prompts", "name", offers
	}
	if v.grant != nil || len(c.Resources.Include)+len(c.Resources.Exclude) > 0 {
		offers = func(uri string, _ []byte) bool { return v.offersResource(uri) }
	}
	if method == protocol.MethodListTemplates {
		return "resourceTemplates", "uriTemplate", offers
	}
	return "resources", "uri", offers
}

func unknown(noun, name string) *dragoman.Error {
	return &dragoman.Error{Code: protocol.CodeInvalidParams, Message: "Unknown " + noun + ": " + name}
}

// noResource is the error for a resource that does not exist, in the era of the request.
func noResource(req *dragoman.Message) *dragoman.Error {
	rev, uri := protocol.LatestLegacy, req.URI()
	if protocol.IsModern(req) {
		rev = protocol.Latest
	}
	return &dragoman.Error{Code: rev.CodeNoResource(), Message: "Resource not found: " + uri, Data: dragoman.WithMember([]byte("{}"), "uri", dragoman.Quote(uri))}
}
