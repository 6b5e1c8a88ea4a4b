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
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// forgetful is a server that forgets its only session when the test says so.
func forgetful(t *testing.T, do func(w http.ResponseWriter, k *took)) (*script, *streamable.Client, *atomic.Bool) {
	var gone atomic.Bool
	s, c := serveScript(t, func(w http.ResponseWriter, k *took) {
		switch {
		case k.Header.Get("Mcp-Session-Id") != "" && gone.Load():
			noSession(w)
		case !shakes(w, k, "2025-11-25"):
			do(w, k)
		}
	})
	return s, c, &gone
}

func noSession(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNotFound)
	fmt.Fprint(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`)
}

// isGone reports whether err says that the session is gone and the conversation over.
func isGone(err error) bool {
	return errors.Is(err, dragoman.ErrClosed) && errors.Is(err, streamable.ErrSessionGone)
}

func TestB12_ConversationEndsWhenItsSessionIsGone(t *testing.T) {
	for name, find := range map[string]func(conn dragoman.Conn) error{
		"by a request": func(conn dragoman.Conn) error {
			_, err := conn.Call(t.Context(), peertest.Parse(t, callTool), nil)
			if !protocol.NotSent(err) {
				t.Errorf("the error does not say that the request was not carried out: %v", err)
			}
			return err
		},
		"by a notification": func(conn dragoman.Conn) error {
			return conn.Notify(t.Context(), peertest.Parse(t, `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			began, stop := make(chan struct{}), make(chan struct{})
			s, c, gone := forgetful(t, func(http.ResponseWriter, *took) {
				close(began)
				<-stop
			})
			conn := dialScript(t, c, nil)
			shake(t, conn, "2025-11-25")
			other := make(chan error, 1)
			go func() { // ends soon after the conversation
				_, err := conn.Call(t.Context(), peertest.Parse(t, callTool), nil)
				other <- err
			}()
			<-began
			gone.Store(true)
			if err := find(conn); err != nil && !isGone(err) {
				t.Errorf("got %v", err)
			}
			<-conn.Done()
			if !isGone(conn.Err()) || protocol.NotSent(conn.Err()) {
				t.Errorf("the conversation ended with %v", conn.Err())
			}
			if err := <-other; !isGone(err) || protocol.NotSent(err) {
				t.Errorf("the call in flight ended with %v", err)
			}
			close(stop)
			_ = conn.Close()
			for _, name := range []string{"initialize", "DELETE"} {
				if _, list := s.taken(name); len(list) > 1 || name == "DELETE" && len(list) > 0 {
					t.Errorf("%d times %s", len(list), name)
				}
			}
		})
	}
}

// Each of several calls that a server refuses for their session is known not to
// have been carried out, also those that are refused a moment later.
func TestEveryCallThatIsRefusedForItsSessionSaysThatItWasNotSent(t *testing.T) {
	const calls = 8
	var came sync.WaitGroup
	came.Add(calls)
	_, c, _ := forgetful(t, func(w http.ResponseWriter, _ *took) {
		came.Done()
		came.Wait()
		noSession(w)
	})
	conn := dialScript(t, c, nil)
	shake(t, conn, "2025-11-25")
	var all sync.WaitGroup
	for range calls {
		all.Go(func() { // ends with its call
			if _, err := conn.Call(t.Context(), peertest.Parse(t, callTool), nil); !isGone(err) || !protocol.NotSent(err) {
				t.Errorf("got %v", err)
			}
		})
	}
	all.Wait()
}

// A server that says that a conversation is lost may mean its own session, or one
// behind it: a ping tells. The call may have been carried out in both cases.
func TestClientAsksWhichConversationIsLost(t *testing.T) {
	for name, forgets := range map[string]bool{"the session": true, "another behind it": false} {
		t.Run(name, func(t *testing.T) {
			var gone atomic.Bool
			s, c := serveScript(t, func(w http.ResponseWriter, k *took) {
				switch {
				case gone.Load():
					noSession(w)
				case shakes(w, k, "2025-11-25"):
				case k.what() == "ping":
					replyTo(w, k, `{}`)
				default:
					gone.Store(forgets)
					w.Header().Set("Content-Type", "application/json")
					fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"lost"}}`, k.m.ID(), protocol.CodeLost)
				}
			})
			conn := dialScript(t, c, nil)
			shake(t, conn, "2025-11-25")
			resp, err := conn.Call(t.Context(), peertest.Parse(t, callTool), nil)
			if _, list := s.taken("ping"); len(list) != 1 {
				t.Errorf("%d pings", len(list))
			}
			switch {
			case forgets && (!isGone(err) || protocol.NotSent(err)):
				t.Errorf("got %v, %v", resp, err)
			case !forgets && (err != nil || resp.RPCError().Code != protocol.CodeLost || conn.Err() != nil):
				t.Errorf("got %v, %v; the conversation ended with %v", resp, err, conn.Err())
			}
		})
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
		_, err := conn.Call(t.Context(), peertest.Parse(t, callTool), from)
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
// stream continues.
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

// A notification that is too large is left out; the call on whose stream it comes, and
// the background stream, continue.
func TestD14_ClientSkipsNotificationsThatAreTooLarge(t *testing.T) {
	large := `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"` + strings.Repeat("x", 5000) + `"}}`
	const changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	stop := make(chan struct{})
	s, c := serveScript(t, func(w http.ResponseWriter, k *took) {
		switch {
		case k.Method == "GET":
			sendEvents(w, oneEvent("1", large), oneEvent("2", changed))
			<-stop
		case !shakes(w, k, "2025-11-25"):
			sendEvents(w, oneEvent("", large), oneEvent("", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, k.m.ID())))
		}
	})
	defer close(stop)
	c.MaxMessage = 2000
	told := newHeard()
	conn := dialScript(t, c, told)
	shake(t, conn, "2025-11-25")
	if resp, err := conn.Call(t.Context(), peertest.Parse(t, callTool), nil); err != nil || resp.IsError() {
		t.Fatalf("the call ends with %v, %v", resp, err)
	}
	if note := <-told.ch; note.String() != changed {
		t.Errorf("told %s", note)
	}
	if _, list := s.taken("GET"); len(list) != 1 {
		t.Errorf("the background stream was opened %d times", len(list))
	}
}

// A request in flight may be answered on the background stream.
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
	if resp, err := conn.Call(t.Context(), peertest.Parse(t, callTool), nil); err != nil || resp.ID().String() != `"\u0041"` {
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
				if _, err := conn.Call(t.Context(), peertest.Parse(t, modernTool), nil); err != nil {
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
		if resp, err := conn.Call(t.Context(), peertest.Parse(t, modernTool), nil); err != nil || string(resp.Get("path")) != `"`+want+`"` {
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
				resp, err := conn.Call(t.Context(), peertest.Parse(t, `{"jsonrpc":"2.0","id":"hi","method":"initialize","params":{}}`), nil)
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

// Two calls that find out at once that the server speaks HTTP+SSE share one conversation
// over that, and Close leaves none open.
func TestConversationFallsBackOnce(t *testing.T) {
	_, c := serveScript(t, func(w http.ResponseWriter, _ *took) { w.WriteHeader(http.StatusNotFound) })
	var both sync.WaitGroup
	both.Add(2)
	opened := make(chan dragoman.Conn, 2)
	c.Fallback = dragoman.DialFunc(func(_ context.Context, local dragoman.Peer) (dragoman.Conn, error) {
		both.Done()
		both.Wait()
		conn, _ := dragoman.Pipe(local, newHeard())
		opened <- conn
		return conn, nil
	})
	conn := dialScript(t, c, nil)
	var calls sync.WaitGroup
	for range 2 {
		calls.Go(func() { // ends with its answer
			resp, err := conn.Call(t.Context(), peertest.Parse(t, `{"jsonrpc":"2.0","id":"hi","method":"initialize","params":{}}`), nil)
			if err != nil || string(resp.Get("asked")) != `"initialize"` {
				t.Errorf("got %v, %v", resp, err)
			}
		})
	}
	calls.Wait()
	if conn.Err() != nil {
		t.Errorf("the conversation is over: %v", conn.Err())
	}
	_ = conn.Close()
	for range 2 {
		if other := <-opened; other.Err() == nil {
			t.Error("a conversation over HTTP+SSE is left open")
		}
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
