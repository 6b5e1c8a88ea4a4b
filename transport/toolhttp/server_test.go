package toolhttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/toolhttp"
)

func TestA01_A04_A14_A15_CallIsOnePostAndItsAnswer(t *testing.T) {
	s := open(t, nil)
	for _, id := range []string{`1`, `"1"`, `0`, `-7`, `""`, `12345678901234567890`, `"\u00e9 \/"`, `"日本語"`} {
		a := s.do("POST", "", request(id, "echo", `{"text":"hello"}`))
		m := a.wantResult(id)
		if textOf(t, m) != "hello" {
			t.Errorf("the answer is %s", a.body)
		}
		if got := a.header.Get("Content-Length"); got == "" || a.header.Get("Content-Type") != plainJSON {
			t.Errorf("the headers are %v", a.header)
		}
	}
	for _, accept := range []string{"", "*/*", plainJSON, "application/*", "text/html, */*;q=0.1", plainJSON + ", text/event-stream;q=0"} {
		s.do("POST", "", request(`1`, "echo", `{"text":"hello"}`), "Accept", accept).wantResult(`1`)
	}
	s.do("POST", "/", request(`1`, "echo", `{"text":"hello"}`)).wantResult(`1`)
	s.do("POST", "", request(`1`, "echo", `{"text":"hello"}`), "Content-Type", "application/json; charset=utf-8").wantResult(`1`)
}

func TestA01_A03_WhatIsNoToolRequestIsRefused(t *testing.T) {
	s := open(t, nil)
	for _, test := range []struct {
		name, body string
		id         string
		code       int
		path       string // in data
	}{
		{"not JSON", `{"jsonrpc":"2.0"`, `null`, protocol.CodeParse, ""},
		{"nothing", ` `, `null`, protocol.CodeParse, ""},
		{"no version", `{"id":7,"method":"tools/call","params":{"name":"echo"}}`, `7`, protocol.CodeInvalidRequest, ""},
		{"old version", `{"jsonrpc":"1.0","id":7,"method":"tools/call","params":{"name":"echo"}}`, `7`, protocol.CodeInvalidRequest, ""},
		{"batch", `[` + request(`1`, "echo", `{}`) + `]`, `null`, protocol.CodeInvalidRequest, ""},
		{"notification", `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo"}}`, `null`, protocol.CodeInvalidRequest, "message"},
		{"response", `{"jsonrpc":"2.0","id":7,"result":{}}`, `null`, protocol.CodeInvalidRequest, "message"},
		{"other method", `{"jsonrpc":"2.0","id":"x","method":"initialize","params":{}}`, `"x"`, protocol.CodeMethodNotFound, "method"},
		{"no params", `{"jsonrpc":"2.0","id":7,"method":"tools/call"}`, `7`, protocol.CodeInvalidParams, "params"},
		{"no name", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{}}`, `7`, protocol.CodeInvalidParams, "params.name"},
		{"empty name", request(`7`, "", `{}`), `7`, protocol.CodeInvalidParams, "params.name"},
		{"arguments are a list", request(`7`, "echo", `[]`), `7`, protocol.CodeInvalidParams, "params.arguments"},
		{"bad envelope", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","_meta":{"` + protocol.MetaProtocolVersion + `":1}}}`, `7`, protocol.CodeInvalidParams, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := s.do("POST", "", test.body)
			e := a.wantError(http.StatusBadRequest, test.id, test.code)
			var data struct{ Path, Reason string }
			if test.path != "" && (json.Unmarshal(e.Data, &data) != nil || data.Path != test.path || data.Reason == "") {
				t.Errorf("data is %s, want the path %q", e.Data, test.path)
			}
			// Before there is a stream, a status says what is wrong.
			s.do("POST", "", test.body, "Accept", "text/event-stream").wantError(http.StatusBadRequest, test.id, test.code)
		})
	}
}

func TestA15_A18_StatusOfWhatIsRefusedByHTTP(t *testing.T) {
	s := open(t, &toolhttp.Server{MaxMessage: 1000})
	ok := request(`1`, "echo", `{"text":"x"}`)
	for _, test := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		allow                    string
	}{
		{"A18 PUT", "PUT", "", ok, nil, 405, "GET, POST"},
		{"A18 DELETE", "DELETE", "/", "", nil, 405, "GET, POST"},
		{"A18 OPTIONS without a preflight", "OPTIONS", "", "", nil, 405, "GET, POST"},
		{"A18 GET of a tool", "GET", "/echo", "", nil, 405, "POST"},
		{"A18 PATCH of a tool", "PATCH", "/echo", "", nil, 405, "POST"},
		{"no type", "POST", "", ok, []string{"Content-Type", ""}, 415, ""},
		{"other type", "POST", "", ok, []string{"Content-Type", "text/plain"}, 415, ""},
		{"other type for a tool", "POST", "/echo", `{}`, []string{"Content-Type", "text/plain"}, 415, ""},
		{"other type and nothing", "POST", "/echo", ``, []string{"Content-Type", "text/plain"}, 415, ""},
		{"compressed", "POST", "", ok, []string{"Content-Encoding", "gzip"}, 415, ""},
		{"too large", "POST", "", request(`1`, "echo", `{"text":"`+strings.Repeat("x", 1000)+`"}`), nil, 413, ""},
		{"too large for a tool", "POST", "/echo", `{"text":"` + strings.Repeat("x", 1000) + `"}`, nil, 413, ""},
		{"Accept", "POST", "", ok, []string{"Accept", "text/html"}, 406, ""},
		{"Accept of a tool", "POST", "/echo", `{}`, []string{"Accept", "text/html"}, 406, ""},
		{"Accept of the list", "GET", "", "", []string{"Accept", "text/event-stream"}, 406, ""},
		{"foreign Host", "POST", "", ok, []string{"Host", "evil.example"}, 403, ""},
		{"foreign Origin", "POST", "", ok, []string{"Origin", "https://evil.example"}, 403, ""},
		{"more than one segment", "POST", "/echo/x", `{}`, nil, 404, ""},
		{"slash behind a tool", "POST", "/echo/", `{}`, nil, 404, ""},
		{"a name that is no text", "POST", "/%ff", `{}`, nil, 404, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := s.do(test.method, test.path, test.body, test.header...)
			a.wantError(test.status, `null`, protocol.CodeInvalidRequest)
			if got := a.header.Get("Allow"); got != test.allow {
				t.Errorf("Allow is %q, want %q", got, test.allow)
			}
		})
	}
	s.do("POST", "", ok, "Host", "localhost", "Origin", "http://localhost:3000").wantResult(`1`)
	a := s.do("OPTIONS", "/echo", "", "Origin", "http://localhost:3000", "Access-Control-Request-Method", "POST")
	if a.status != http.StatusNoContent || a.header.Get("Access-Control-Allow-Origin") != "http://localhost:3000" {
		t.Errorf("the preflight got %d with %v", a.status, a.header)
	}
}

func TestA15_StatusFollowsTheErrorOfTheServer(t *testing.T) {
	for code, status := range map[int]int{
		protocol.CodeParse: 400, protocol.CodeInvalidRequest: 400, protocol.CodeInvalidParams: 400, protocol.CodeUnsupported: 400,
		protocol.CodeMethodNotFound: 404, protocol.CodeMissingCapability: 422, protocol.CodeInternal: 500, protocol.CodeServer: 500, 42: 500,
		protocol.CodeUnavailable: 502, protocol.CodeTimeout: 504, protocol.CodeLost: 502, protocol.CodeOverloaded: 503,
		protocol.CodeDraining: 503, protocol.CodeTooLarge: 502,
	} {
		s := open(t, &toolhttp.Server{Requests: fails(&dragoman.Error{Code: code, Message: "no luck", Data: json.RawMessage(`{"n":1.0}`)})})
		for path, id := range map[string]string{"": `"x"`, "/t": `null`} {
			body := `{}`
			if path == "" {
				body = request(`"x"`, "t", `{}`)
			}
			a := s.do("POST", path, body)
			e := a.wantError(status, id, code)
			if e.Message != "no luck" || string(e.Data) != `{"n":1.0}` {
				t.Errorf("the error is %s", a.body)
			}
			if retry := a.header.Get("Retry-After"); (retry != "") != (status == 503) {
				t.Errorf("code %d: Retry-After is %q", code, retry)
			}
		}
	}
}

func TestA02_A03_AnswersAreChecked(t *testing.T) {
	const empty = `[{"type":"text","text":""}]`
	for _, test := range []struct {
		name   string
		peer   scriptedPeer
		status int
		want   string // content if the status is 200, else a part of the message
	}{
		{"content", replies(`{"content":[{"type":"text","text":"a"}]}`), 200, `[{"type":"text","text":"a"}]`},
		{"content of a new type", replies(`{"content":[{"type":"smell"}]}`), 200, `[{"type":"smell"}]`},
		{"isError", replies(`{"content":[{"type":"text","text":"a"}],"isError":true}`), 200, `[{"type":"text","text":"a"}]`},
		{"empty content", replies(`{"content":[]}`), 200, empty},
		{"empty content with space", replies("{\"content\":[ \n]}"), 200, empty},
		{"null", replies(`{"content":null}`), 200, empty},
		{"no content", replies(`{"structuredContent":{"a":1}}`), 200, empty},
		{"content is an object", replies(`{"content":{}}`), 502, "result.content is an object"},
		{"content without a type", replies(`{"content":[{}]}`), 502, "result.content[0].type is missing"},
		{"text without text", replies(`{"content":[{"type":"text"}]}`), 502, "result.content[0].text is missing"},
		{"isError is a string", replies(`{"content":[],"isError":"no"}`), 502, "result.isError is a string"},
		{"result is a list", replies(`[]`), 502, "result is an array"},
		{"input is needed", replies(`{"resultType":"input_required","inputRequests":{}}`), 422, "not possible over plain HTTP"},
		{"a task", replies(`{"resultType":"task","taskId":"1"}`), 422, "cannot be followed"},
		{"an error without a message", scriptedPeer{call: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			return dragoman.Parse([]byte(`{"jsonrpc":"2.0","id":` + req.ID().String() + `,"error":{"code":1.5,"message":" "}}`))
		}}, 500, "says nothing"},
		{"a Go error", scriptedPeer{call: func(context.Context, *dragoman.Message, dragoman.Peer) (*dragoman.Message, error) {
			return nil, dragoman.Closed(errors.New("exit status 1"))
		}}, 502, "exit status 1"},
		{"nothing", scriptedPeer{call: func(context.Context, *dragoman.Message, dragoman.Peer) (*dragoman.Message, error) {
			return nil, nil
		}}, 500, "no answer"},
		{"a panic", scriptedPeer{call: func(context.Context, *dragoman.Message, dragoman.Peer) (*dragoman.Message, error) {
			panic("part of the test")
		}}, 500, "failed on this request"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := open(t, &toolhttp.Server{Requests: test.peer})
			a := s.do("POST", "", request(`"x"`, "t", `{}`))
			events := s.events("", request(`"x"`, "t", `{}`))
			last := peertest.Parse(t, events[len(events)-1].Data)
			if test.status == 200 {
				m := a.wantResult(`"x"`)
				if got := string(m.Get("content")); got != test.want {
					t.Errorf("content is %s, want %s", got, test.want)
				}
				if names(events) != "complete" || last.String() != m.String() {
					t.Errorf("the stream has %s with %s", names(events), last)
				}
				return
			}
			m := peertest.Parse(t, []byte(a.body))
			a.wantError(test.status, `"x"`, m.RPCError().Code)
			if got := m.RPCError().Message; !strings.Contains(got, test.want) {
				t.Errorf("the message is %q, want %q in it", got, test.want)
			}
			if names(events) != "error" || protocol.CheckToolError(last) != nil || last.String() != m.String() {
				t.Errorf("the stream has %s with %s, want %s", names(events), last, m)
			}
		})
	}
}

func TestServerSeesARequestOfTheNewestRevision(t *testing.T) {
	came := make(chan *dragoman.Message, 1)
	s := open(t, &toolhttp.Server{Requests: scriptedPeer{call: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		came <- req
		return req.Reply(json.RawMessage(`{"content":[]}`))
	}}})
	const envelope = `"` + protocol.MetaProtocolVersion + `":"2026-07-28","` + protocol.MetaClientCapabilities + `":{}`
	const own = `"` + protocol.MetaProtocolVersion + `":"2027-01-01","` + protocol.MetaClientCapabilities + `":{"sampling":{}}`
	for _, test := range []struct{ params, want string }{
		{`{"name":"t"}`, `{"_meta":{` + envelope + `},"name":"t"}`},
		{`{"name":"t","arguments":null}`, `{"_meta":{` + envelope + `},"name":"t"}`},
		{`{"name":"t","arguments":{"a":1.0},"_meta":{"x":1,"progressToken":7}}`, `{"name":"t","arguments":{"a":1.0},"_meta":{` + envelope + `,"x":1,"progressToken":7}}`},
		{`{"name":"t","_meta":{` + own + `,"x":1}}`, `{"name":"t","_meta":{` + own + `,"x":1}}`},
	} {
		s.do("POST", "", `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":`+test.params+`}`).wantResult(`"x"`)
		if got := peertest.Receive(t, came, "the call"); string(got.Params()) != test.want {
			t.Errorf("params are %s, want %s", got.Params(), test.want)
		}
	}
	// Who wants a stream wants to hear of progress.
	s.events("", request(`1`, "t", `{}`))
	if m := peertest.Receive(t, came, "the call"); m.Meta(protocol.MetaProgressToken) == nil {
		t.Errorf("the request has no progress token: %s", m)
	}
	s.events("", `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"t","_meta":{"progressToken":"mine"}}}`)
	if m := peertest.Receive(t, came, "the call"); string(m.Meta(protocol.MetaProgressToken)) != `"mine"` {
		t.Errorf("the caller's progress token is gone: %s", m)
	}
}

func TestToolHasAPathOfItsOwn(t *testing.T) {
	s := open(t, &toolhttp.Server{Check: checkText})
	a := s.do("POST", "/echo", `{"text":"hello"}`)
	if want := `"content":[{"text":"hello","type":"text"}]`; a.status != 200 || !strings.Contains(a.body, want) || strings.Contains(a.body, "jsonrpc") {
		t.Errorf("status %d with %s", a.status, a.body)
	}
	if a := s.do("POST", "/session", ""); a.status != 200 {
		t.Errorf("no body: status %d with %s", a.status, a.body)
	}
	if a := s.do("POST", "/session", " \n"); a.status != 200 {
		t.Errorf("an empty body: status %d with %s", a.status, a.body)
	}
	if a := s.do("POST", "/test_error_handling", "{}"); a.status != 200 || !strings.Contains(a.body, `"isError":true`) {
		t.Errorf("isError: status %d with %s", a.status, a.body)
	}
	s.do("POST", "/nothing", `{}`).wantError(404, `null`, protocol.CodeInvalidParams)
	s.do("POST", "/echo", `{"text":`).wantError(400, `null`, protocol.CodeParse)
	s.do("POST", "/echo", "{\"text\":\"\xff\"}").wantError(400, `null`, protocol.CodeParse)
	s.do("POST", "/echo", `{},"name":"wait"`).wantError(400, `null`, protocol.CodeParse)
	s.do("POST", "/echo", strings.Repeat(`{"a":`, 200)+"1"+strings.Repeat("}", 200)).wantError(400, `null`, protocol.CodeInvalidRequest)
	if e := s.do("POST", "/echo", `[]`).wantError(400, `null`, protocol.CodeInvalidParams); string(e.Data) != `{"path":"arguments","reason":"is not an object"}` {
		t.Errorf("data is %s", e.Data)
	}
	events := s.events("/echo", `{"text":"hello"}`)
	if names(events) != "complete" || textOf(t, peertest.Parse(t, events[0].Data)) != "hello" {
		t.Errorf("the stream has %s", names(events))
	}
	if _, ok := peertest.Parse(t, events[0].Data).ID().Int(); !ok {
		t.Errorf("the id is no number: %s", events[0].Data)
	}
}

func TestToolsOfAnyNameCanBeCalled(t *testing.T) {
	const odd = `a/b c%2F?é#"`
	quoted, _ := json.Marshal(odd)
	came := make(chan string, 1)
	s := open(t, &toolhttp.Server{Requests: scriptedPeer{
		list: func(req *dragoman.Message) (*dragoman.Message, error) {
			return req.Reply(json.RawMessage(`{"tools":[{"name":` + string(quoted) + `}]}`))
		},
		call: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			came <- req.Name()
			return req.Reply(nil)
		},
	}})
	if a := s.do("POST", "/a%2Fb%20c%252F%3F%C3%A9%23%22", `{}`); a.status != 200 {
		t.Fatalf("status %d with %s", a.status, a.body)
	}
	if got := peertest.Receive(t, came, "the call"); got != odd {
		t.Errorf("the tool is %q, want %q", got, odd)
	}
}

// checkText is a check of its own making.
func checkText(_, arguments json.RawMessage) error {
	var args struct{ Text *string }
	if json.Unmarshal(arguments, &args) != nil {
		return badArgument{}
	}
	return nil
}

type badArgument struct{}

func (badArgument) Error() string  { return "arguments.text is a number, not a string" }
func (badArgument) Path() string   { return "arguments.text" }
func (badArgument) Reason() string { return "is a number, not a string" }

func TestA03_ArgumentsAreCheckedAgainstTheSchema(t *testing.T) {
	var schemas []string
	s := open(t, &toolhttp.Server{Check: func(schema, arguments json.RawMessage) error {
		schemas = append(schemas, string(schema))
		return checkText(schema, arguments)
	}})
	for path, id := range map[string]string{"": `7`, "/echo": `null`} {
		body := `{"text":1}`
		if path == "" {
			body = request(`7`, "echo", body)
		}
		e := s.do("POST", path, body).wantError(400, id, protocol.CodeInvalidParams)
		if e.Message != "Invalid params: arguments.text is a number, not a string" || string(e.Data) != `{"path":"arguments.text","reason":"is a number, not a string"}` {
			t.Errorf("the error is %q with %s", e.Message, e.Data)
		}
	}
	s.do("POST", "", request(`7`, "echo", `{"text":"fits"}`)).wantResult(`7`)
	if len(schemas) != 3 || !strings.Contains(schemas[0], `"text"`) {
		t.Errorf("checked against %q", schemas)
	}
	s.do("POST", "", request(`7`, "nothing", `{}`)).wantError(404, `7`, protocol.CodeInvalidParams)
}

func TestA16_CallThatTakesTooLongGets504(t *testing.T) {
	ended := make(chan error, 1)
	s := open(t, &toolhttp.Server{CallTimeout: 20 * time.Millisecond, Requests: waitingPeer(nil, ended)})
	e := s.do("POST", "", request(`1`, "t", `{}`)).wantError(504, `1`, protocol.CodeTimeout)
	if !strings.Contains(e.Message, "in time") {
		t.Errorf("the message is %q", e.Message)
	}
	if err := peertest.Receive(t, ended, "the call ends"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the call ended with %v", err)
	}
	events := s.events("", request(`1`, "t", `{}`))
	if names(events) != "error" || peertest.Parse(t, events[0].Data).RPCError().Code != protocol.CodeTimeout {
		t.Errorf("the stream has %v", events)
	}
}

// waitingPeer is a peer whose tool waits until it is cancelled.
func waitingPeer(started chan<- struct{}, ended chan<- error) scriptedPeer {
	return scriptedPeer{call: func(ctx context.Context, _ *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		if started != nil {
			started <- struct{}{}
		}
		<-ctx.Done()
		select {
		case ended <- context.Cause(ctx):
		default:
		}
		return nil, context.Cause(ctx)
	}}
}

func TestCallerThatLeavesCancelsItsCall(t *testing.T) {
	for _, accept := range []string{plainJSON, "text/event-stream"} {
		started, ended := make(chan struct{}, 1), make(chan error, 1)
		s := open(t, &toolhttp.Server{Requests: waitingPeer(started, ended)})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { // ends with ctx
			defer close(done)
			req, _ := http.NewRequestWithContext(ctx, "POST", s.url, strings.NewReader(request(`1`, "t", `{}`)))
			req.Header.Set("Content-Type", plainJSON)
			req.Header.Set("Accept", accept)
			if resp, err := http.DefaultClient.Do(req); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		}()
		peertest.Receive(t, started, "the call begins")
		cancel()
		if err := peertest.Receive(t, ended, "the call ends"); !errors.Is(err, dragoman.ErrCancelled) {
			t.Errorf("%s: the call ended with %v, want ErrCancelled", accept, err)
		}
		<-done
	}
}

func TestShutdownWaitsForCallsAndRefusesNewOnes(t *testing.T) {
	started, let := make(chan struct{}, 1), make(chan struct{})
	s := open(t, &toolhttp.Server{Requests: scriptedPeer{call: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		started <- struct{}{}
		<-let
		return req.Reply(nil)
	}}})
	answered := make(chan answer, 1)
	go func() { answered <- s.do("POST", "", request(`1`, "t", `{}`)) }() // ends with the call
	peertest.Receive(t, started, "the call begins")
	stopped := make(chan error, 1)
	go func() { stopped <- s.server.Shutdown(t.Context()) }() // ends with the call
	for {
		a := s.do("GET", "", "")
		if a.status == 503 {
			a.wantError(503, `null`, protocol.CodeDraining)
			if a.header.Get("Retry-After") == "" {
				t.Error("Retry-After is missing")
			}
			break
		}
	}
	select {
	case err := <-stopped:
		t.Fatalf("Shutdown returned %v before the call", err)
	default:
	}
	close(let)
	peertest.Receive(t, answered, "the answer").wantResult(`1`)
	if err := peertest.Receive(t, stopped, "Shutdown returns"); err != nil {
		t.Error(err)
	}
}

func TestShutdownCancelsCallsWhenItsTimeIsUp(t *testing.T) {
	for _, accept := range []string{plainJSON, "text/event-stream"} {
		started, ended := make(chan struct{}, 1), make(chan error, 1)
		s := open(t, &toolhttp.Server{Requests: waitingPeer(started, ended)})
		answered := make(chan answer, 1)
		go func() { answered <- s.do("POST", "", request(`1`, "t", `{}`), "Accept", accept) }() // ends with the call
		peertest.Receive(t, started, "the call begins")
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if err := s.server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown: %v", err)
		}
		cancel()
		if err := peertest.Receive(t, ended, "the call ends"); !errors.Is(err, dragoman.ErrClosed) {
			t.Errorf("the call ended with %v, want ErrClosed", err)
		}
		if a := peertest.Receive(t, answered, "the answer"); !strings.Contains(a.body, "-31003") {
			t.Errorf("the answer is %s", a.body)
		}
	}
}
