package era_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	library "github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// adder has one tool, which adds.
var adder = dragoman.Methods{
	protocol.MethodListTools: func(context.Context, *dragoman.Message, dragoman.Peer) (any, error) {
		return json.RawMessage(`{"tools":[{"name":"add","inputSchema":{"type":"object"}}]}`), nil
	},
	protocol.MethodCallTool: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (any, error) {
		var args struct{ A, B int }
		switch {
		case req.Name() != "add":
			return nil, &dragoman.Error{Code: protocol.CodeInvalidParams, Message: "unknown tool"}
		case json.Unmarshal(req.Get("arguments"), &args) != nil:
			return nil, errors.New("a and b must be numbers")
		}
		return map[string]any{"content": []any{}, "structuredContent": map[string]int{"sum": args.A + args.B}}, nil
	},
}

func TestMethodsAreAServerOfBothEras(t *testing.T) {
	peertest.NoLeak(t)
	front := era.FromMethods(adder, &era.FrontendOptions{Name: "adder", Version: "1"})
	defer func() { _ = front.Close() }()
	for _, e := range []protocol.Era{protocol.Legacy, protocol.Modern} {
		c, err := library.Connect(t.Context(), &library.Server{Dialer: dragoman.Local(front)}, &library.Options{Era: &e})
		if err != nil {
			t.Fatalf("%s: %v", e, err)
		}
		defer func() { _ = c.Close() }()
		if c.Era() != e || c.ServerInfo().Name != "adder" || !c.Can("tools") || c.Can("prompts") {
			t.Errorf("%s: %s, %v, %s", e, c.Era(), c.ServerInfo(), c.Capabilities())
		}
		if tools, err := c.Tools(t.Context()); err != nil || len(tools) != 1 || tools[0].Name != "add" {
			t.Errorf("%s: %v, %v", e, tools, err)
		}
		if result, err := c.CallTool(t.Context(), "add", map[string]int{"a": 1, "b": 2}, nil); err != nil || string(result.StructuredContent) != `{"sum":3}` {
			t.Errorf("%s: %v, %v", e, result, err)
		}
		if result, err := c.CallTool(t.Context(), "add", map[string]string{"a": "x"}, nil); err != nil || !result.IsError || result.Text() != "a and b must be numbers" {
			t.Errorf("%s: a tool that fails gives %v, %v", e, result, err)
		}
		var no *dragoman.Error
		if _, err := c.CallTool(t.Context(), "other", nil, nil); !errors.As(err, &no) || no.Code != protocol.CodeInvalidParams {
			t.Errorf("%s: %v", e, err)
		}
		if _, err := c.Request(t.Context(), "prompts/get", nil); !errors.As(err, &no) || no.Code != protocol.CodeMethodNotFound {
			t.Errorf("%s: %v", e, err)
		}
	}
}

func TestResultsOfMethodsHaveWhatTheModernEraWants(t *testing.T) {
	front := era.FromMethods(dragoman.Methods{
		protocol.MethodListTools: adder[protocol.MethodListTools],
		protocol.MethodListPrompts: func(context.Context, *dragoman.Message, dragoman.Peer) (any, error) {
			return json.RawMessage(`{"prompts":[],"ttlMs":5,"cacheScope":"public","resultType":"other"}`), nil
		},
	}, nil)
	defer func() { _ = front.Close() }()
	const envelope = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	for _, test := range []struct{ method, meta, want string }{
		{"tools/list", envelope, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"dragoman","version":"0.0.0"}},"tools":[{"name":"add","inputSchema":{"type":"object"}}]}`},
		{"prompts/list", envelope, `{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"dragoman","version":"0.0.0"}},"prompts":[],"ttlMs":5,"cacheScope":"public","resultType":"other"}`},
		{"tools/list", `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`, ""},
	} {
		req, err := dragoman.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"` + test.method + `","params":{` + test.meta + `}}`))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := front.Requests().Call(t.Context(), req, nil)
		if err != nil || string(resp.Result()) != test.want {
			t.Errorf("%s: %s, %v", test.method, resp, err)
		}
	}
}

func TestChangesOfMethodsReachClientsOfBothEras(t *testing.T) {
	peertest.NoLeak(t)
	changes := &era.Changes{Tools: true, Subscribable: func(uri string) bool { return uri == "x:a" }}
	methods := dragoman.Methods{protocol.MethodListResources: func(context.Context, *dragoman.Message, dragoman.Peer) (any, error) {
		return json.RawMessage(`{"resources":[]}`), nil
	}}
	maps.Copy(methods, adder)
	front := era.FromMethods(methods, &era.FrontendOptions{Changes: changes})
	defer func() { _ = front.Close() }()
	publish := func(method string, params any) {
		note, err := dragoman.NewNotification(method, params)
		if err != nil {
			t.Fatal(err)
		}
		changes.Publish(note)
	}
	for _, e := range []protocol.Era{protocol.Legacy, protocol.Modern} {
		notes := make(chan *dragoman.Message, 100)
		c, err := library.Connect(t.Context(), &library.Server{Dialer: dragoman.Local(front)}, &library.Options{
			Era: &e, OnNotification: func(note *dragoman.Message) { notes <- note },
		})
		if err != nil {
			t.Fatalf("%s: %v", e, err)
		}
		defer func() { _ = c.Close() }()
		if err := c.Subscribe(t.Context(), "x:b"); err == nil {
			t.Errorf("%s: subscribed to a resource that is not subscribable", e)
		}
		if err := c.Subscribe(t.Context(), "x:a"); err != nil {
			t.Fatalf("%s: %v", e, err)
		}
		publish(protocol.NoteResourceUpdated, map[string]string{"uri": "x:b"})
		publish(protocol.NotePromptsChanged, nil)
		publish(protocol.NoteResourceUpdated, map[string]string{"uri": "x:a"})
		if note := <-notes; note.URI() != "x:a" {
			t.Errorf("%s: got %s", e, note)
		}
		publish(protocol.NoteToolsChanged, nil)
		if note := <-notes; note.Method() != protocol.NoteToolsChanged {
			t.Errorf("%s: got %s", e, note)
		}
	}
}

func TestListensOfMethodsEndWithTheirChanges(t *testing.T) {
	changes := &era.Changes{Tools: true}
	front := era.FromMethods(adder, &era.FrontendOptions{Changes: changes})
	defer func() { _ = front.Close() }()
	req, err := dragoman.Parse([]byte(`{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"promptsListChanged":true},
		"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	var acknowledged string
	resp, err := front.Requests().Call(t.Context(), req, dragoman.Funcs{OnNotify: func(_ context.Context, note *dragoman.Message) error {
		acknowledged = string(note.Get("notifications"))
		return changes.Close()
	}})
	if err != nil || string(resp.Meta(protocol.MetaSubscriptionID)) != `"l"` || acknowledged != `{"toolsListChanged":true}` {
		t.Errorf("acknowledged %s, then %s, %v", acknowledged, resp, err)
	}
}

func TestFunctionsReportLogAndAskInBothEras(t *testing.T) {
	peertest.NoLeak(t)
	text := func(s string) any {
		return map[string]any{"content": []map[string]string{{"type": "text", "text": s}}}
	}
	front := era.FromMethods(dragoman.Methods{
		protocol.MethodListTools: adder[protocol.MethodListTools],
		protocol.MethodCallTool: func(ctx context.Context, _ *dragoman.Message, _ dragoman.Peer) (any, error) {
			c := era.CallOf(ctx)
			c.Sealed = true
			c.Log(ctx, "debug", "test", "not wanted")
			c.Log(ctx, "error", "test", "wanted")
			var said []string
			for i, key := range []string{"first", "second"} {
				got, err := c.Ask(era.InputRequest{Key: key, Method: protocol.MethodElicit, Params: map[string]any{
					"message": key, "requestedSchema": json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`),
				}})
				if err != nil {
					return nil, err
				}
				c.Progress(ctx, float64(i+1), 2, key)
				said = append(said, dragoman.MemberText(dragoman.Member(got[key], "content"), "name"))
			}
			return text(strings.Join(said, " and ")), nil
		},
	}, &era.FrontendOptions{Logs: true, Instructions: "call it"})
	defer func() { _ = front.Close() }()
	for _, e := range []protocol.Era{protocol.Legacy, protocol.Modern} {
		logged := make(chan string, 100)
		options := library.Options{
			Era: &e,
			Elicitation: func(_ context.Context, params json.RawMessage) (any, error) {
				return map[string]any{"action": "accept", "content": map[string]string{"name": "the " + dragoman.MemberText(params, "message")}}, nil
			},
			OnNotification: func(note *dragoman.Message) { logged <- string(note.Get("data")) },
		}
		connect := func(o library.Options) *library.Client {
			c, err := library.Connect(t.Context(), &library.Server{Dialer: dragoman.Local(front)}, &o)
			if err != nil {
				t.Fatalf("%s: %v", e, err)
			}
			t.Cleanup(func() { _ = c.Close() })
			return c
		}
		c := connect(options)
		if err := c.SetLevel(t.Context(), "warning"); err != nil {
			t.Errorf("%s: %v", e, err)
		}
		var progress []string
		result, err := c.CallTool(t.Context(), "add", nil, &library.CallOptions{OnProgress: func(p library.Progress) { progress = append(progress, p.Message) }})
		if err != nil || result.Text() != "the first and the second" || c.Instructions() != "call it" {
			t.Errorf("%s: %v, %v, instructions %q", e, result, err, c.Instructions())
		}
		if len(progress) == 0 || progress[len(progress)-1] != "second" {
			t.Errorf("%s: progress %q", e, progress)
		}
		if data := <-logged; data != `"wanted"` {
			t.Errorf("%s: logged %s", e, data)
		}
		options.Elicitation = nil
		var no *dragoman.Error
		if _, err := connect(options).CallTool(t.Context(), "add", nil, nil); !errors.As(err, &no) || no.Code != protocol.CodeMissingCapability {
			t.Errorf("%s: a client that cannot be asked gets %v", e, err)
		}
	}
}

func TestServersOfMethodsRefuseRevisionsThatTheyDoNotServe(t *testing.T) {
	for _, served := range [][]protocol.Revision{{protocol.V20250618}, {protocol.Latest}} {
		front := era.FromMethods(adder, &era.FrontendOptions{Revisions: served})
		defer func() { _ = front.Close() }()
		for _, e := range []protocol.Era{protocol.Legacy, protocol.Modern} {
			c, err := library.Connect(t.Context(), &library.Server{Dialer: dragoman.Local(front)}, &library.Options{Era: &e})
			if e != served[0].Era() {
				if err == nil {
					t.Errorf("a server of %s serves the %s era", served[0], e)
				}
				continue
			}
			if err != nil {
				t.Fatalf("%s: %v", e, err)
			}
			defer func() { _ = c.Close() }()
			if c.Revision() != served[0] {
				t.Errorf("a server of %s speaks %s", served[0], c.Revision())
			}
		}
	}
}
