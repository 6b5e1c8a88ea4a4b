package check_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/internal/testkit/badserver"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// answer is what a server without a defect answers that speaks legacy revisions alone.
func answer(text []byte) []byte {
	var r request
	_ = json.Unmarshal(text, &r) // what is no JSON is none
	if r.Method == protocol.MethodDiscover {
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"there is no such method"}}`, r.ID)
	}
	return badserver.Answer(text)
}

// foreign reports whether a request is one of a foreign page, or for a foreign host.
func foreign(r *http.Request) (page, host bool) {
	return r.Header.Get("Origin") != "", !strings.HasPrefix(r.Host, "127.0.0.1")
}

// An oldServer speaks HTTP+SSE, with one defect: the rule that it breaks.
type oldServer struct {
	defect string

	mu      sync.Mutex
	streams map[string]chan []byte // by session
	count   int
}

func (s *oldServer) has(rule string) bool { return s.defect == rule }

func (s *oldServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	page, host := foreign(r)
	switch {
	case host && !s.has("sse-host"):
		w.WriteHeader(http.StatusMisdirectedRequest)
	case r.Method == http.MethodGet && r.URL.Path == "/sse":
		if page && !s.has("sse-origin") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		s.stream(w, r)
	case r.Method == http.MethodPost && r.URL.Path == "/messages":
		if page && !s.has("sse-post-origin") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		s.message(w, r)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

func (s *oldServer) stream(w http.ResponseWriter, r *http.Request) {
	out := make(chan []byte, 100)
	s.mu.Lock()
	s.count++
	id := fmt.Sprintf("a-long-and-random-word-%d", s.count)
	if s.has("sse-session") {
		id = fmt.Sprint(s.count)
	}
	s.streams[id] = out
	s.mu.Unlock()
	if !s.has("sse-session-end") {
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.streams, id)
		}()
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if !s.has("sse-buffering") {
		w.Header().Set("Cache-Control", "no-cache")
	}
	event := func(name string, data []byte) {
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, data)
		_ = http.NewResponseController(w).Flush() // or the client has left
	}
	event("endpoint", []byte("/messages?session="+id))
	for {
		select {
		case text := <-out:
			if s.has("sse-event") && strings.Contains(string(text), "-32601") {
				event("answer", text)
			}
			event("message", text)
		case <-r.Context().Done():
			return
		}
	}
}

func (s *oldServer) message(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Content-Type") != "application/json" && !s.has("sse-content-type") {
		w.WriteHeader(http.StatusUnsupportedMediaType)
		return
	}
	s.mu.Lock()
	out := s.streams[r.URL.Query().Get("session")]
	s.mu.Unlock()
	if out == nil && !s.has("sse-session-unknown") {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	body, _ := io.ReadAll(r.Body) // what is cut is no JSON
	if s.has("sse-accepted") {
		w.WriteHeader(http.StatusOK)
	} else {
		w.WriteHeader(http.StatusAccepted)
	}
	reply := answer(body)
	if s.has("sse-legacy") {
		reply = badserver.Answer(body)
	}
	if out != nil && len(reply) > 0 {
		out <- reply
	}
}

func TestEachDefectOfHTTPAndSSEBreaksItsRule(t *testing.T) {
	for _, rule := range []string{
		"", "sse-origin", "sse-post-origin", "sse-host", "sse-accepted", "sse-content-type", "sse-session", "sse-session-unknown",
		"sse-session-end", "sse-event", "sse-buffering", "sse-legacy",
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			web := httptest.NewServer(&oldServer{defect: rule, streams: map[string]chan []byte{}})
			defer web.Close()
			defer web.CloseClientConnections()
			var want []string
			switch rule {
			case "":
			case "sse-session-unknown": // a stream that has ended is one of these
				want = []string{"sse-session-end", rule}
			case "sse-legacy": // the server says nothing of itself there, which is worth a note
				want = []string{"modern-server-info", rule}
			default:
				want = []string{rule}
			}
			if r := expect(t, options(&target.Spec{URL: web.URL + "/sse"}), want...); r.How != "HTTP+SSE" {
				t.Errorf("it was reached by %s", r.How)
			}
		})
	}
}

// socketServer speaks WebSocket, with one defect.
func socketServer(defect string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, host := foreign(r)
		if page && defect != "ws-origin" || host && defect != "ws-host" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		o := &websocket.AcceptOptions{InsecureSkipVerify: true}
		if defect != "ws-subprotocol" {
			o.Subprotocols = []string{"mcp"}
		}
		if defect == "ws-ping" {
			o.OnPingReceived = func(context.Context, []byte) bool { return false }
		}
		conn, err := websocket.Accept(w, r, o)
		if err != nil {
			return
		}
		defer conn.CloseNow()
		for {
			_, text, err := conn.Read(r.Context())
			if err != nil {
				return
			}
			kind := websocket.MessageText
			if defect == "ws-text" {
				kind = websocket.MessageBinary
			}
			if reply := answer(text); len(reply) > 0 && conn.Write(r.Context(), kind, reply) != nil {
				return
			}
		}
	})
}

func TestEachDefectOfWebSocketsBreaksItsRule(t *testing.T) {
	for _, rule := range []string{"", "ws-origin", "ws-host", "ws-subprotocol", "ws-ping", "ws-text"} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			web := httptest.NewServer(socketServer(rule))
			defer web.Close()
			var want []string
			if rule != "" {
				want = []string{rule}
			}
			o := options(&target.Spec{URL: "ws" + strings.TrimPrefix(web.URL, "http")})
			if rule == "ws-ping" {
				o = impatient(o)
			}
			expect(t, o, want...)
		})
	}
}

// TestAWebSocketThatIsNotClosedInOrderIsFound is of a server that cuts the connection when it
// should answer a close.
func TestAWebSocketThatIsNotClosedInOrderIsFound(t *testing.T) {
	whole := socketServer("")
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		whole.ServeHTTP(cutter{w}, r)
	}))
	defer web.Close()
	expect(t, options(&target.Spec{URL: "ws" + strings.TrimPrefix(web.URL, "http")}), "ws-close")
}

// A cutter has a WebSocket cut where a close would be written.
type cutter struct{ http.ResponseWriter }

func (c cutter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, streams, err := http.NewResponseController(c.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	out := cutConn{conn}
	return out, bufio.NewReadWriter(streams.Reader, bufio.NewWriter(out)), nil
}

type cutConn struct{ net.Conn }

func (c cutConn) Write(frame []byte) (int, error) {
	if frame[0] == 0x88 { // the whole of a close
		return len(frame), c.Close()
	}
	return c.Conn.Write(frame)
}
