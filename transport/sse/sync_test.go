package sse

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// toolCall returns a request that calls a tool.
func toolCall(id, name, arguments string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + name + `","arguments":` + arguments + `}}`
}

// sync posts a message without a session and returns the answer.
func (w *testServer) sync(at, body string) string {
	w.t.Helper()
	status, header, text := w.do(http.MethodPost, at+"/messages", body)
	if status != http.StatusOK || header.Get("Content-Type") != "application/json" {
		w.t.Fatalf("POST %s: %d %s", body, status, text)
	}
	return text
}

func TestC03_MessageWithoutASessionIsAnsweredInTheResponse(t *testing.T) {
	peertest.NoLeak(t)
	_, at := serve(t, &Server{Acceptor: builtin.New(nil), Caller: byHeader})
	w := newTestServer(t)
	for _, row := range [][2]string{
		{toolCall(`"x"`, "echo", `{"text":"hello"}`), `"id":"x"`}, // without a handshake
		{toolCall(`2`, "echo", `{"text":"hello"}`), `hello`},
		{toolCall(`3`, "session", `{}`), `revision=2024-11-05`},
		{initialize, `"protocolVersion":"2025-06-18"`}, // another conversation
		{toolCall(`4`, "session", `{}`), `revision=2025-06-18`},
		{`{"jsonrpc":"2.0","id":5,"method":"no/such"}`, `-32601`},
		{toolCall(`6`, "test_sampling", `{"prompt":"?"}`), `"id":6`}, // it cannot be asked, and does not hang
	} {
		if got := w.sync(at, row[0]); !strings.Contains(got, row[1]) {
			t.Errorf("%s\nis answered by %s\nwant %s", row[0], got, row[1])
		}
	}
	if got := w.as("b").sync(at, toolCall(`1`, "session", `{}`)); !strings.Contains(got, "revision=2024-11-05") {
		t.Errorf("another caller has the conversation of the first: %s", got)
	}
	w.post(at+"/messages", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for _, body := range []string{pong, "{", "[" + ping + "]"} {
		if status, _, text := w.do("POST", at+"/messages", body); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s, want 400", body, status, text)
		}
	}
}

func TestC03_NotificationsReachTheStreamsOfTheCallerAlone(t *testing.T) {
	peertest.NoLeak(t)
	_, at := serve(t, &Server{Acceptor: builtin.New(nil), Caller: byHeader})
	w := newTestServer(t)
	a, b, official := w.as("a").stream(at+"/sse"), w.as("b").stream(at+"/sse"), w.as("a").stream(at+"/sse")
	w.as("a").post(official.endpoint, initialize)
	if e := official.next(); !strings.Contains(string(e.Data), "2025-06-18") {
		t.Fatalf("initialize is answered by %s", e.Data)
	}
	w.as("a").sync(at, `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"test://watched-resource"}}`)
	w.as("a").sync(at, toolCall(`2`, "update_resource", `{}`))
	if e := a.next(); !strings.Contains(string(e.Data), "notifications/resources/updated") || e.Name != "message" {
		t.Errorf("a hears %s: %s", e.Name, e.Data)
	}
	w.as("a").sync(at, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"slow","arguments":{"ms":1,"steps":1},"_meta":{"progressToken":"p"}}}`)
	if e := a.next(); !strings.Contains(string(e.Data), `"progressToken":"p"`) {
		t.Errorf("a hears %s", e.Data)
	}
	if len(b.events)+len(official.events) > 0 {
		t.Error("another caller, or a session, hears what is not its own")
	}
}

func TestCallWithoutASessionCanBeCancelled(t *testing.T) {
	peertest.NoLeak(t)
	began, ended := make(chan struct{}, 1), make(chan error, 1)
	_, at := serve(t, &Server{Acceptor: peertest.Accept(dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		if req.Method() != "wait" {
			return req.Reply(nil)
		}
		began <- struct{}{}
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil, context.Cause(ctx)
	}})})
	w := newTestServer(t)
	answered := make(chan string, 1)
	go func() {
		_, _, text := w.do("POST", at+"/messages", `{"jsonrpc":"2.0","id":1,"method":"wait"}`)
		answered <- text
	}()
	peertest.Receive(t, began, "the call begins")
	w.post(at+"/messages", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	if err := peertest.Receive(t, ended, "the call ends"); !errors.Is(err, dragoman.ErrCancelled) {
		t.Errorf("the call ended because of %v", err)
	}
	if text := peertest.Receive(t, answered, "the request is over"); text != "" {
		t.Errorf("a cancelled request is answered with %s", text)
	}
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", at+"/messages", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"wait"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	go func() {
		resp, err := w.client.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
	}()
	peertest.Receive(t, began, "the second call begins")
	cancel()
	peertest.Receive(t, ended, "the call of a caller who left ends")
}

func TestIdleConversationWithoutASessionEnds(t *testing.T) {
	peertest.NoLeak(t)
	over := make(chan error, 1)
	s, at := serve(t, &Server{
		IdleTimeout: 20 * time.Millisecond,
		Acceptor: dragoman.AcceptFunc(func(_ context.Context, client dragoman.Conn) (dragoman.Peer, error) {
			go func() {
				<-client.Done()
				over <- client.Err()
			}()
			return pinger, nil
		}),
	})
	w := newTestServer(t)
	w.sync(at, ping)
	if err := peertest.Receive(t, over, "the conversation ends"); !errors.Is(err, dragoman.ErrClosed) {
		t.Errorf("it ended because of %v", err)
	}
	s.mu.Lock()
	n := len(s.syncConns)
	s.mu.Unlock()
	if n > 0 {
		t.Errorf("%d conversations are left", n)
	}
	w.sync(at, ping)
	if status, _, _ := newTestServer(t).do("POST", func() string { _, at := serve(t, &Server{Acceptor: peertest.Accept(pinger), NoSync: true}); return at }()+"/messages", ping); status != http.StatusBadRequest {
		t.Errorf("with NoSync: %d, want 400", status)
	}
}

// syncOnlyServer is a server of the variant without sessions and nothing else: it tells
// one notification on /sse and answers in the response.
func syncOnlyServer(t *testing.T, silent bool) string {
	m := http.NewServeMux()
	m.HandleFunc("GET /api/sse", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		if !silent {
			fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n")
		}
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	m.HandleFunc("POST /api/messages", func(w http.ResponseWriter, r *http.Request) {
		var body [1000]byte
		n, _ := r.Body.Read(body[:])
		msg, err := dragoman.Parse(body[:n])
		if err != nil || msg.Kind() != dragoman.Request {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		switch msg.Method() {
		case "empty":
			w.WriteHeader(http.StatusOK)
		case "wait":
			<-r.Context().Done()
		default:
			resp, _ := msg.Reply(nil)
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(resp.Bytes())
		}
	})
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	return server.URL + "/api"
}

func TestC03_OurClientSpeaksToAServerWithoutSessions(t *testing.T) {
	for _, silent := range []bool{false, true} {
		t.Run(fmt.Sprintf("silent %v", silent), func(t *testing.T) {
			peertest.NoLeak(t)
			at := syncOnlyServer(t, silent)
			if _, err := (&Client{URL: at, EndpointTimeout: 100 * time.Millisecond}).Dial(t.Context(), nil); err == nil {
				t.Error("without Sync it is taken for a server of the other kind")
			}
			notes := make(chan string, 1)
			c := &Client{URL: at, Sync: true, EndpointTimeout: 100 * time.Millisecond}
			conn, err := c.Dial(t.Context(), dragoman.Funcs{OnNotify: func(_ context.Context, note *dragoman.Message) error {
				notes <- note.Method()
				return nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if !silent {
				if m := peertest.Receive(t, notes, "the notification"); m != "notifications/tools/list_changed" {
					t.Errorf("got %s", m)
				}
			}
			call := func(ctx context.Context, method string) (*dragoman.Message, error) {
				req, _ := dragoman.NewRequest(dragoman.StringID("x"), method, nil)
				return conn.Call(ctx, req, nil)
			}
			if resp, err := call(t.Context(), "ping"); err != nil || resp.String() != `{"jsonrpc":"2.0","id":"x","result":{}}` {
				t.Errorf("ping: %v, %v", resp, err)
			}
			if _, err := call(t.Context(), "empty"); !errors.Is(err, errNoAnswer) {
				t.Errorf("no answer: %v", err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if _, err := call(ctx, "wait"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("cancelled: %v", err)
			}
			if _, err := call(t.Context(), "ping"); err != nil {
				t.Errorf("after that: %v", err)
			}
		})
	}
}
