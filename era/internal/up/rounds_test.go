package up_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/up"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestRoundsBecomeQuestionsToTheClient(t *testing.T) {
	t.Parallel()
	const p = "test_input_required_result_"
	for _, rev := range legacy {
		c := connect(t, serve(t, modern(t).Requests(), nil), rev)
		for _, test := range []struct {
			tool, want string
			elicits    bool
		}{
			{p + "sampling", "The model says: Hi", false},
			{p + "list_roots", "The client's roots: file:///home", false},
			{p + "elicitation", "Hello, Ada!", true},
			{p + "request_state", "state-ok", true},
			{p + "multiple_inputs", "Hi Ada (roots: 1)", true},
			{p + "multi_round", "Ada likes red.", true},
		} {
			resp := c.tool(test.tool, `{}`)
			if test.elicits && !rev.HasElicitation() {
				if resp.RPCError() == nil || resp.RPCError().Code != protocol.CodeMissingCapability {
					t.Errorf("%v %s: %s", rev, test.tool, resp)
				}
				continue
			}
			wants(t, says(t, resp), test.want)
		}
		ids := make(map[dragoman.ID]bool)
		for _, q := range c.questions() {
			if ids[q.ID()] {
				t.Errorf("%v: two questions with id %v", rev, q.ID())
			}
			ids[q.ID()] = true
		}
		if resp := c.call(`{"jsonrpc":"2.0","id":9,"method":"prompts/list"}`); resp.IsError() {
			t.Errorf("%v: %s", rev, resp)
		}
	}
}

const needsName = `{"resultType":"input_required","requestState":"s\u0031<&>","inputRequests":{"k<":{"method":"elicitation/create","params":{"message":"Name?","requestedSchema":{"type":"object","properties":{"n":{"type":"number"}}}}}}}`

func TestRetryCarriesStateAndAnswersAsTheyWere(t *testing.T) {
	t.Parallel()
	link := scripted(map[string]handler{protocol.MethodCallTool: inTurn(needsName,
		`{"resultType":"input_required","inputRequests":{"b":{"method":"roots/list"}}}`,
		`{"resultType":"complete","content":[]}`)})
	c := connect(t, serve(t, link, nil), protocol.V20251125)
	c.answers[protocol.MethodElicit] = `{"action":"accept","content":{"n":12345678901234567890.10,"t":"<b>"}}`
	c.must(`{"jsonrpc":"2.0","id":"mine","method":"tools/call","params":{"name":"x","arguments":{"a":1.0},"_meta":{"progressToken":3}}}`)
	sent := link.requests(protocol.MethodCallTool)
	if len(sent) != 3 {
		t.Fatalf("sent %d times", len(sent))
	}
	for i, want := range []struct{ answers, state string }{
		{``, ``},
		{`{"k<":{"action":"accept","content":{"n":12345678901234567890.10,"t":"<b>"}}}`, `"s\u0031<&>"`},
		{`{"b":{"roots":[{"uri":"file:///home"}]}}`, ``},
	} {
		m := sent[i]
		answers := strings.ReplaceAll(string(m.Get("inputResponses")), `\u003c`, "<")
		if answers != want.answers || string(m.Get("requestState")) != want.state {
			t.Errorf("round %d: %s", i, m)
		}
		if string(m.Get("arguments")) != `{"a":1.0}` || string(m.Meta("progressToken")) != "3" || m.Name() != "x" {
			t.Errorf("round %d is another request: %s", i, m)
		}
		for j := range i {
			if sent[j].ID() == m.ID() {
				t.Errorf("rounds %d and %d have the same id", i, j)
			}
		}
	}
}

func TestQuestionsOfARoundAreAskedAtOnce(t *testing.T) {
	t.Parallel()
	link := scripted(map[string]handler{protocol.MethodGetPrompt: inTurn(
		`{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"},"b":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}},"c":{"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}}}`,
		`{"resultType":"complete","messages":[]}`)})
	c := connect(t, serve(t, link, nil), protocol.V20250618)
	var all sync.WaitGroup
	all.Add(3)
	c.ask = func(_ context.Context, req *dragoman.Message) (*dragoman.Message, error) {
		all.Done()
		all.Wait() // none has an answer before all are asked
		return req.Reply(json.RawMessage(c.answers[req.Method()]))
	}
	c.must(`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"x"}}`)
}

func TestRefusalsOfTheClient(t *testing.T) {
	t.Parallel()
	const ask = `{"resultType":"input_required","inputRequests":{"k":%s}}`
	questions := map[string]string{
		protocol.MethodElicit:        `{"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}`,
		protocol.MethodCreateMessage: `{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`,
		protocol.MethodListRoots:     `{"method":"roots/list","params":{}}`,
	}
	for asked, q := range questions {
		for _, method := range []string{protocol.MethodCallTool, protocol.MethodReadResource, protocol.MethodGetPrompt} {
			link := scripted(map[string]handler{method: inTurn(fmt.Sprintf(ask, q), `{"resultType":"complete"}`)})
			c := connect(t, serve(t, link, nil), protocol.V20251125)
			c.answers[asked] = "!"
			resp := c.call(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"name":"x","uri":"x:y"}}`)
			switch {
			case asked == protocol.MethodElicit:
				if got := string(link.requests(method)[1].Get("inputResponses")); got != `{"k":{"action":"cancel"}}` {
					t.Errorf("%s: the server got %s", method, got)
				}
			case method == protocol.MethodCallTool:
				if string(resp.Get("isError")) != "true" {
					t.Errorf("%s: %s", asked, resp)
				}
				wants(t, says(t, resp), "the user says no")
			default:
				if e := resp.RPCError(); e == nil || e.Code != protocol.CodeInternal {
					t.Errorf("%s during %s: %s", asked, method, resp)
				}
			}
			if n := len(link.requests(method)); asked != protocol.MethodElicit && n != 1 {
				t.Errorf("%s: sent %d times after a refusal", asked, n)
			}
		}
	}
}

func TestRefusalEndsTheOtherQuestions(t *testing.T) {
	t.Parallel()
	link := scripted(map[string]handler{protocol.MethodCallTool: inTurn(
		`{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"},"b":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}}}`)})
	c := connect(t, serve(t, link, nil), protocol.V20250618)
	asked := make(chan struct{})
	c.ask = func(ctx context.Context, req *dragoman.Message) (*dragoman.Message, error) {
		if req.Method() == protocol.MethodListRoots {
			close(asked)
			<-ctx.Done() // forever, if it is not ended
			return nil, context.Cause(ctx)
		}
		<-asked
		return req.Fail(&dragoman.Error{Code: -1, Message: "no"}), nil
	}
	wants(t, says(t, c.tool("x", `{}`)), "refused sampling/createMessage")
}

func TestWhoCannotBeAskedIsNotAsked(t *testing.T) {
	t.Parallel()
	const form = `{"message":"m","requestedSchema":{"type":"object","properties":{}}}`
	for _, test := range []struct{ rev, caps, question, want string }{
		{"2025-06-18", `{}`, `{"method":"roots/list"}`, "has not declared"},
		{"2025-06-18", `{}`, `{"method":"elicitation/create","params":` + form + `}`, "has not declared"},
		{"2025-11-25", `{"sampling":{}}`, `{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1,"tools":[]}}`, "has not declared"},
		{"2025-11-25", `{"elicitation":{"url":{}}}`, `{"method":"elicitation/create","params":` + form + `}`, "has not declared"},
		{"2025-11-25", `{"elicitation":{}}`, `{"method":"elicitation/create","params":{"mode":"url","message":"m","url":"https://x"}}`, "has not declared"},
		{"2025-06-18", `{"elicitation":{}}`, `{"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"array","items":{"type":"string","enum":["x"]}}}}}}`, "cannot be asked"},
	} {
		link := scripted(map[string]handler{protocol.MethodCallTool: inTurn(`{"resultType":"input_required","inputRequests":{"k":` + test.question + `}}`)})
		c := dial(t, serve(t, link, nil))
		c.must(fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"c","version":"1"}}}`, test.rev, test.caps))
		resp := c.tool("x", `{}`)
		if string(resp.Get("isError")) != "true" || len(c.questions()) != 0 {
			t.Errorf("%s: %s", test.question, resp)
			continue
		}
		wants(t, says(t, resp), test.want)
	}
	link := scripted(map[string]handler{protocol.MethodCallTool: inTurn(needsName)})
	c := connect(t, serve(t, link, nil), protocol.V20251125)
	resp, err := c.conn.Call(t.Context(), parse(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	wants(t, says(t, resp), "no way to be asked")
}

func TestClientThatGoesWhileItIsAskedGetsAnAnswerThatSaysSo(t *testing.T) {
	t.Parallel()
	link := scripted(map[string]handler{protocol.MethodCallTool: inTurn(needsName)})
	c := connect(t, serve(t, link, nil), protocol.V20251125)
	c.ask = func(context.Context, *dragoman.Message) (*dragoman.Message, error) {
		return nil, errors.New("no stream for questions")
	}
	wants(t, says(t, c.tool("x", `{}`)), "no stream for questions")
	c.ask = func(_ context.Context, req *dragoman.Message) (*dragoman.Message, error) {
		return req.Reply(json.RawMessage(`[]`))
	}
	wants(t, says(t, c.tool("x", `{}`)), "no object")
}

func TestBadQuestionsAreTheServersFault(t *testing.T) {
	t.Parallel()
	many := make([]string, up.MaxServerRequests+1)
	for i := range many {
		many[i] = fmt.Sprintf(`"k%d":{"method":"roots/list"}`, i)
	}
	for result, want := range map[string]string{
		`{}`:                   "neither asks",
		`{"inputRequests":{}}`: "neither asks",
		`{"requestState":7}`:   "not a string",
		`{"inputRequests":[]}`: "cannot be read",
		`{"inputRequests":{"k":{"method":"tools/list"}}}`:             "not a question",
		`{"inputRequests":{"k":{"method":"roots/list","params":[]}}}`: "cannot be read",
		`{"inputRequests":{` + strings.Join(many, ",") + `}}`:         "65 input requests together",
	} {
		result = `{"resultType":"input_required"` + strings.Replace(result, "{", ",", 1)
		result = strings.Replace(result, ",}", "}", 1)
		c := connect(t, serve(t, scripted(map[string]handler{protocol.MethodCallTool: inTurn(result)}), nil), protocol.V20251125)
		e := c.fails(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`, protocol.CodeInternal)
		wants(t, e.Message, want)
	}
	// As many as are allowed are asked.
	ok := scripted(map[string]handler{protocol.MethodCallTool: inTurn(`{"resultType":"input_required","inputRequests":{`+strings.Join(many[1:], ",")+`}}`, `{"content":[]}`)})
	c := connect(t, serve(t, ok, nil), protocol.V20251125)
	c.must(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`)
	if n := len(c.questions()); n != up.MaxServerRequests {
		t.Errorf("%d questions were asked", n)
	}
}

func TestRequestWithoutQuestionsIsRepeatedMoreAndMoreSlowly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		link := scripted(map[string]handler{protocol.MethodReadResource: func(context.Context, *dragoman.Message, dragoman.Peer) (string, error) {
			at = append(at, time.Now())
			if len(at) == 9 {
				return `{"resultType":"complete","contents":[]}`, nil
			}
			return fmt.Sprintf(`{"resultType":"input_required","requestState":"s%d"}`, len(at)), nil
		}})
		connect(t, serve(t, link, nil), protocol.V20241105).must(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"x:y"}}`)
		for i, want := range []time.Duration{250, 500, 1000, 2000, 4000, 8000, 10000, 10000} {
			want *= time.Millisecond
			if got := at[i+1].Sub(at[i]); got > want || got < want*4/5 {
				t.Errorf("pause %d is %v, want %v or up to a fifth less", i, got, want)
			}
		}
		for i, req := range link.requests(protocol.MethodReadResource) {
			if want := fmt.Sprintf(`"s%d"`, i); i > 0 && string(req.Get("requestState")) != want || req.Get("inputResponses") != nil {
				t.Errorf("try %d: %s", i, req)
			}
		}
	})
}

func TestRoundsAreBounded(t *testing.T) {
	t.Parallel()
	for max, want := range map[int]int{0: up.DefaultMaxRounds, 3: 3} {
		link := scripted(map[string]handler{protocol.MethodCallTool: inTurn(needsName)})
		c := connect(t, serve(t, link, &up.Options{MaxRounds: max}), protocol.V20251125)
		wants(t, says(t, c.tool("x", `{}`)), fmt.Sprintf("after %d rounds", want))
		if n := len(c.questions()); n != want {
			t.Errorf("%d rounds were asked, want %d", n, want)
		}
	}
	link := scripted(map[string]handler{protocol.MethodGetPrompt: inTurn(needsName)})
	connect(t, serve(t, link, nil), protocol.V20251125).fails(`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"x"}}`, protocol.CodeInternal)
}

func TestRoundsTogetherHaveATimeLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		link := scripted(map[string]handler{protocol.MethodCallTool: func(ctx context.Context, _ *dragoman.Message, _ dragoman.Peer) (string, error) {
			time.Sleep(time.Minute)
			return needsName, nil
		}})
		c := connect(t, serve(t, link, &up.Options{RoundsTimeout: 5 * time.Minute}), protocol.V20251125)
		c.ask = func(ctx context.Context, req *dragoman.Message) (*dragoman.Message, error) {
			select {
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-time.After(90 * time.Second):
				return req.Reply(json.RawMessage(`{"action":"decline"}`))
			}
		}
		start := time.Now()
		// The first minute is no round; two take 2:30 each, the third has none left.
		wants(t, says(t, c.tool("x", `{}`)), "not answered within 5m")
		if took := time.Since(start); took != 6*time.Minute {
			t.Errorf("it took %v", took)
		}
		c.ask = func(ctx context.Context, _ *dragoman.Message) (*dragoman.Message, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		start = time.Now()
		wants(t, says(t, c.tool("x", `{}`)), "not answered within 5m")
		if took := time.Since(start); took != 6*time.Minute {
			t.Errorf("a question without an answer took %v", took)
		}
	})
}

func TestCancelledCallEndsItsRound(t *testing.T) {
	t.Parallel()
	for name, result := range map[string]string{"question": needsName, "pause": `{"resultType":"input_required","requestState":"s"}`} {
		synctest.Test(t, func(t *testing.T) {
			link := scripted(map[string]handler{protocol.MethodCallTool: inTurn(result)})
			c := connect(t, serve(t, link, nil), protocol.V20251125)
			ended := make(chan error, 1)
			c.ask = func(ctx context.Context, _ *dragoman.Message) (*dragoman.Message, error) {
				<-ctx.Done()
				ended <- context.Cause(ctx)
				return nil, context.Cause(ctx)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(100*time.Millisecond, func() { cancel(dragoman.ErrCancelled) })
			_, err := c.conn.Call(ctx, parse(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`), c)
			if !errors.Is(err, dragoman.ErrCancelled) {
				t.Errorf("%s: got %v", name, err)
			}
			if name == "question" {
				if got := <-ended; !errors.Is(got, dragoman.ErrCancelled) {
					t.Errorf("the question ended with %v", got)
				}
			}
			if n := len(link.requests(protocol.MethodCallTool)); n != 1 {
				t.Errorf("%s: sent %d times", name, n)
			}
		})
	}
}

func TestCloseEndsARound(t *testing.T) {
	t.Parallel()
	link := scripted(map[string]handler{protocol.MethodCallTool: inTurn(needsName)})
	s := serve(t, link, nil)
	c := connect(t, s, protocol.V20251125)
	c.ask = func(ctx context.Context, _ *dragoman.Message) (*dragoman.Message, error) {
		go s.Close()
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	_, err := c.conn.Call(t.Context(), parse(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`), c)
	if !errors.Is(err, dragoman.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestVisitOfAURLIsAnnouncedAndCompleted(t *testing.T) {
	t.Parallel()
	c := connect(t, serve(t, modern(t).Requests(), nil), protocol.V20251125)
	c.answers[protocol.MethodElicit] = `{"action":"accept"}`
	wants(t, says(t, c.tool("test_elicitation_url", `{}`)), "action=accept")
	id := c.questions()[0].Get("elicitationId")
	if len(id) < 10 {
		t.Fatalf("no id in %s", c.questions()[0])
	}
	told := c.heard()
	if len(told) != 1 || told[0].Method() != protocol.NoteElicitationComplete || string(told[0].Get("elicitationId")) != string(id) {
		t.Errorf("told %v, want that %s is complete", told, id)
	}
	for _, answer := range []string{`{"action":"decline"}`, "!"} {
		c.answers[protocol.MethodElicit] = answer
		c.tool("test_elicitation_url", `{}`)
		if told := c.heard(); len(told) != 0 {
			t.Errorf("%s: told %v", answer, told)
		}
	}
	old := connect(t, serve(t, modern(t).Requests(), nil), protocol.V20250618)
	if e := old.tool("test_elicitation_url", `{}`).RPCError(); e == nil || e.Code != protocol.CodeMissingCapability {
		t.Errorf("a client without URLs: %v", e)
	}
}

func TestProgressOnlyGrowsOverTheRounds(t *testing.T) {
	t.Parallel()
	c := connect(t, serve(t, modern(t).Requests(), nil), protocol.V20251125)
	wants(t, says(t, c.tool("test_streaming_elicitation", `{}`)), "completed")
	var got []string
	for _, note := range c.heard() {
		got = append(got, string(note.Get("progress")))
	}
	if fmt.Sprint(got) != "[1 2 3]" {
		t.Errorf("progress is %v", got)
	}
}
