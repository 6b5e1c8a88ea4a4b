package up_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestListsAndCallsCross(t *testing.T) {
	t.Parallel()
	for _, rev := range legacy {
		c := connect(t, serve(t, modern(t).Requests(), nil), rev)
		for _, request := range []string{
			`"method":"tools/list"`, `"method":"prompts/list","params":{}`, `"method":"resources/list"`, `"method":"resources/templates/list"`,
			`"method":"resources/read","params":{"uri":"test://watched-resource"}`,
			`"method":"prompts/get","params":{"name":"test_simple_prompt"}`,
			`"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"test_prompt_with_arguments"},"argument":{"name":"arg1","value":"t"}}`,
			`"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}`,
		} {
			for _, id := range []string{`7`, `"7"`, `12345678901234567890123`} {
				c.must(`{"jsonrpc":"2.0","id":` + id + `,` + request + `}`)
			}
		}
		wants(t, says(t, c.tool("session", `{}`)), "revision=2026-07-28 era=modern can: sampling")
		if isError := c.tool("test_error_handling", `{}`).Get("isError"); string(isError) != "true" {
			t.Errorf("%v: a tool's failure is %s", rev, isError)
		}
		c.fails(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"test://none"}}`, protocol.CodeResourceNotFound)
		c.fails(`{"jsonrpc":"2.0","id":1,"method":"vendor/unknown"}`, protocol.CodeMethodNotFound)
	}
}

func TestLargeResultCrosses(t *testing.T) {
	t.Parallel()
	c := connect(t, serve(t, modern(t).Requests(), nil), protocol.V20251125)
	if got := says(t, c.tool("large", `{"bytes":5242880}`)); len(got) != 5<<20 {
		t.Errorf("5 MiB became %d bytes", len(got))
	}
}

func TestContentIsAdapted(t *testing.T) {
	t.Parallel()
	s := serve(t, modern(t).Requests(), nil)
	old := connect(t, s, protocol.V20241105)
	if text := old.tool("test_audio_content", `{}`).String(); text == "" || containsType(text, "audio") {
		t.Errorf("audio for a client that has none: %s", text)
	}
	if text := connect(t, s, protocol.V20251125).tool("links", `{}`).String(); !containsType(text, "resource_link") {
		t.Errorf("links are gone: %s", text)
	}
}

func containsType(text, kind string) bool {
	m, err := dragoman.Parse([]byte(text))
	if err != nil {
		return false
	}
	var result struct{ Content []struct{ Type string } }
	_ = m.Decode(&result)
	return len(result.Content) > 0 && result.Content[0].Type == kind
}

func TestMissingCapabilityIsPassedOn(t *testing.T) {
	t.Parallel()
	c := dial(t, serve(t, modern(t).Requests(), nil))
	c.must(fmt.Sprintf(initialize, "2025-06-18"))
	e := c.fails(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"test_missing_capability"}}`, protocol.CodeMissingCapability)
	wants(t, string(e.Data), "requiredCapabilities")
}

func TestTroubleOfOurLinkIsNotTheClients(t *testing.T) {
	t.Parallel()
	for _, code := range []int{protocol.CodeHeaderMismatch, protocol.CodeUnsupported} {
		link := scripted(map[string]handler{protocol.MethodCallTool: func(context.Context, *dragoman.Message, dragoman.Peer) (string, error) {
			return "", &dragoman.Error{Code: code, Message: "what is this"}
		}})
		s := serve(t, link, nil)
		connect(t, s, protocol.V20250618).fails(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`, protocol.CodeInternal)
		connect(t, s, protocol.V20250618)
		want := 1
		if code == protocol.CodeUnsupported {
			want = 2 // the server is not what it was
		}
		if n := len(link.requests(protocol.MethodDiscover)); n != want {
			t.Errorf("%d: discover was asked %d times, want %d", code, n, want)
		}
	}
}

func TestLostLinkIsAnErrorOfTheCall(t *testing.T) {
	t.Parallel()
	link := scripted(map[string]handler{protocol.MethodCallTool: func(context.Context, *dragoman.Message, dragoman.Peer) (string, error) {
		return "", dragoman.Closed(errors.New("cut"))
	}})
	c := connect(t, serve(t, link, nil), protocol.V20250618)
	_, err := c.conn.Call(t.Context(), parse(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`), nil)
	if !errors.Is(err, dragoman.ErrClosed) {
		t.Errorf("got %v", err)
	}
	if n := len(link.requests(protocol.MethodCallTool)); n != 1 {
		t.Errorf("the tool was called %d times", n)
	}
}

func TestResultOfAnUnknownTypeIsAnError(t *testing.T) {
	t.Parallel()
	for method, kinds := range map[string][]string{
		"tools/call":     {`"later"`, `7`, `null`},
		"tools/list":     {`"input_required"`, `"task"`},
		"resources/read": {`"task"`},
		"vendor/x":       {`"input_required"`},
	} {
		for _, kind := range kinds {
			c := connect(t, serve(t, scripted(map[string]handler{method: inTurn(`{"resultType":` + kind + `}`)}), nil), protocol.V20251125)
			e := c.fails(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"name":"x","uri":"x:y"}}`, protocol.CodeInternal)
			wants(t, e.Message, "result of type")
		}
	}
	// However it is spelt, and also if a server leaves it out.
	for _, result := range []string{`{"resultType":"compl\u0065te","content":[]}`, `{"content":[]}`} {
		c := connect(t, serve(t, scripted(map[string]handler{"tools/call": inTurn(result)}), nil), protocol.V20251125)
		c.must(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`)
	}
}

func TestProgressCrossesWithTheClientsToken(t *testing.T) {
	t.Parallel()
	for _, rev := range legacy {
		c := connect(t, serve(t, modern(t).Requests(), nil), rev)
		c.tool("test_tool_with_progress", `{}`)
		got := c.heard()
		if len(got) != 3 {
			t.Fatalf("%v: %d notifications", rev, len(got))
		}
		for _, note := range got {
			if string(note.Get("progressToken")) != `"p"` || (note.Get("message") != nil) != rev.HasProgressMessage() {
				t.Errorf("%v: %s", rev, note)
			}
		}
	}
}

func TestCancelledCallEndsUpstream(t *testing.T) {
	t.Parallel()
	began, ended := make(chan struct{}), make(chan error, 1)
	link := scripted(map[string]handler{protocol.MethodCallTool: func(ctx context.Context, _ *dragoman.Message, _ dragoman.Peer) (string, error) {
		close(began)
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return "", context.Cause(ctx)
	}})
	c := connect(t, serve(t, link, nil), protocol.V20250618)
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-began
		cancel(dragoman.ErrCancelled)
	}()
	_, err := c.conn.Call(ctx, parse(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}`), c)
	if got := <-ended; !errors.Is(err, dragoman.ErrCancelled) || !errors.Is(got, dragoman.ErrCancelled) {
		t.Errorf("the client got %v, the server %v", err, got)
	}
}

func TestFiftySessionsWithEqualIDsAndTokensKeepApart(t *testing.T) {
	peertest.NoLeak(t)
	server := modern(t)
	link, err := dragoman.Local(server).Dial(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { link.Close() })
	s := serve(t, link, nil)
	var wg sync.WaitGroup
	for i := range 50 {
		c := connect(t, s, legacy[2+i%2])
		name := "client " + strconv.Itoa(i)
		c.answers[protocol.MethodElicit] = fmt.Sprintf(`{"action":"accept","content":{"name":%q,"color":%q,"ok":true}}`, name, name)
		wg.Go(func() {
			for range 5 {
				if got := says(t, c.tool("echo", fmt.Sprintf(`{"text":%q}`, name))); got != name {
					t.Errorf("%s got %s", name, got)
				}
				if got := says(t, c.tool("test_input_required_result_multi_round", `{}`)); got != name+" likes "+name+"." {
					t.Errorf("%s got %s", name, got)
				}
				c.heard()
				c.tool("slow", `{"ms":3,"steps":3}`)
				if got := c.heard(); len(got) != 3 || string(got[0].Get("progressToken")) != `"p"` {
					t.Errorf("%s heard %d times of progress", name, len(got))
				}
			}
		})
	}
	wg.Wait()
}

func TestPlainCallIsCheap(t *testing.T) {
	answer := parse(t, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[{"type":"text","text":"x"}]}}`)
	discovered := scripted(nil)
	link := dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
		if req.Method() == protocol.MethodCallTool {
			return answer, nil
		}
		return discovered.Call(ctx, req, from)
	}}
	s := serve(t, link, nil)
	peer, err := s.Accept(t.Context(), dial(t, s).conn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := peer.Call(t.Context(), parse(t, fmt.Sprintf(initialize, "2025-11-25")), nil); err != nil {
		t.Fatal(err)
	}
	req := parse(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}`)
	start := time.Now()
	const runs = 1000
	allocs := testing.AllocsPerRun(runs, func() {
		if resp, err := peer.Call(context.Background(), req, dragoman.NoPeer); err != nil || resp.IsError() {
			t.Error(err)
		}
	})
	t.Logf("%v a call, %v allocations", time.Since(start)/runs, allocs)
	if allocs > 35 {
		t.Errorf("a plain call makes %v allocations", allocs)
	}
}
