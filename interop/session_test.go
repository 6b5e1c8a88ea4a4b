package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// An sdkClient is connected to a server. It answers server requests as answer does, and
// asks for log messages of all levels.
type sdkClient interface {
	// tools returns the names of all tools.
	tools(ctx context.Context) ([]string, error)

	// call calls a tool and returns its result, which is encoded as JSON. token
	// asks for progress.
	call(ctx context.Context, name string, args object, token string) (any, error)

	// do calls a method by the name that it has in the TypeScript SDK.
	do(ctx context.Context, method string, params object) (json.RawMessage, error)
}

// A session is a client with what it has negotiated and received. Features are tried with it.
type session struct {
	sdkClient
	server string // the name that it gives itself
	rev    protocol.Revision
	notes  *notifications
	hasty  bool              // the client does not wait until its subscription is open
	cannot map[string]string // features that the client lacks, and why
}

// A connector connects a client to a server, which is a URL or a command. Without a revision
// the client finds out what the server speaks.
type connector func(t *testing.T, to []string, rev protocol.Revision) *session

// isURL reports whether a server is reached at a URL.
func isURL(to []string) bool {
	return strings.HasPrefix(to[0], "http:") || strings.HasPrefix(to[0], "ws:")
}

// open connects a client to the server of a name, in a revision.
func (connect connector) open(t *testing.T, to []string, server string, rev protocol.Revision) *session {
	t.Helper()
	s := connect(t, to, rev)
	if s.server != server || s.rev != rev {
		t.Errorf("connected to %q in %s, want %q in %s", s.server, s.rev, server, rev)
	}
	return s
}

// try calls a method of the client.
func (s *session) try(t *testing.T, method string, params object) (object, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	result, err := s.do(ctx, method, params)
	if err != nil {
		return nil, err
	}
	return decode[object](t, result), nil
}

// want calls a method that succeeds.
func (s *session) want(t *testing.T, method string, params object) object {
	t.Helper()
	result, err := s.try(t, method, params)
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	return result
}

// tool calls a tool whose first text is what is wanted.
func (s *session) tool(t *testing.T, name string, args object, want string) {
	t.Helper()
	callTool(t, s, name, expected{args: args, text: want, logs: -1})
}

// until calls a tool that changes something until one more change is reported:
// once, unless the client does not wait until it is subscribed.
func (s *session) until(t *testing.T, tool string, args object, says, method string) {
	t.Helper()
	if s.hasty && !s.rev.HasSessions() {
		s.repeat(t, tool, args, says, method)
		return
	}
	before, _ := s.notes.count(method, "")
	s.tool(t, tool, args, says)
	s.notes.wait(t, before+1, method, "")
}

// repeat calls a tool until one more notification comes. It waits a little after each call: a
// server of the Go SDK reports a change when there was no other for 10 ms.
func (s *session) repeat(t *testing.T, tool string, args object, says, method string) {
	t.Helper()
	before, _ := s.notes.count(method, "")
	for end := time.Now().Add(patience); time.Now().Before(end); {
		s.tool(t, tool, args, says)
		if s.notes.came(before+1, method, "", patience/100) {
			return
		}
	}
	s.notes.wait(t, before+1, method, "") // reports what came instead
}

// errorCode returns the code of a JSON-RPC error, as each client reports it.
func errorCode(err error) int {
	switch {
	case errors.Is(err, mcp.ErrResourceNotFound):
		return protocol.CodeResourceNotFound
	case errors.Is(err, mcp.ErrInvalidParams):
		return protocol.CodeInvalidParams
	}
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return int(e.Code)
	}
	if e, ok := errors.AsType[*dragoman.Error](err); ok {
		return e.Code
	}
	return 0
}

// convert returns a value in a type of an SDK.
func convert[T any](value any) (out T, err error) {
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	return out, err
}

// ask calls a method of an SDK with params as JSON has them.
func ask[P, R any](ctx context.Context, params any, method func(context.Context, P) (R, error)) (any, error) {
	p, err := convert[P](params)
	if err != nil {
		return nil, err
	}
	return method(ctx, p)
}

// tell is ask for methods without a result.
func tell[P any](ctx context.Context, params any, method func(context.Context, P) error) (any, error) {
	return ask(ctx, params, func(ctx context.Context, p P) (object, error) { return object{}, method(ctx, p) })
}

// A prefixed is a client of several servers as one that uses one of them, by the
// names that this has itself.
type prefixed struct {
	sdkClient
	prefix    string
	resources func(uri string) bool // those of the server
}

// of returns the session as one with the server whose names have a prefix.
func (s *session) of(prefix string, resources func(uri string) bool) *session {
	one := *s
	one.sdkClient = &prefixed{s.sdkClient, prefix, resources}
	return &one
}

func (p *prefixed) tools(ctx context.Context) (own []string, err error) {
	names, err := p.sdkClient.tools(ctx)
	for _, name := range names {
		if name, ok := strings.CutPrefix(name, p.prefix); ok {
			own = append(own, name)
		}
	}
	return own, err
}

func (p *prefixed) call(ctx context.Context, name string, args object, token string) (any, error) {
	return p.sdkClient.call(ctx, p.prefix+name, args, token)
}

func (p *prefixed) do(ctx context.Context, method string, params object) (json.RawMessage, error) {
	switch method {
	case "getPrompt":
		params = object{"name": p.prefix + stringOf(params["name"]), "arguments": params["arguments"]}
	case "complete":
		params = object{"ref": object{"type": "ref/prompt", "name": p.prefix + stringOf(params["ref"].(object)["name"])}, "argument": params["argument"]}
	}
	result, err := p.sdkClient.do(ctx, method, params)
	if err != nil {
		return nil, err
	}
	switch method {
	case "listPrompts":
		return p.keep(result, "prompts", "name", func(name string) (string, bool) { return strings.CutPrefix(name, p.prefix) })
	case "listResources":
		return p.keep(result, "resources", "uri", func(uri string) (string, bool) { return uri, p.resources(uri) })
	}
	return result, nil
}

// keep returns a result with those elements of a list that are the server's.
func (*prefixed) keep(result json.RawMessage, list, key string, own func(string) (string, bool)) (json.RawMessage, error) {
	members, err := convert[map[string]json.RawMessage](result)
	if err != nil {
		return nil, err
	}
	all, err := convert[[]object](members[list])
	if err != nil {
		return nil, err
	}
	var some []object
	for _, e := range all {
		if name, ok := own(stringOf(e[key])); ok {
			e[key] = name
			some = append(some, e)
		}
	}
	return json.Marshal(object{list: some})
}

// stringOf returns the string that a value is, or none.
func stringOf(v any) string {
	s, _ := v.(string)
	return s
}
