package sse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A scriptedServer is a server that does what a test wants: it begins its stream with
// text, adds what comes on more, and answers POSTs by a function.
type scriptedServer struct {
	begin string
	more  chan string // closed at the end of the stream
	post  func(w http.ResponseWriter, body string)
	seen  atomic.Int64 // requests
	url   string
}

const endpointEvent = "event: endpoint\ndata: /messages?sessionId=1\n\n"

func newScriptedServer(t *testing.T, begin string) *scriptedServer {
	t.Helper()
	s := &scriptedServer{begin: begin, more: make(chan string, 100), post: func(w http.ResponseWriter, _ string) { w.WriteHeader(http.StatusAccepted) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.seen.Add(1)
		if r.Method == http.MethodPost {
			body, _ := io.ReadAll(r.Body)
			s.post(w, string(body))
			return
		}
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		fmt.Fprint(w, s.begin)
		rc := http.NewResponseController(w)
		_ = rc.Flush()
		for {
			select {
			case text, ok := <-s.more:
				if !ok {
					return
				}
				fmt.Fprint(w, text)
				_ = rc.Flush()
			case <-r.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// dial opens a conversation that is closed with the test.
func (s *scriptedServer) dial(t *testing.T, c *Client) dragoman.Conn {
	t.Helper()
	c.URL = s.url
	conn, err := c.Dial(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func callPing(ctx context.Context, conn dragoman.Conn) (*dragoman.Message, error) {
	req, err := dragoman.Parse([]byte(`{"jsonrpc":"2.0","id":"mine","method":"ping"}`))
	if err != nil {
		return nil, err
	}
	return conn.Call(ctx, req, nil)
}

func TestB15_ClientTakesTheEndpointFromItsOwnOriginAlone(t *testing.T) {
	peertest.NoLeak(t)
	foreign := newScriptedServer(t, endpointEvent)
	for _, row := range []struct{ begin, want string }{
		{"event: endpoint\ndata: http://evil.example/messages\n\n", "another origin"},
		{"event: endpoint\ndata: //evil.example/messages\n\n", "another origin"},
		{"event: endpoint\ndata: " + foreign.url + "/messages\n\n", "another origin"},
		{"event: endpoint\ndata: https:/messages\n\n", "another origin"},
		{"event: endpoint\ndata: http://%zz/\n\n", "no URL"},
		{"data: " + ping + "\n\n", "does not begin with an endpoint"},
		{": nothing\n\n", "no endpoint in time"},
		{"event: endpoint\ndata: " + strings.Repeat("x", 20000) + "\n\n", "too large"},
	} {
		s := newScriptedServer(t, row.begin)
		_, err := (&Client{URL: s.url, EndpointTimeout: 200 * time.Millisecond, MaxMessage: 1000}).Dial(t.Context(), nil)
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%.60q: %v, want %q", row.begin, err, row.want)
		}
	}
	if n := foreign.seen.Load(); n > 0 {
		t.Errorf("the other origin saw %d requests", n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := (&Client{URL: newScriptedServer(t, "").url}).Dial(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the caller's deadline: %v", err)
	}
}

func TestS28_ClientFollowsNoRedirectToAnotherOrigin(t *testing.T) {
	peertest.NoLeak(t)
	other := newScriptedServer(t, endpointEvent)
	m := http.NewServeMux()
	m.Handle("/away", http.RedirectHandler(other.url+"/sse", http.StatusTemporaryRedirect))
	s := &Server{Acceptor: peertest.Accept(pinger)}
	m.Handle("/old", http.RedirectHandler("/sse", http.StatusMovedPermanently))
	m.Handle("/sse", s.Stream())
	m.Handle("/messages", s.Messages())
	at := listen(t, s, m)
	if _, err := (&Client{URL: at + "/away"}).Dial(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "it redirects to "+other.url) {
		t.Errorf("redirected away: %v", err)
	}
	if n := other.seen.Load(); n > 0 {
		t.Errorf("the other origin saw %d requests", n)
	}
	conn, err := (&Client{URL: at + "/old"}).Dial(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := callPing(t.Context(), conn); err != nil {
		t.Error(err)
	}
}

func TestD16_RefusalsCarryStatusTextAndHints(t *testing.T) {
	peertest.NoLeak(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/html" {
			w.Header().Set("Content-Type", "text/html")
			return
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="x"`)
		w.Header().Set("Mcp-Auth-Server", "https://auth.example")
		http.Error(w, "who are you?", http.StatusUnauthorized)
	}))
	t.Cleanup(server.Close)
	_, err := (&Client{URL: server.URL, Sync: true}).Dial(t.Context(), nil)
	e, ok := errors.AsType[*protocol.StatusError](err)
	if !ok || e.Status != 401 || e.Text != "who are you?" || e.Challenges[0] != `Bearer realm="x"` || e.AuthServer != "https://auth.example" {
		t.Errorf("got %#v", err)
	}
	if _, err := (&Client{URL: server.URL + "/html"}).Dial(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "event stream") {
		t.Errorf("a web page: %v", err)
	}
	for _, bad := range []string{"", "ftp://x", "/sse", "http://"} {
		if _, err := (&Client{URL: bad}).Dial(t.Context(), nil); err == nil {
			t.Errorf("%q is taken for a URL", bad)
		}
	}
}

func TestPostThatFailsFailsItsCallAlone(t *testing.T) {
	peertest.NoLeak(t)
	status := make(chan int, 1)
	s := newScriptedServer(t, endpointEvent)
	s.post = func(w http.ResponseWriter, body string) {
		m, _ := dragoman.Parse([]byte(body))
		switch code := <-status; code {
		case http.StatusAccepted:
			w.WriteHeader(code)
			s.more <- "event: other\ndata: x\n\nevent: message\ndata: " + m.Fail(&dragoman.Error{Code: 7, Message: "answer"}).String() + "\n\n"
		case http.StatusBadRequest:
			w.WriteHeader(code)
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"what?"}}`)
		case http.StatusServiceUnavailable:
			w.WriteHeader(code)
			_, _ = w.Write(m.Fail(protocol.Draining()).Bytes())
		default:
			http.Error(w, "no", code)
		}
	}
	conn := s.dial(t, &Client{PostTimeout: time.Second})
	for _, row := range []struct {
		status int
		is     error
		code   int // of an error answer
	}{
		{500, nil, 0}, {413, dragoman.ErrTooLarge, 0}, {429, dragoman.ErrOverloaded, 0}, {403, nil, 0},
		{400, nil, -32600}, {503, nil, protocol.CodeDraining}, {202, nil, 7},
	} {
		status <- row.status
		resp, err := callPing(t.Context(), conn)
		if row.code != 0 {
			if err != nil || resp.RPCError().Code != row.code || resp.ID().String() != `"mine"` {
				t.Errorf("status %d: %v, %v, want code %d", row.status, resp, err, row.code)
			}
			continue
		}
		if err == nil || errors.Is(err, dragoman.ErrClosed) || row.is != nil && !errors.Is(err, row.is) || strings.Contains(err.Error(), "sessionId") {
			t.Errorf("status %d: %v, %v, want an error of this call alone, %v", row.status, resp, err, row.is)
		}
	}
	status <- http.StatusNotFound
	if _, err := callPing(t.Context(), conn); !errors.Is(err, dragoman.ErrClosed) || !strings.Contains(err.Error(), "session is gone") {
		t.Errorf("session gone: %v", err)
	}
}

// A redirect that turns the POST into a GET would deliver nothing.
func TestRedirectOfAPostThatBecomesAGetIsNotFollowed(t *testing.T) {
	peertest.NoLeak(t)
	s := newScriptedServer(t, endpointEvent)
	s.post = func(w http.ResponseWriter, _ string) {
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(http.StatusFound)
	}
	conn := s.dial(t, &Client{})
	_, err := callPing(t.Context(), conn)
	if e, ok := errors.AsType[*protocol.StatusError](err); !ok || e.Status != http.StatusFound || errors.Is(err, dragoman.ErrClosed) {
		t.Errorf("the call: %v", err)
	}
}

// The request that the server refused was not carried out. Of those that it had taken
// before nobody knows, so they must not be sent again.
func TestSessionThatIsGoneSaysWhichRequestWasNotSent(t *testing.T) {
	peertest.NoLeak(t)
	s := newScriptedServer(t, endpointEvent)
	taken := make(chan struct{}, 1)
	s.post = func(w http.ResponseWriter, body string) {
		if strings.Contains(body, "ping") {
			http.Error(w, "gone", http.StatusNotFound)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		taken <- struct{}{}
	}
	conn := s.dial(t, &Client{})
	first := make(chan error, 1)
	go func() {
		req, _ := dragoman.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`))
		_, err := conn.Call(t.Context(), req, nil)
		first <- err
	}()
	peertest.Receive(t, taken, "the server has taken the first")
	if _, err := callPing(t.Context(), conn); !errors.Is(err, dragoman.ErrClosed) || !protocol.NotSent(err) {
		t.Errorf("the request that was refused: %v", err)
	}
	if err := peertest.Receive(t, first, "the first ends"); !errors.Is(err, dragoman.ErrClosed) || protocol.NotSent(err) {
		t.Errorf("the request that was taken: %v", err)
	}
}

func TestD12_StreamThatEndsEndsTheConversationWithAReason(t *testing.T) {
	peertest.NoLeak(t)
	s := newScriptedServer(t, endpointEvent)
	s.post = func(w http.ResponseWriter, _ string) {
		w.WriteHeader(http.StatusAccepted)
		close(s.more)
	}
	conn := s.dial(t, &Client{})
	_, err := callPing(t.Context(), conn)
	if !errors.Is(err, dragoman.ErrClosed) || !errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "ended the event stream") {
		t.Errorf("the call in flight: %v", err)
	}
	peertest.Receive(t, conn.Done(), "the conversation is over")
}

func TestEventOverTheLimitFailsItsCallAlone(t *testing.T) {
	peertest.NoLeak(t)
	s := newScriptedServer(t, endpointEvent)
	s.post = func(w http.ResponseWriter, body string) {
		m, _ := dragoman.Parse([]byte(body))
		w.WriteHeader(http.StatusAccepted)
		s.more <- fmt.Sprintf("event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"x\":\"%s\"}}\n\n", m.ID(), strings.Repeat("x", 30000))
		s.more <- "data: not JSON\n\ndata: []\n\n"
	}
	conn := s.dial(t, &Client{MaxMessage: 10000})
	for range 3 {
		if _, err := callPing(t.Context(), conn); !errors.Is(err, dragoman.ErrTooLarge) || errors.Is(err, dragoman.ErrClosed) {
			t.Errorf("got %v, want ErrTooLarge", err)
		}
	}
	s.more <- "data: " + strings.Repeat("x", 100000) + "\n\n"
	if peertest.Receive(t, conn.Done(), "an endless event ends the conversation"); !errors.Is(conn.Err(), dragoman.ErrTooLarge) {
		t.Errorf("over because of %v", conn.Err())
	}
}

func TestConfiguredClientAndHeadersAreUsed(t *testing.T) {
	peertest.NoLeak(t)
	_, at := serve(t, &Server{Acceptor: peertest.Accept(pinger), Caller: byHeader})
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	c := &Client{URL: at + "/sse", HTTP: &http.Client{Transport: tr, Timeout: time.Nanosecond}, Header: http.Header{"X-Caller": {"me"}}}
	conn, err := c.Dial(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := callPing(t.Context(), conn); err != nil {
		t.Error(err)
	}
}

func TestC15_ConnectionsAreUsedAgain(t *testing.T) {
	peertest.NoLeak(t)
	var opened atomic.Int64
	s := &Server{Acceptor: peertest.Accept(pinger)}
	server := httptest.NewUnstartedServer(mount(s, ""))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	t.Cleanup(func() {
		_ = s.Close()
		server.Close()
	})
	conn, err := (&Client{URL: server.URL + "/sse"}).Dial(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range 100 {
		if _, err := callPing(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
	}
	if n := opened.Load(); n > 1+maxPosts { // an answer may be here before the POST is done with
		t.Errorf("100 calls took %d connections", n)
	}
}
