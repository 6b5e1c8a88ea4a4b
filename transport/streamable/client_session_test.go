package streamable_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// forgetful is a server whose sessions are s1, s2 and so on; the first ends when
// the test says so.
func forgetful(t *testing.T) (*script, *streamable.Client, *atomic.Bool) {
	var gone atomic.Bool
	var count atomic.Int32
	s, c := serveScript(t, func(w http.ResponseWriter, k *took) {
		id := k.Header.Get("Mcp-Session-Id")
		switch {
		case id == "s1" && gone.Load():
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`)
		case k.what() == "initialize":
			w.Header().Set("Mcp-Session-Id", fmt.Sprintf("s%d", count.Add(1)))
			replyTo(w, k, `{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}`)
		case shakes(w, k, "2025-11-25"):
		default:
			replyTo(w, k, `{"in":"`+id+`"}`)
		}
	})
	return s, c, &gone
}

// After a 404 the client starts over, once for all who call, restores what
// it had told the server, and repeats what was refused.
func TestB12_ClientStartsOverWhenTheSessionIsGone(t *testing.T) {
	s, c, gone := forgetful(t)
	conn := dialScript(t, c, nil)
	shake(t, conn, "2025-11-25")
	for _, m := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"a:1"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"a:2"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/unsubscribe","params":{"uri":"a:1"}}`,
	} {
		if _, err := conn.Call(t.Context(), read(t, m), nil); err != nil {
			t.Fatal(err)
		}
	}
	gone.Store(true)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			resp, err := conn.Call(t.Context(), read(t, callTool), nil)
			if err != nil || string(resp.Result()) != `{"in":"s2"}` {
				t.Errorf("got %v, %v", resp, err)
			}
		})
	}
	wg.Wait()
	for name, want := range map[string]int{"initialize": 2, "notifications/initialized": 2, "logging/setLevel": 2, "resources/subscribe": 3, "resources/unsubscribe": 1} {
		if _, list := s.taken(name); len(list) != want {
			t.Errorf("%d times %s, want %d", len(list), name, want)
		}
	}
	_, inits := s.taken("initialize")
	if string(inits[0].m.Params()) != string(inits[1].m.Params()) || inits[1].Header.Get("Mcp-Session-Id") != "" {
		t.Errorf("the second initialize is %s", inits[1].text)
	}
	if err := conn.Notify(t.Context(), read(t, `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)); err != nil {
		t.Error(err)
	}
	_ = conn.Close()
	if _, list := s.taken("notifications/roots/list_changed"); len(list) != 1 || list[0].Header.Get("Mcp-Session-Id") != "s2" {
		t.Errorf("%d notifications after the change", len(list))
	}
	if _, list := s.taken("DELETE"); len(list) != 1 || list[0].Header.Get("Mcp-Session-Id") != "s2" {
		t.Errorf("%d DELETEs", len(list))
	}
}

// A conversation of one session ends with it.
func TestClientOneSession(t *testing.T) {
	s, c, gone := forgetful(t)
	c.OneSession = true
	conn := dialScript(t, c, nil)
	shake(t, conn, "2025-11-25")
	gone.Store(true)
	_, err := conn.Call(t.Context(), read(t, callTool), nil)
	if !errors.Is(err, dragoman.ErrClosed) || !errors.Is(err, streamable.ErrSessionGone) {
		t.Errorf("got %v", err)
	}
	<-conn.Done()
	if _, list := s.taken("initialize"); len(list) != 1 {
		t.Errorf("%d times initialize", len(list))
	}
}

// The background stream brings notifications and questions to the local
// peer, and progress to the call it belongs to; a server without one is fine.
func TestD18_ClientHearsTheBackgroundStream(t *testing.T) {
	stop := make(chan struct{})
	progress := make(chan string, 1)
	s, c := serveScript(t, func(w http.ResponseWriter, k *took) {
		switch {
		case k.Method == "GET":
			sendEvents(w, "id: 1\ndata:", oneEvent("2", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`),
				oneEvent("3", `{"jsonrpc":"2.0","id":"q","method":"roots/list"}`))
			sendEvents(w, oneEvent("4", <-progress))
			<-stop
		case !shakes(w, k, "2025-11-25"):
			progress <- fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, k.m.Meta("progressToken"))
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-stop
			replyTo(w, k, `{}`)
		}
	})
	local, from := newHeard(), newHeard()
	conn := dialScript(t, c, local)
	shake(t, conn, "2025-11-25")
	done := make(chan error, 1)
	go func() {
		_, err := conn.Call(t.Context(), read(t, callTool), from)
		done <- err
	}()
	if m := <-from.ch; string(m.Get("progressToken")) != `"tok"` {
		t.Errorf("the caller was told %s", m)
	}
	if m := <-local.ch; m.Method() != "notifications/tools/list_changed" {
		t.Errorf("the local peer was told %s", m)
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
	s.wait("response")
	_ = conn.Close()
	if _, list := s.taken("response"); len(list) != 1 || list[0].text != `{"jsonrpc":"2.0","id":"q","result":{"asked":"roots/list"}}` {
		t.Errorf("answers: %v", list)
	}
}

// A question that is too large is refused, as is an answer to one; the
// stream goes on.
func TestD14_ClientRefusesQuestionsThatAreTooLarge(t *testing.T) {
	stop := make(chan struct{})
	large := strings.Repeat("x", 5000)
	s, c := serveScript(t, func(w http.ResponseWriter, k *took) {
		if k.Method == "GET" {
			sendEvents(w, oneEvent("1", `{"jsonrpc":"2.0","id":"big","method":"roots/list","params":{"x":"`+large+`"}}`),
				oneEvent("2", `{"jsonrpc":"2.0","id":"over","method":"roots/list","params":{"x":"`+large[:2000]+`"}}`),
				oneEvent("3", `{"jsonrpc":"2.0","id":"huge","method":"huge"}`),
				oneEvent("4", `{"jsonrpc":"2.0","id":"good","method":"roots/list"}`))
			<-stop
		} else {
			shakes(w, k, "2025-11-25")
		}
	})
	defer close(stop)
	c.MaxMessage = 2000
	conn := dialScript(t, c, dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		if req.Method() == "huge" {
			return req.Reply(map[string]string{"x": large})
		}
		return req.Reply(nil)
	}})
	shake(t, conn, "2025-11-25")
	codes := make(map[string]int)
	for len(codes) < 4 {
		s.wait("response")
		_, list := s.taken("response")
		for _, k := range list {
			codes[k.m.ID().String()] = 0
			if e := k.m.RPCError(); e != nil {
				codes[k.m.ID().String()] = e.Code
			}
		}
	}
	if codes[`"big"`] != -32600 || codes[`"over"`] != -32600 || codes[`"huge"`] != -31006 || codes[`"good"`] != 0 {
		t.Errorf("answers: %v", codes)
	}
}

// A request under way may be answered on the background stream.
func TestClientAnswerElsewhere(t *testing.T) {
	answer, stop := make(chan string, 1), make(chan struct{})
	_, c := serveScript(t, func(w http.ResponseWriter, k *took) {
		switch {
		case k.Method == "GET":
			sendEvents(w, ": ok")
			sendEvents(w, oneEvent("", <-answer))
			<-stop
		case !shakes(w, k, "2025-06-18"):
			w.WriteHeader(http.StatusAccepted)
			answer <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, k.m.ID())
		}
	})
	defer close(stop)
	conn := dialScript(t, c, nil)
	shake(t, conn, "2025-06-18")
	if resp, err := conn.Call(t.Context(), read(t, callTool), nil); err != nil || resp.ID().String() != `"\u0041"` {
		t.Errorf("got %v, %v", resp, err)
	}
}

// Calls one after the other use one connection, whatever the answers are.
func TestA17_ClientKeepsConnectionsAlive(t *testing.T) {
	for _, how := range []string{"JSON", "events"} {
		t.Run(how, func(t *testing.T) {
			conns := make(map[string]bool)
			var mu sync.Mutex
			_, c := serveScript(t, func(w http.ResponseWriter, k *took) {
				mu.Lock()
				conns[k.RemoteAddr] = true
				mu.Unlock()
				if how == "JSON" {
					replyTo(w, k, `{}`)
				} else {
					sendEvents(w, oneEvent("", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, k.m.ID())))
				}
			})
			conn := dialScript(t, c, nil)
			for range 50 {
				if _, err := conn.Call(t.Context(), read(t, modernTool), nil); err != nil {
					t.Fatal(err)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			if len(conns) > 4 { // a stream may take a moment to end
				t.Errorf("50 calls used %d connections", len(conns))
			}
		})
	}
}

func TestClientUnixSocket(t *testing.T) {
	peertest.NoLeak(t)
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Skip(err)
	}
	s := &script{t: t, do: func(w http.ResponseWriter, k *took) { replyTo(w, k, `{"path":"`+k.URL.Path+`"}`) }}
	h := &http.Server{Handler: s}
	go func() { _ = h.Serve(l) }()
	defer h.Close()
	for suffix, want := range map[string]string{"": "/mcp", ":/a/b": "/a/b"} {
		conn := dialScript(t, &streamable.Client{URL: "unix://" + path + suffix, NoToolList: true}, nil)
		if resp, err := conn.Call(t.Context(), read(t, modernTool), nil); err != nil || string(resp.Get("path")) != `"`+want+`"` {
			t.Errorf("%q: got %v, %v", suffix, resp, err)
		}
		_ = conn.Close()
	}
	for _, bad := range []string{"", "ftp://x/", "http:///mcp", "unix://relative:/mcp", "http://a b/"} {
		if _, err := (&streamable.Client{URL: bad}).Dial(t.Context(), nil); err == nil {
			t.Errorf("URL %q is accepted", bad)
		}
	}
}

// A server that refuses initialize with 400, 404 or 405 is spoken to as one
// of HTTP+SSE.
func TestB15_ClientFallsBackToHTTPWithSSE(t *testing.T) {
	for status, want := range map[int]bool{400: true, 404: true, 405: true, 401: false, 403: false, 422: false, 500: false} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			s, c := serveScript(t, func(w http.ResponseWriter, _ *took) { w.WriteHeader(status) })
			dials := 0
			c.Fallback = dragoman.DialFunc(func(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error) {
				dials++
				conn, _ := dragoman.Pipe(local, newHeard())
				return conn, nil
			})
			for range 2 {
				conn := dialScript(t, c, nil)
				resp, err := conn.Call(t.Context(), read(t, `{"jsonrpc":"2.0","id":"hi","method":"initialize","params":{}}`), nil)
				if want != (err == nil && string(resp.Get("asked")) == `"initialize"`) {
					t.Errorf("got %v, %v", resp, err)
				}
				_ = conn.Close()
				if conn.Err() == nil {
					t.Error("not over")
				}
			}
			all, _ := s.taken("")
			if want && (dials != 2 || len(all) != 1) || !want && dials != 0 {
				t.Errorf("%d dials of the fallback after %s", dials, strings.Join(all, " "))
			}
		})
	}
}

func TestCallsAreCalledOffBeforeTheSessionEnds(t *testing.T) {
	peertest.NoLeak(t)
	begun, said := make(chan struct{}), make(chan string, 8)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			if r.Method == http.MethodDelete {
				said <- r.Method
			}
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		text, _ := io.ReadAll(r.Body)
		m, err := dragoman.Parse(text)
		if err != nil {
			t.Error(err)
			return
		}
		switch m.Method() {
		case protocol.MethodInitialize:
			w.Header().Set(protocol.HeaderSession, "s")
			w.Header().Set("Content-Type", "application/json")
			resp, _ := m.Reply(map[string]any{"protocolVersion": protocol.LatestLegacy.String(), "capabilities": map[string]any{}, "serverInfo": map[string]string{"name": "x", "version": "1"}})
			_, _ = w.Write(resp.Bytes())
		case protocol.MethodCallTool:
			close(begun)
			<-r.Context().Done()
		default:
			if m.Method() == protocol.NoteCancelled {
				said <- m.Method()
			}
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	defer web.Close()
	conn, err := (&streamable.Client{URL: web.URL}).Dial(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(method string, params any) error {
		req, err := dragoman.NewRequest(dragoman.IntID(1), method, params)
		if err == nil {
			_, err = conn.Call(t.Context(), req, nil)
		}
		return err
	}
	if err := ask(protocol.MethodInitialize, map[string]any{"protocolVersion": protocol.LatestLegacy.String(), "capabilities": map[string]any{}, "clientInfo": map[string]string{"name": "x", "version": "1"}}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- ask(protocol.MethodCallTool, map[string]any{"name": "x"}) }() // ends with the conversation
	<-begun
	_ = conn.Close()
	if err := <-ended; !errors.Is(err, dragoman.ErrClosed) {
		t.Errorf("the call ends with %v", err)
	}
	for _, want := range []string{protocol.NoteCancelled, http.MethodDelete} {
		if got := <-said; got != want {
			t.Fatalf("the server was told %s, want %s", got, want)
		}
	}
}
