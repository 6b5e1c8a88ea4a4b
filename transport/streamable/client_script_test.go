package streamable_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/memnet"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// A took is one HTTP request that a script has taken.
type took struct {
	*http.Request
	text string
	m    *dragoman.Message // of a POST
}

// what names the request: the method of its message, or of HTTP.
func (k *took) what() string {
	switch {
	case k.m == nil:
		return k.Method
	case k.m.Kind() == dragoman.Response:
		return "response"
	}
	return k.m.Method()
}

// A script is a server that does what a test says.
type script struct {
	t  *testing.T
	do func(w http.ResponseWriter, k *took)

	mu  sync.Mutex
	all []*took
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	k := &took{Request: r, text: string(body)}
	if r.Method == http.MethodPost {
		if k.m, err = dragoman.Parse(body); err != nil {
			s.t.Errorf("the client sends %q: %v", body, err)
			return
		}
	}
	s.mu.Lock()
	s.all = append(s.all, k)
	s.mu.Unlock()
	s.do(w, k)
}

// taken returns the names of all requests so far, and those of that name.
func (s *script) taken(name string) (all []string, list []*took) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.all {
		all = append(all, k.what())
		if k.what() == name {
			list = append(list, k)
		}
	}
	return all, list
}

// wait waits until a request of that name has come.
func (s *script) wait(name string) {
	for {
		if _, list := s.taken(name); len(list) > 0 {
			return
		}
		select {
		case <-s.t.Context().Done():
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// serveScript runs a script over TCP and returns a client for it.
func serveScript(t *testing.T, do func(w http.ResponseWriter, k *took)) (*script, *streamable.Client) {
	peertest.NoLeak(t)
	s := &script{t: t, do: do}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return s, &streamable.Client{URL: h.URL + "/mcp", NoToolList: true}
}

// serveInMemory is serveScript for tests inside a bubble of synctest.
func serveInMemory(t *testing.T, do func(w http.ResponseWriter, k *took)) (*script, *streamable.Client) {
	s := &script{t: t, do: do}
	l := memnet.Listen()
	h := &http.Server{Handler: s}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = h.Serve(l)
	}()
	tr := &http.Transport{DialContext: l.DialContext, MaxIdleConnsPerHost: 16}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		_ = h.Close()
		<-done
	})
	return s, &streamable.Client{URL: "http://server.test/mcp", HTTP: &http.Client{Transport: tr}, NoToolList: true}
}

func dialScript(t *testing.T, c *streamable.Client, local dragoman.Peer) dragoman.Conn {
	t.Helper()
	conn, err := c.Dial(t.Context(), local)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// shake makes the handshake of a revision.
func shake(t *testing.T, conn dragoman.Conn, revision string) {
	t.Helper()
	resp, err := conn.Call(t.Context(), peertest.Parse(t, `{"jsonrpc":"2.0","id":"hi","method":"initialize","params":{"protocolVersion":"`+revision+
		`","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`), nil)
	if err != nil || resp.IsError() {
		t.Fatalf("initialize: %v, %v", resp, err)
	}
	if err := conn.Notify(t.Context(), peertest.Parse(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)); err != nil {
		t.Fatalf("initialized: %v", err)
	}
}

const callTool = `{"jsonrpc":"2.0","id":"\u0041","method":"tools/call","params":{"name":"echo","_meta":{"progressToken":"tok"}}}`

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

const modernTool = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"region":"eu","n":1},` + modernMeta + `}}`

func replyTo(w http.ResponseWriter, k *took, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, k.m.ID(), result)
}

// shakes answers the handshake of a revision with a session, 202 to what has no
// answer, and 405 to GET. It returns false for what it leaves to others.
func shakes(w http.ResponseWriter, k *took, revision string) bool {
	switch k.what() {
	case "initialize":
		w.Header().Set("Mcp-Session-Id", "s1")
		replyTo(w, k, `{"protocolVersion":"`+revision+`","capabilities":{},"serverInfo":{"name":"s","version":"1"}}`)
	case "notifications/initialized", "notifications/cancelled", "response":
		w.WriteHeader(http.StatusAccepted)
	case "DELETE":
		w.WriteHeader(http.StatusNoContent)
	case "GET":
		w.WriteHeader(http.StatusMethodNotAllowed)
	default:
		return false
	}
	return true
}

// sendEvents writes events and flushes them.
func sendEvents(w http.ResponseWriter, list ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range list {
		_, _ = io.WriteString(w, e+"\n\n")
	}
	_ = http.NewResponseController(w).Flush()
}

func oneEvent(id, data string) string {
	var b strings.Builder
	if id != "" {
		b.WriteString("id: " + id + "\n")
	}
	return b.String() + "data: " + data
}

// heard is a peer that notes what it is told.
type heard struct {
	mu   sync.Mutex
	list []string
	ch   chan *dragoman.Message
}

func newHeard() *heard { return &heard{ch: make(chan *dragoman.Message, 64)} }

func (h *heard) Notify(_ context.Context, m *dragoman.Message) error {
	h.mu.Lock()
	h.list = append(h.list, m.String())
	h.mu.Unlock()
	h.ch <- m
	return nil
}

func (h *heard) Call(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	h.mu.Lock()
	h.list = append(h.list, req.String())
	h.mu.Unlock()
	return req.Reply(map[string]string{"asked": req.Method()})
}

func (h *heard) all() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var b bytes.Buffer
	for _, s := range h.list {
		b.WriteString(s + "\n")
	}
	return b.String()
}
