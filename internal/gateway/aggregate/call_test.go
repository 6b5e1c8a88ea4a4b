package aggregate_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/aggregate"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestPain6_ServersAskTheirClientsThroughTheAggregate(t *testing.T) {
	tests := []struct {
		tool string
		args object
		want string
	}{
		{"echo", object{"text": "hello"}, "hello"},
		{"test_sampling", object{"prompt": "Hello?"}, "LLM response: Hi!"},
		{"test_elicitation", object{"message": "Who?"}, `"username":"Ada"`},
		{"test_elicitation_url", nil, "action=accept"},
		{"test_input_required_result_list_roots", nil, "The client's roots: file:///a, file:///b"},
		{"test_input_required_result_multiple_inputs", nil, "Hi! Ada (roots: 2)"},
		{"test_input_required_result_multi_round", nil, "Ada likes Ada."},
	}
	both(t, builtin.Options{}, func(t *testing.T, c *client, _ *aggregate.Aggregate, member string) {
		for _, test := range tests {
			if got := said(c.rounds(protocol.MethodCallTool, call(member+"_"+test.tool, test.args))); !strings.Contains(got, test.want) {
				t.Errorf("%s: got %q, want %q", test.tool, got, test.want)
			}
		}
		prompt := c.rounds(protocol.MethodGetPrompt, object{"name": member + "_test_input_required_result_prompt"})
		if prompt["messages"] == nil {
			t.Errorf("got %v", prompt)
		}
		if r := c.rounds(protocol.MethodReadResource, object{"uri": "test://asking-resource"}); r["contents"] == nil {
			t.Errorf("got %v", r)
		}
	})
}

func TestPain17_ProgressArrivesUnderTheClientsToken(t *testing.T) {
	both(t, builtin.Options{}, func(t *testing.T, c *client, _ *aggregate.Aggregate, member string) {
		params := call(member+"_test_tool_with_progress", nil)
		params["_meta"] = object{"progressToken": "tok"}
		c.rounds(protocol.MethodCallTool, params)
		c.mu.Lock()
		defer c.mu.Unlock()
		n := 0
		for _, m := range c.heard {
			if m.Method() == protocol.NoteProgress {
				n++
				if string(m.Get("progressToken")) != `"tok"` {
					t.Errorf("got %s", m.Bytes())
				}
			}
		}
		if n != 3 {
			t.Errorf("told of progress %d times, want 3", n)
		}
	})
}

func TestLogMessagesArrive(t *testing.T) {
	both(t, builtin.Options{}, func(t *testing.T, c *client, _ *aggregate.Aggregate, member string) {
		params := call(member+"_test_tool_with_logging", nil)
		params["_meta"] = object{protocol.MetaLogLevel: "info"}
		if c.era == protocol.Legacy {
			delete(params, "_meta")
		}
		c.rounds(protocol.MethodCallTool, params)
		if n := c.count(protocol.NoteMessage, ""); n != 3 {
			t.Errorf("%d log messages, want 3", n)
		}
	})
}

func TestPain16_CancellingReachesTheTool(t *testing.T) {
	peertest.NoLeak(t)
	began, cancelled := make(chan struct{}), make(chan error, 1)
	s := fake("a", "wait")
	lists := s.peer
	s.peer = dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
		if req.Method() != protocol.MethodCallTool {
			return lists.Call(ctx, req, from)
		}
		close(began)
		<-ctx.Done()
		cancelled <- context.Cause(ctx)
		return nil, context.Cause(ctx)
	}}
	c := join(t, of(t, nil, s), protocol.Modern)
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	// Ends when the call is cancelled.
	go func() {
		_, err := c.call(ctx, protocol.MethodCallTool, call("a_wait", nil))
		done <- err
	}()
	<-began
	why := errors.New("enough")
	cancel(why)
	for what, ch := range map[string]chan error{"the tool": cancelled, "the caller": done} {
		select {
		case err := <-ch:
			if !errors.Is(err, why) {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(patience):
			t.Fatalf("%s was not told", what)
		}
	}
}

func TestPain16_CancellingReachesRealServers(t *testing.T) {
	both(t, builtin.Options{}, func(t *testing.T, c *client, _ *aggregate.Aggregate, member string) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := c.call(ctx, protocol.MethodCallTool, call(member+"_wait", nil)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if got := said(c.rounds(protocol.MethodCallTool, call(member+"_echo", object{"text": "x"}))); got != "x" {
			t.Errorf("afterwards: %q", got)
		}
	})
}

func TestPain25_ArgumentsAndResultsPassByteForByte(t *testing.T) {
	const args = `{"big":12345678901234567890,"e":1.50E+3,"u":"\u00e4\/","n":{"z":null,"a":[1]}}`
	both(t, builtin.Options{}, func(t *testing.T, c *client, _ *aggregate.Aggregate, member string) {
		text := `{"name":"` + member + `_reflect","arguments":` + args + `,"x-unknown":18446744073709551617`
		if c.era == protocol.Modern {
			text += `,"_meta":{"` + protocol.MetaProtocolVersion + `":"` + protocol.Latest.String() + `","` + protocol.MetaClientCapabilities + `":{}}`
		}
		req, err := dragoman.NewRequest(dragoman.StringID("a\u00e4"), protocol.MethodCallTool, []byte(text+"}"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.peer.Call(t.Context(), req, nil)
		if err != nil || !bytes.Contains(resp.Bytes(), []byte(args)) || resp.ID() != req.ID() {
			t.Errorf("got %v, %v", resp, err)
		}
	})
}

func TestPain18_LargeResultsPass(t *testing.T) {
	both(t, builtin.Options{}, func(t *testing.T, c *client, _ *aggregate.Aggregate, member string) {
		const size = 1 << 20
		if got := said(c.rounds(protocol.MethodCallTool, call(member+"_large", object{"bytes": size}))); len(got) != size {
			t.Errorf("%d bytes, want %d", len(got), size)
		}
	})
}

func TestOnlyTheNameOfACallIsChanged(t *testing.T) {
	s := fake("a", "t.t")
	a := of(t, nil, s)
	req := request(t, protocol.MethodCallTool, nil, object{
		"name": "a_t_t", "arguments": object{"x": 1}, "requestState": "S", "inputResponses": object{"k": object{}}, "zz": []any{nil},
	})
	if _, err := a.Call(t.Context(), req, nil); err != nil {
		t.Fatal(err)
	}
	got := s.calls[len(s.calls)-1]
	if want := strings.Replace(req.String(), `"a_t_t"`, `"t.t"`, 1); got.String() != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestTheEndOfAMembersConversationIsNotTheEndOfOurs(t *testing.T) {
	s := fake("a", "x")
	lists := s.peer
	s.peer = dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
		if req.Method() == protocol.MethodCallTool {
			return nil, dragoman.Closed(errors.New("crashed"))
		}
		return lists.Call(ctx, req, from)
	}}
	a := of(t, nil, s)
	if e := refusal(t, a, protocol.MethodCallTool, call("a_x", nil)); e.Code != protocol.CodeLost || !strings.Contains(string(e.Data), protocol.OutcomeUnknown) {
		t.Errorf("got %v", e)
	}
	if n := s.saw(protocol.MethodCallTool); n != 1 {
		t.Errorf("the tool was called %d times", n)
	}
}

func TestTasksBelongToTheirServer(t *testing.T) {
	task := func(req *dragoman.Message) any {
		return object{"resultType": "complete", "taskId": "7:x", "status": "working"}
	}
	s := fake("b", "x")
	s.peer = answers(map[string]any{
		protocol.MethodListTools:  object{"tools": []object{{"name": "x"}}},
		protocol.MethodCallTool:   object{"resultType": "task", "taskId": "7:x", "status": "working"},
		protocol.MethodGetTask:    task,
		protocol.MethodUpdateTask: object{"resultType": "complete"},
		protocol.MethodCancelTask: object{"resultType": "complete"},
	})
	a := of(t, nil, fake("a"), s)
	id := must(t, a, protocol.MethodCallTool, call("b_x", nil))["taskId"]
	if id != "b:7:x" {
		t.Fatalf("got %v", id)
	}
	for _, method := range []string{protocol.MethodGetTask, protocol.MethodUpdateTask, protocol.MethodCancelTask} {
		result := must(t, a, method, object{"taskId": id})
		if last := s.calls[len(s.calls)-1]; string(last.Get("taskId")) != `"7:x"` || result["taskId"] != nil && result["taskId"] != id {
			t.Errorf("%s: asked %s, got %v", method, last, result)
		}
	}
	for _, id := range []any{"7:x", "c:1", "", 3} {
		if e := refusal(t, a, protocol.MethodGetTask, object{"taskId": id}); e.Code != protocol.CodeInvalidParams {
			t.Errorf("%v: %v", id, e)
		}
	}
}

func TestOtherMethodsGoWhereTheirNamePoints(t *testing.T) {
	s := fake("a", "x")
	lists := s.peer
	s.peer = dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
		if req.Method() == "tools/explain" {
			return req.Reply(object{"of": req.Name()})
		}
		return lists.Call(ctx, req, from)
	}}
	a := of(t, nil, s)
	names(t, a)
	if got := must(t, a, "tools/explain", object{"name": "a_x"}); got["of"] != "x" {
		t.Errorf("got %v", got)
	}
	for _, method := range []string{"tools/explain", "ping", "initialize", "logging/setLevel", "resources/subscribe", "tasks/list", "tasks/result", "x/y"} {
		if e := refusal(t, a, method, object{"uri": "x://y"}); e.Code != protocol.CodeMethodNotFound {
			t.Errorf("%s: %v", method, e)
		}
	}
}

func TestRequestsWithoutAnEnvelopeAreRefused(t *testing.T) {
	a := of(t, nil, fake("a", "x"))
	for _, method := range []string{protocol.MethodDiscover, protocol.MethodListTools, protocol.MethodListen, protocol.MethodCallTool, protocol.MethodReadResource} {
		req, err := dragoman.NewRequest(dragoman.IntID(1), method, object{"name": "a_x", "uri": "x://y"})
		if err != nil {
			t.Fatal(err)
		}
		resp, err := a.Call(t.Context(), req, nil)
		if err != nil || !resp.IsError() || resp.RPCError().Code != protocol.CodeInvalidParams {
			t.Errorf("%s: %v, %v", method, resp, err)
		}
	}
	req, err := protocol.Envelope{Version: "1999-01-01"}.Put(request(t, protocol.MethodListTools, nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := a.Call(t.Context(), req, nil); err != nil || !resp.IsError() || resp.RPCError().Code != protocol.CodeUnsupported {
		t.Errorf("%v, %v", resp, err)
	}
}
