package ws

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func toolCall(t testing.TB, id, name string) *dragoman.Message {
	t.Helper()
	return peertest.Parse(t, `{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{"name":"`+name+`","arguments":{"a":1},"_meta":{"progressToken":1}}}`)
}

type answered struct {
	resp *dragoman.Message
	err  error
}

func callAsync(ctx context.Context, conn dragoman.Conn, req *dragoman.Message) <-chan answered {
	done := make(chan answered, 1)
	go func() { // ends with the call
		resp, err := conn.Call(ctx, req, nil)
		done <- answered{resp, err}
	}()
	return done
}

func TestA04_A27_ToolFramesOfTheClientCountUpAndAnswersAreMatched(t *testing.T) {
	peertest.NoLeak(t)
	r, conn := rawServe(t, &Client{Tools: true}, nil)
	if p := r.header.Get("Sec-WebSocket-Protocol"); p != "" {
		t.Errorf("tool frames offer the subprotocol %q", p)
	}
	ids := []string{`"a"`, `"a"`, `1`, `-99`, `"\u0062"`}
	var done []<-chan answered
	for i, id := range ids {
		done = append(done, callAsync(t.Context(), conn, toolCall(t, id, fmt.Sprintf("tool %d", i))))
		r.want(fmt.Sprintf(`{"id":#%d,"name":"tool %d","arguments":{"a":1}}`, i+1, i))
	}
	if !slices.IsSorted(r.ids) { // all have as many digits
		t.Errorf("the ids are %q", r.ids)
	}
	for i := len(ids) - 1; i >= 0; i-- {
		r.sendText(fmt.Sprintf(`{"jsonrpc":"2.0","id":#%d,"result":{"content":[{"type":"text","text":"%d"}]}}`, i+1, i))
		got := peertest.Receive(t, done[i], "the answer")
		if want := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%d"}]}}`, ids[i], i); got.err != nil || got.resp.String() != want {
			t.Errorf("got %v, %v\nwant %s", got.resp, got.err, want)
		}
	}
	last := callAsync(t.Context(), conn, peertest.Parse(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"bare"}}`))
	r.want(`{"id":#6,"name":"bare"}`)
	r.sendText(`{"jsonrpc":"2.0","id":#6,"error":{"code":-32602,"message":"no"}}`)
	if got := peertest.Receive(t, last, "the error"); got.err != nil || got.resp.RPCError().Code != -32602 {
		t.Errorf("got %v, %v", got.resp, got.err)
	}
}

func TestA28_UnsolicitedFramesAreIgnoredByTheClient(t *testing.T) {
	for _, tools := range []bool{false, true} {
		r, conn := rawServe(t, &Client{Tools: tools}, nil)
		done := callAsync(t.Context(), conn, toolCall(t, `"x"`, "n"))
		_ = r.message()
		for _, frame := range []string{
			`{"type":"ping"}`, `{"type":"notification","message":"hi"}`, `ping`, ``, `[]`, `42`, `{}`, `{"id":#1}`,
			`{"jsonrpc":"2.0","method":"notifications/whatever"}`, `{"jsonrpc":"2.0","id":77,"result":{}}`, `{"jsonrpc":"2.0","id":"#1","result":{}}`,
		} {
			r.sendText(frame)
		}
		r.sendText(`{"jsonrpc":"2.0","id":#1,"result":{"ok":true}}`)
		if got := peertest.Receive(t, done, "the answer"); got.err != nil || got.resp.String() != `{"jsonrpc":"2.0","id":"x","result":{"ok":true}}` {
			t.Errorf("tools %v: got %v, %v", tools, got.resp, got.err)
		}
	}
}

func TestToolFramesOfTheClientAnswerNoQuestions(t *testing.T) {
	r, conn := rawServe(t, &Client{Tools: true}, echoes)
	r.sendText(`{"jsonrpc":"2.0","id":5,"method":"ping"}`)
	done := callAsync(t.Context(), conn, toolCall(t, `1`, "n"))
	r.want(`{"id":#1,"name":"n","arguments":{"a":1}}`) // and nothing before it
	r.sendText(`{"jsonrpc":"2.0","id":#1,"result":{}}`)
	peertest.Receive(t, done, "the answer")
}

func TestToolFramesOfTheClientCarryToolCallsAlone(t *testing.T) {
	r, conn := rawServe(t, &Client{Tools: true}, nil)
	for _, c := range []struct {
		req  string
		code int
		says string
	}{
		{`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{}}`, protocol.CodeMethodNotFound, "not sent"},
		{`{"jsonrpc":"2.0","id":"i","method":"tools/list"}`, protocol.CodeMethodNotFound, "not sent"},
		{`{"jsonrpc":"2.0","id":"i","method":"tools/call","params":{}}`, protocol.CodeInvalidParams, "params.name is missing"},
		{`{"jsonrpc":"2.0","id":"i","method":"tools/call","params":{"name":"n","arguments":[]}}`, protocol.CodeInvalidParams, "params.arguments"},
	} {
		resp, err := conn.Call(t.Context(), peertest.Parse(t, c.req), nil)
		if err != nil || !resp.IsError() || resp.RPCError().Code != c.code || !strings.Contains(resp.RPCError().Message, c.says) || resp.ID().String() != `"i"` {
			t.Errorf("%s\n got %v, %v\nwant code %d", c.req, resp, err, c.code)
		}
	}
	if err := conn.Notify(t.Context(), peertest.Parse(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)); err != nil {
		t.Errorf("Notify: %v", err)
	}
	done := callAsync(t.Context(), conn, toolCall(t, `1`, "n"))
	r.want(`{"id":#1,"name":"n","arguments":{"a":1}}`) // the first that was sent
	r.sendText(`{"jsonrpc":"2.0","id":#1,"result":{}}`)
	peertest.Receive(t, done, "the answer")
}

func TestA27_ACallThatIsGivenUpIsRemovedAndItsAnswerIgnored(t *testing.T) {
	r, conn := rawServe(t, &Client{Tools: true}, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	done := callAsync(ctx, conn, toolCall(t, `1`, "n"))
	_ = r.message()
	gaveUp := errors.New("gave up")
	cancel(gaveUp)
	if got := peertest.Receive(t, done, "the call returns"); !errors.Is(got.err, gaveUp) {
		t.Errorf("got %v, %v", got.resp, got.err)
	}
	r.sendText(`{"jsonrpc":"2.0","id":#1,"result":{"late":true}}`)
	next := callAsync(t.Context(), conn, toolCall(t, `1`, "n"))
	r.want(`{"id":#2,"name":"n","arguments":{"a":1}}`) // no cancel came before it
	r.sendText(`{"jsonrpc":"2.0","id":#2,"result":{"late":false}}`)
	if got := peertest.Receive(t, next, "the next answer"); got.err != nil || string(got.resp.Get("late")) != "false" {
		t.Errorf("got %v, %v", got.resp, got.err)
	}
}

func TestCancelGoesByNotification(t *testing.T) {
	r, conn := rawServe(t, &Client{}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := callAsync(ctx, conn, toolCall(t, `1`, "n"))
	_ = r.message()
	cancel()
	peertest.Receive(t, done, "the call returns")
	if got := peertest.Parse(t, r.message()); got.Method() != protocol.NoteCancelled || string(got.Get("requestId")) != r.real("#1") {
		t.Errorf("the server is told %s", got)
	}
}

func TestDialSaysWhyThereIsNoSocket(t *testing.T) {
	peertest.NoLeak(t)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/json":
			w.Header().Set("WWW-Authenticate", "Bearer x")
			w.WriteHeader(401)
			_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"who are you"}}`))
		case "/away":
			http.Redirect(w, r, "http://elsewhere.example/", http.StatusTemporaryRedirect)
		case "/round":
			http.Redirect(w, r, "/round", http.StatusTemporaryRedirect)
		case "/hang":
			<-r.Context().Done()
		default:
			http.Error(w, "nothing here", 404)
		}
	}))
	defer web.Close()
	host := strings.TrimPrefix(web.URL, "http://")
	for _, c := range []struct{ url, says string }{
		{"ws://user:hunter2@" + host + "/json", "401 Unauthorized: who are you"},
		{"http://" + host + "/none", "404 Not Found: nothing here"},
		{"ws://" + host + "/away", "it redirects to http://elsewhere.example"},
		{"ws://" + host + "/round", "it redirects to http://"},
		{"ftp://" + host, `scheme is "ftp"`},
		{"ws:///x", "no host"},
		{"ws://%zz:hunter2@", "cannot be read"},
		{"ws://127.0.0.1:1/hunter2", "cannot open the socket"},
	} {
		_, err := (&Client{URL: c.url}).Dial(t.Context(), nil)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("Dial %s: %v; want an error that says %q", c.url, err, c.says)
		}
		var refused *protocol.StatusError
		if errors.As(err, &refused) && refused.Status == 401 && refused.Challenges[0] != "Bearer x" {
			t.Errorf("the challenge is %q", refused.Challenges)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if _, err := (&Client{URL: "ws://" + host + "/hang"}).Dial(ctx, nil); !errors.Is(err, enough) {
		t.Errorf("Dial with a context that has ended: %v", err)
	}
}

func TestDialSendsHeadersAndOutlivesItsContext(t *testing.T) {
	got := make(chan http.Header, 1)
	s := &Server{Acceptor: peertest.Accept(echoes)}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header
		s.ServeHTTP(w, r)
	}))
	defer web.Close()
	defer stop(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	u, err := url.Parse(web.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("me", "secret")
	conn, err := (&Client{URL: u.String(), Header: http.Header{"X-Key": {"k"}}}).Dial(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	cancel()
	h := <-got
	if h.Get("X-Key") != "k" || h.Get("Authorization") == "" || h.Get("Sec-WebSocket-Protocol") != "mcp" || h.Get("Sec-WebSocket-Extensions") != "" {
		t.Errorf("headers: %v", h)
	}
	if resp, err := conn.Call(t.Context(), peertest.Parse(t, asking("x")), nil); err != nil || resp.String() != asked("x") {
		t.Errorf("got %v, %v", resp, err)
	}
}

func TestDialOverTLS(t *testing.T) {
	s := &Server{Acceptor: peertest.Accept(echoes)}
	web := httptest.NewUnstartedServer(s)
	web.EnableHTTP2 = true
	web.StartTLS()
	defer web.Close()
	defer stop(t, s)
	conn, err := (&Client{URL: "wss" + strings.TrimPrefix(web.URL, "https"), HTTP: web.Client()}).Dial(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if resp, err := conn.Call(t.Context(), peertest.Parse(t, asking("x")), nil); err != nil || resp.String() != asked("x") {
		t.Errorf("got %v, %v", resp, err)
	}
	// Over HTTP/2 there is nothing to upgrade.
	resp, err := web.Client().Get(web.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("GET by %s got %s", resp.Proto, resp.Status)
	}
}
