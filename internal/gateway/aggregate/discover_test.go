package aggregate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/aggregate"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func saying(name, discover string) *server {
	return &server{name: name, peer: answers(map[string]any{protocol.MethodDiscover: discover})}
}

func TestDiscoverSaysWhatAnyMemberCanDo(t *testing.T) {
	a := of(t, &aggregate.Options{Name: "gate", Version: "3", Instructions: "Ours."},
		saying("a", `{"capabilities":{"tools":{},"resources":{"subscribe":false},"extensions":{"io.modelcontextprotocol/ui":{"n":12345678901234567890},"e/2":{}}},"instructions":"Of a.","ttlMs":60000,"cacheScope":"public"}`),
		saying("b", `{"capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"completions":{},"experimental":{"x":{}},"extensions":{"io.modelcontextprotocol/ui":{},"io.modelcontextprotocol/tasks":{}}},"ttlMs":30000,"cacheScope":"public"}`))
	resp := ask(t, a, protocol.MethodDiscover, nil)
	want := `{"completions":{},"extensions":{"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/ui":{"n":12345678901234567890}},` +
		`"resources":{"subscribe":true,"listChanged":true},"tools":{"listChanged":true}}`
	if got := string(resp.Get("capabilities")); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	result := decoded(t, resp)
	if result["instructions"] != "Ours.\n\n# a\nOf a." || result["ttlMs"] != 30000.0 || result["cacheScope"] != "public" {
		t.Errorf("got %v", result)
	}
	if got := fmt.Sprint(result["supportedVersions"]); got != "[2026-07-28]" {
		t.Errorf("versions %s", got)
	}
	if got := fmt.Sprint(result["_meta"].(object)[protocol.MetaServerInfo]); got != "map[name:gate version:3]" {
		t.Errorf("got %s", got)
	}
}

func TestAMemberThatDoesNotAnswerIsWhatItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := saying("a", `{"capabilities":{"prompts":{}},"instructions":"I am a.","ttlMs":9,"cacheScope":"public"}`)
		well := s.peer
		a := of(t, &aggregate.Options{PerMember: aggregate.DefaultPerMember}, s)
		s.becomes(hanging)
		// Of which nothing is known: it may be able to do everything.
		if got := string(ask(t, a, protocol.MethodDiscover, nil).Get("capabilities")); !strings.Contains(got, `"tools"`) || !strings.Contains(got, `"subscribe":true`) {
			t.Errorf("got %s", got)
		}
		s.becomes(well)
		must(t, a, protocol.MethodDiscover, nil)
		s.becomes(hanging)
		resp := ask(t, a, protocol.MethodDiscover, nil)
		if got := string(resp.Get("capabilities")); got != `{"prompts":{"listChanged":true}}` {
			t.Errorf("got %s", got)
		}
		result := decoded(t, resp)
		if result["ttlMs"] != 0.0 || result["instructions"] != "# a\nI am a." || fmt.Sprint(result["_meta"].(object)["dragoman/missing"]) != "[a]" {
			t.Errorf("got %v", result)
		}
	})
}

func TestInstructionsAreBounded(t *testing.T) {
	var members []*server
	for i := range 20 {
		members = append(members, saying(fmt.Sprint("m", i), `{"capabilities":{},"instructions":"`+strings.Repeat("ä", 3<<10)+`"}`))
	}
	result := must(t, of(t, nil, members...), protocol.MethodDiscover, nil)
	text := result["instructions"].(string)
	if len(text) > aggregate.MaxAllInstructions || strings.Contains(text, "\uFFFD") || strings.Count(text, "# m") < 7 {
		t.Errorf("%d bytes", len(text))
	}
}

func TestAnAggregateOfNothingAnswers(t *testing.T) {
	a := of(t, nil)
	if got := string(ask(t, a, protocol.MethodDiscover, nil).Get("capabilities")); !strings.Contains(got, `"tools":{"listChanged":true}`) {
		t.Errorf("got %s", got)
	}
	if got := names(t, a); len(got) != 0 {
		t.Errorf("got %q", got)
	}
	if e := refusal(t, a, protocol.MethodCallTool, call("x", nil)); e.Code != protocol.CodeInvalidParams {
		t.Errorf("got %v", e)
	}
	if e := refusal(t, a, protocol.MethodReadResource, object{"uri": "x://y"}); e.Code != protocol.CodeInvalidParams {
		t.Errorf("got %v", e)
	}
}

func TestLegacyClientsLearnWhatRealMembersSay(t *testing.T) {
	both(t, builtin.Options{}, func(t *testing.T, c *client, _ *aggregate.Aggregate, _ string) {
		if c.era == protocol.Modern {
			got := c.rounds(protocol.MethodDiscover, object{})
			if text := got["instructions"].(string); !strings.Contains(text, "# old\n") || !strings.Contains(text, "# new\n") {
				t.Errorf("got %q", text)
			}
		}
		if got := len(c.rounds(protocol.MethodListTools, object{})["tools"].([]any)); got < 20 {
			t.Errorf("%d tools", got)
		}
	})
}

// What is in flight when an aggregate is closed continues; a front that is closed cuts it.
func TestCallsEndWithTheirFrontAndBeginNoMoreAfterTheAggregate(t *testing.T) {
	for _, e := range []protocol.Era{protocol.Legacy, protocol.Modern} {
		t.Run(e.String()+" client", func(t *testing.T) {
			peertest.NoLeak(t)
			s := fake("a", "wait")
			began := make(chan struct{})
			lists := s.peer
			s.peer = dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
				if req.Method() != protocol.MethodCallTool {
					return lists.Call(ctx, req, from)
				}
				close(began)
				return hanging.Call(ctx, req, from)
			}}
			a := of(t, nil, s)
			c := join(t, a, e)
			done := make(chan error, 1)
			// Ends with the front.
			go func() {
				_, err := c.call(context.Background(), protocol.MethodCallTool, call("a_wait", nil))
				done <- err
			}()
			<-began
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := c.call(t.Context(), protocol.MethodCallTool, call("a_wait", nil)); !errors.Is(err, dragoman.ErrClosed) {
				t.Errorf("after the end of the aggregate: got %v", err)
			}
			select {
			case err := <-done:
				t.Fatalf("a call in flight has ended with the aggregate: %v", err)
			default:
			}
			if err := c.front.Close(); err != nil {
				t.Fatal(err)
			}
			if err := <-done; !errors.Is(err, dragoman.ErrClosed) {
				t.Errorf("after the end of the front: got %v", err)
			}
			if _, err := c.call(t.Context(), protocol.MethodListTools, nil); !errors.Is(err, dragoman.ErrClosed) {
				t.Errorf("a request to a front that is closed: got %v", err)
			}
			if _, err := c.front.Accept(t.Context(), nil); !errors.Is(err, dragoman.ErrClosed) {
				t.Errorf("a client of a front that is closed: got %v", err)
			}
			a.Set(list(fake("b"))) // does nothing
		})
	}
}
