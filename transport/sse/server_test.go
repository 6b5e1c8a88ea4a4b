package sse

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

func TestB14_StreamNamesTheEndpointFirstAndCarriesTheAnswers(t *testing.T) {
	peertest.NoLeak(t)
	_, at := serve(t, &Server{Acceptor: peertest.Accept(pinger)})
	w := newTestServer(t)
	s := w.stream(at + "/sse")
	for name, want := range map[string]string{"Content-Type": "text/event-stream", "X-Accel-Buffering": "no", "Cache-Control": "no-cache, no-transform"} {
		if got := s.resp.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	u, err := url.Parse(s.endpoint)
	if err != nil || u.Path != "/messages" || len(u.Query().Get("sessionId")) < 22 {
		t.Fatalf("the endpoint is %s", s.endpoint)
	}
	w.post(s.endpoint, ping)
	s.want(pong)
	for _, name := range []string{"sessionid", "session_id"} { // as other servers spell it
		w.post(strings.Replace(s.endpoint, "sessionId", name, 1), ping)
		s.want(pong)
	}
	w.post(s.endpoint, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	w.post(s.endpoint, "{\r\n\"jsonrpc\":\"2.0\",\n\"id\":\"a\\u2028\",\n\"method\":\"ping\"}")
	s.want(`{"jsonrpc":"2.0","id":"a\u2028","result":{}}`)
}

func TestRequestsThatCannotBeServedAreRefused(t *testing.T) {
	peertest.NoLeak(t)
	_, at := serve(t, &Server{Acceptor: peertest.Accept(pinger), MaxMessage: 1000, Caller: byHeader})
	w := newTestServer(t)
	s := w.stream(at + "/sse")
	in := s.endpoint
	for _, row := range []struct {
		name, method, url, body string
		set                     []string
		status                  int
		want                    string // in the body
	}{
		{"PUT to the stream", "PUT", at + "/sse", "", nil, 405, "GET"},
		{"POST to the stream", "POST", at + "/sse", ping, nil, 405, "GET"},
		{"HEAD of the stream", "HEAD", at + "/sse", "", nil, 405, ""},
		{"GET of the messages", "GET", in, "", nil, 405, "POST"},
		{"DELETE of the messages", "DELETE", in, "", nil, 405, "POST"},
		{"Accept without event streams", "GET", at + "/sse", "", []string{"Accept", "application/json"}, 406, "text/event-stream"},
		{"no JSON", "POST", in, "{", nil, 400, "-32700"},
		{"not UTF-8", "POST", in, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", nil, 400, "-32700"},
		{"nothing", "POST", in, "", nil, 400, "-32700"},
		{"no message", "POST", in, `{"method":"ping"}`, nil, 400, `"id":null,"error":{"code":-32600`},
		{"no message, without a session", "POST", at + "/messages", `{"id":7,"method":"ping"}`, nil, 400, `"id":7,"error":{"code":-32600`},
		{"an id that is none", "POST", in, `{"jsonrpc":"2.0","id":null,"method":"ping"}`, nil, 400, "-32600"},
		{"a batch", "POST", in, "[" + ping + "]", nil, 400, "no batches"},
		{"text", "POST", in, ping, []string{"Content-Type", "text/plain"}, 415, "application/json"},
		{"compressed", "POST", in, ping, []string{"Content-Encoding", "gzip"}, 415, "Content-Encoding"},
		{"too large", "POST", in, `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 1000) + `"}`, nil, 413, "1000"},
		{"a session that is not", "POST", at + "/messages?sessionId=x", ping, nil, 404, "no such session"},
		{"an empty session", "POST", at + "/messages?sessionId=", ping, nil, 400, "sessionId"},
		{"two sessions", "POST", in + "&session_id=x", ping, nil, 400, "once"},
		{"another caller's session", "POST", in, ping, []string{"X-Caller", "eve"}, 404, "no such session"},
	} {
		t.Run(row.name, func(t *testing.T) {
			status, header, text := (&testServer{t: t, client: w.client, header: w.header}).do(row.method, row.url, row.body, row.set...)
			if status != row.status || !strings.Contains(text, row.want) {
				t.Errorf("got %d %s, want %d with %s", status, text, row.status, row.want)
			}
			if status == http.StatusMethodNotAllowed && header.Get("Allow") == "" {
				t.Error("405 without Allow")
			}
		})
	}
	w.post(in, ping)
	s.want(pong) // the session continues
}

func TestS11_B03_ForeignHostsAndOriginsAreForbiddenOnBothURLs(t *testing.T) {
	peertest.NoLeak(t)
	_, at := serve(t, &Server{Acceptor: peertest.Accept(pinger)})
	w := newTestServer(t)
	s := w.stream(at + "/sse")
	for _, set := range [][]string{
		{"Origin", "http://evil.example"},
		{"Origin", "null"},
		{"Origin", "http://localhost.evil.com"},
		{"Host", "evil.example"},
		{"Host", "127.0.0.1.nip.io"},
	} {
		for _, endpoint := range [][2]string{{"GET", at + "/sse"}, {"POST", s.endpoint}, {"POST", at + "/messages"}, {"POST", at + "/messages?sessionId=x"}, {"OPTIONS", s.endpoint}} {
			status, header, text := w.do(endpoint[0], endpoint[1], "{", set...)
			if status != http.StatusForbidden || header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s %s with %v: %d %s, want 403", endpoint[0], endpoint[1], set, status, text)
			}
		}
	}
	if status, header, _ := w.do("POST", s.endpoint, ping, "Origin", at); status != http.StatusAccepted || header.Get("Access-Control-Allow-Origin") != at {
		t.Errorf("its own origin: %d, %v", status, header)
	}
}

func TestEndpointWorksUnderAnyPrefixAndBehindAProxy(t *testing.T) {
	peertest.NoLeak(t)
	s := &Server{Acceptor: peertest.Accept(pinger)}
	inner := listen(t, s, mount(s, "/a/b"))
	target, err := url.Parse(inner + "/a/b")
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{}
	proxy := httptest.NewServer(http.StripPrefix("/x/y/z", &httputil.ReverseProxy{Transport: tr, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}))
	t.Cleanup(func() {
		_ = s.Close()
		proxy.Close()
		tr.CloseIdleConnections()
	})
	for _, at := range []string{inner + "/a/b/sse", inner + "/a/b", proxy.URL + "/x/y/z/sse", proxy.URL + "/x/y/z"} {
		conn, err := (&Client{URL: at}).Dial(t.Context(), nil)
		if err != nil {
			t.Errorf("%s: %v", at, err)
			continue
		}
		req, _ := dragoman.Parse([]byte(ping))
		if resp, err := conn.Call(t.Context(), req, nil); err != nil || resp.String() != pong {
			t.Errorf("%s: %v, %v", at, resp, err)
		}
		_ = conn.Close()
	}
}

func TestStreamAndMessagesShareAnHTTP2Connection(t *testing.T) {
	peertest.NoLeak(t)
	s := &Server{Acceptor: peertest.Accept(pinger)}
	secure := httptest.NewUnstartedServer(mount(s, ""))
	secure.EnableHTTP2 = true
	secure.StartTLS()
	t.Cleanup(func() {
		_ = s.Close()
		secure.Close()
	})
	conn, err := (&Client{URL: secure.URL + "/sse", HTTP: secure.Client()}).Dial(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var calls sync.WaitGroup
	for range 32 {
		calls.Go(func() {
			if _, err := callPing(t.Context(), conn); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
}

func TestNothingComesBeforeTheEndpointAndSessionsAreApart(t *testing.T) {
	peertest.NoLeak(t)
	who := dragoman.AcceptFunc(func(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
		note, _ := dragoman.NewNotification("notifications/hello", nil)
		return pinger, client.Notify(ctx, note)
	})
	_, at := serve(t, &Server{Acceptor: who, Caller: byHeader})
	w := newTestServer(t)
	a, b := w.as("a").stream(at+"/sse"), w.as("b").stream(at+"/sse")
	if a.endpoint == b.endpoint {
		t.Fatal("two sessions share an endpoint")
	}
	w.as("a").post(a.endpoint, ping)
	a.want(`{"jsonrpc":"2.0","method":"notifications/hello"}`)
	a.want(pong)
	if status, _, _ := w.as("b").do("POST", a.endpoint, ping); status != http.StatusNotFound {
		t.Errorf("b posts to a's session: %d, want 404", status)
	}
	w.as("b").post(b.endpoint, ping)
	b.want(`{"jsonrpc":"2.0","method":"notifications/hello"}`)
	b.want(pong)
	if len(a.events) > 0 {
		t.Errorf("a hears %s", (<-a.events).Data)
	}
}

func TestSessionEndsWithItsStreamAndSoDoItsCalls(t *testing.T) {
	peertest.NoLeak(t)
	began, ended := make(chan struct{}), make(chan error, 1)
	_, at := serve(t, &Server{Acceptor: peertest.Accept(dragoman.Funcs{OnCall: func(ctx context.Context, _ *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		close(began)
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil, context.Cause(ctx)
	}})})
	w := newTestServer(t)
	s := w.stream(at + "/sse")
	w.post(s.endpoint, ping)
	peertest.Receive(t, began, "the call begins")
	s.cancel()
	if err := peertest.Receive(t, ended, "the call ends"); !errors.Is(err, dragoman.ErrClosed) || !errors.Is(err, errClientGone) {
		t.Errorf("the call ended because of %v", err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if status, _, _ := w.do("POST", s.endpoint, ping); status == http.StatusNotFound {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the session continues")
		}
	}
}

func TestSilentStreamIsKeptAlive(t *testing.T) {
	peertest.NoLeak(t)
	_, at := serve(t, &Server{Acceptor: peertest.Accept(pinger), KeepAlive: 10 * time.Millisecond})
	w := newTestServer(t)
	resp, err := w.client.Get(at + "/sse")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var text strings.Builder
	for buf := make([]byte, 1000); strings.Count(text.String(), ": keep-alive\n\n") < 3; {
		n, err := resp.Body.Read(buf)
		if err != nil {
			t.Fatalf("after %q: %v", text.String(), err)
		}
		text.Write(buf[:n])
	}
}

// A reader that does not read is cut, while another session continues.
func TestStalledReaderIsCutWithoutHurtingOthers(t *testing.T) {
	peertest.NoLeak(t)
	over := make(chan error, 2)
	flood := strings.Repeat("x", 1<<20)
	s := &Server{
		WriteTimeout: time.Second,
		Acceptor: dragoman.AcceptFunc(func(_ context.Context, client dragoman.Conn) (dragoman.Peer, error) {
			go func() {
				<-client.Done()
				over <- client.Err()
			}()
			return dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
				if req.Method() == "flood" {
					return req.Reply(map[string]string{"text": flood})
				}
				return req.Reply(nil)
			}}, nil
		}),
	}
	_, at := serve(t, s)
	w := newTestServer(t)
	good := w.stream(at + "/sse")
	nc, err := net.Dial("tcp", strings.TrimPrefix(at, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	fmt.Fprintf(nc, "GET /sse HTTP/1.1\r\nHost: localhost\r\n\r\n")
	head := make([]byte, 600) // enough for the endpoint; then it reads no more
	n := 0
	for !strings.Contains(string(head[:n]), "sessionId=") || !strings.HasSuffix(string(head[:n]), "\n\r\n") {
		k, err := nc.Read(head[n:])
		if err != nil {
			t.Fatal(err)
		}
		n += k
	}
	_, id, _ := strings.Cut(string(head[:n]), "sessionId=")
	id, _, _ = strings.Cut(id, "\n")
	for i := range 20 {
		// On a busy machine it may have been cut before the last.
		w.do(http.MethodPost, at+"/messages?sessionId="+id, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"flood"}`, i))
	}
	for range 20 {
		w.post(good.endpoint, ping)
		good.want(pong)
	}
	if err := peertest.Receive(t, over, "the stalled session ends"); !errors.Is(err, dragoman.ErrSlow) {
		t.Errorf("the stalled session ended because of %v", err)
	}
	w.post(good.endpoint, ping)
	good.want(pong)
}

func TestSessionsOverTheLimitAreRefused(t *testing.T) {
	peertest.NoLeak(t)
	_, at := serve(t, &Server{Acceptor: peertest.Accept(pinger), MaxSessions: 2})
	w := newTestServer(t)
	w.stream(at + "/sse")
	s := w.stream(at + "/sse")
	status, header, text := w.do("GET", at+"/sse", "")
	if status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" || !strings.Contains(text, "-31004") {
		t.Errorf("the third session: %d %s", status, text)
	}
	if status, _, _ := w.do("POST", at+"/messages", ping); status != http.StatusServiceUnavailable {
		t.Errorf("one without a session: %d", status)
	}
	w.post(s.endpoint, ping)
	s.want(pong)
}

func TestClientThatIsNotAcceptedIsToldWhy(t *testing.T) {
	peertest.NoLeak(t)
	_, at := serve(t, &Server{Acceptor: dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) {
		return nil, errors.New("no such program")
	})})
	w := newTestServer(t)
	s := w.stream(at + "/sse")
	w.post(s.endpoint, ping)
	if e := s.next(); !strings.Contains(string(e.Data), "no such program") || !strings.Contains(string(e.Data), `"id":1`) {
		t.Errorf("told %s", e.Data)
	}
	if status, _, text := w.do("POST", at+"/messages", ping); status != http.StatusServiceUnavailable || !strings.Contains(text, "no such program") {
		t.Errorf("without a session: %d %s", status, text)
	}
}

func TestS23_ManyClientsAtOnceGetTheirOwnAnswers(t *testing.T) {
	peertest.NoLeak(t)
	_, at := serve(t, &Server{Acceptor: builtin.New(nil)})
	var clients sync.WaitGroup
	for i := range 64 {
		clients.Go(func() {
			if err := runClient(t.Context(), at+"/sse", fmt.Sprintf("client %d", i)); err != nil {
				t.Errorf("client %d: %v", i, err)
			}
		})
	}
	clients.Wait()
}

// runClient makes a conversation with the built-in server, whose ids are those of
// all others.
func runClient(ctx context.Context, at, text string) error {
	conn, err := (&Client{URL: at}).Dial(ctx, nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"` + text + `, first"}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"` + text + `, second"}}}`,
	} {
		m, err := dragoman.Parse([]byte(line))
		if err != nil {
			return err
		}
		if m.Kind() == dragoman.Notification {
			err = conn.Notify(ctx, m)
		} else {
			var resp *dragoman.Message
			resp, err = conn.Call(ctx, m, nil)
			if err == nil && (resp.IsError() || m.Name() != "" && !strings.Contains(resp.String(), text)) {
				err = fmt.Errorf("%s is answered by %s", m, resp)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
