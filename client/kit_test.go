package client_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// patience is how long a test waits for what should come at once.
const patience = 20 * time.Second

// childVar names what this executable is to be, if it is a server.
const childVar = "DRAGOMAN_CLIENT_TEST_SERVER"

func TestMain(m *testing.M) {
	stdio.Guard()
	switch kind := os.Getenv(childVar); kind {
	case "":
		os.Exit(m.Run())
	case "legacy", "modern":
		rev := protocol.V20251125
		if kind == "modern" {
			rev = protocol.Latest
		}
		_ = stdio.Serve(context.Background(), builtin.New(&builtin.Options{Revisions: []protocol.Revision{rev}}), nil)
	default:
		misbehave(kind)
	}
}

// misbehave is a legacy server on lines that does something wrong in its first
// tools/call, whose name says what.
func misbehave(kind string) {
	if kind == "exits" {
		fmt.Fprintln(os.Stderr, strings.Repeat("starting\n", 20)+"cannot open the database\nAuthorization: Bearer abcdefgh12345678")
		os.Exit(7)
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var req struct {
			ID     json.RawMessage
			Method string
			Params struct{ Name string }
		}
		_ = json.Unmarshal(lines.Bytes(), &req)
		if req.ID == nil {
			continue
		}
		result := `{"content":[{"type":"text","text":"here"}]}`
		switch {
		case req.Method == "server/discover":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`+"\n", req.ID)
			continue
		case req.Method == "initialize":
			result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"odd","version":"1"}}`
		case req.Params.Name == "crash":
			fmt.Fprintln(os.Stderr, "first line\nout of memory")
			os.Exit(3)
		case req.Params.Name == "garble":
			fmt.Printf("this is no JSON\n{\"jsonrpc\":\"2.0\",\"id\":\n\n[1,2]\n{\"jsonrpc\":\"2.0\",\"id\":\"nobody's\",\"result\":{}}\n")
		case req.Params.Name == "close":
			_ = os.Stdout.Close()
			_ = os.Stdin.Close()
			return
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", req.ID, result)
	}
}

// child is this executable as a server of that kind.
func child(t *testing.T, kind string) *client.Server {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &client.Server{Name: kind, Command: []string{exe}, Env: []string{childVar + "=" + kind, "GORACE=atexit_sleep_ms=0"}, InheritEnv: []string{"GOCOVERDIR"}}
}

// revisions are one of each era.
var revisions = []protocol.Revision{protocol.V20251125, protocol.V20260728}

// inEachEra runs a test against the built-in server in each era, in this
// process, over HTTP, and as a child.
func inEachEra(t *testing.T, test func(t *testing.T, server *client.Server, era protocol.Era)) {
	for _, rev := range revisions {
		options := &builtin.Options{Revisions: []protocol.Revision{rev}, PageSize: 3, Numbered: 7}
		t.Run(rev.Era().String()+" in memory", func(t *testing.T) {
			peertest.NoLeak(t)
			test(t, &client.Server{Name: "memory", Dialer: dragoman.Local(builtin.New(options))}, rev.Era())
		})
		t.Run(rev.Era().String()+" over HTTP", func(t *testing.T) {
			peertest.NoLeak(t)
			test(t, &client.Server{URL: serve(t, builtin.New(options))}, rev.Era())
		})
		t.Run(rev.Era().String()+" as a process", func(t *testing.T) {
			peertest.NoLeak(t)
			test(t, child(t, rev.Era().String()), rev.Era())
		})
	}
}

// endpoints are those of a server for either era.
type endpoints interface {
	dragoman.Acceptor
	Requests() dragoman.Peer
}

// serve serves a server over Streamable HTTP and returns its URL.
func serve(t *testing.T, server endpoints) string {
	t.Helper()
	h := &streamable.Server{Sessions: server, Requests: server.Requests()}
	web := httptest.NewServer(h)
	t.Cleanup(func() {
		_ = h.Shutdown(context.Background())
		web.Close()
	})
	return web.URL
}

// connect connects for the length of a test.
func connect(t *testing.T, server *client.Server, o *client.Options) *client.Client {
	t.Helper()
	c, err := client.Connect(within(t), server, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// A spy is the built-in server; it tells why calls of its tool wait ended, and
// that they began.
type spy struct {
	*builtin.Server
	began chan struct{}
	ended chan error
}

func newSpy(rev protocol.Revision) *spy {
	return &spy{builtin.New(&builtin.Options{Revisions: []protocol.Revision{rev}}), make(chan struct{}, 100), make(chan error, 100)}
}

func (s *spy) Accept(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
	peer, err := s.Server.Accept(ctx, client)
	return spied{peer, s}, err
}

func (s *spy) Requests() dragoman.Peer { return spied{s.Server.Requests(), s} }

type spied struct {
	dragoman.Peer
	spy *spy
}

func (p spied) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if req.Name() != "wait" {
		return p.Peer.Call(ctx, req, from)
	}
	p.spy.began <- struct{}{}
	resp, err := p.Peer.Call(ctx, req, from)
	p.spy.ended <- context.Cause(ctx)
	return resp, err
}

// overEach runs a test against a spy in each era, over HTTP, over a socket with
// lines and in memory.
func overEach(t *testing.T, test func(t *testing.T, server *client.Server, s *spy)) {
	for _, rev := range revisions {
		t.Run(rev.Era().String()+" in memory", func(t *testing.T) {
			peertest.NoLeak(t)
			s := newSpy(rev)
			test(t, &client.Server{Name: "memory", Dialer: dragoman.Local(s)}, s)
		})
		t.Run(rev.Era().String()+" over HTTP", func(t *testing.T) {
			peertest.NoLeak(t)
			s := newSpy(rev)
			test(t, &client.Server{URL: serve(t, s)}, s)
		})
		t.Run(rev.Era().String()+" over lines", func(t *testing.T) {
			peertest.NoLeak(t)
			s := newSpy(rev)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			server := &stdio.Server{Acceptor: s}
			over := make(chan struct{})
			// Ends with Close.
			go func() {
				defer close(over)
				_ = server.Serve(l)
			}()
			t.Cleanup(func() {
				_ = server.Close()
				<-over
			})
			test(t, &client.Server{URL: "tcp:" + l.Addr().String()}, s)
		})
	}
}

// notifications remembers what the server tells.
type notifications struct {
	mu    sync.Mutex
	notes []*dragoman.Message
	more  chan struct{}
}

func newNotifications() *notifications { return &notifications{more: make(chan struct{}, 1000)} }

func (e *notifications) add(note *dragoman.Message) {
	e.mu.Lock()
	e.notes = append(e.notes, note)
	e.mu.Unlock()
	e.more <- struct{}{}
}

func (e *notifications) count(method string) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, note := range e.notes {
		if note.Method() == method {
			n++
		}
	}
	return n
}

// wait waits until it has been told something n times.
func (e *notifications) wait(t *testing.T, method string, n int) {
	t.Helper()
	late := time.After(patience)
	for e.count(method) < n {
		select {
		case <-e.more:
		case <-late:
			t.Fatalf("%s was told %d times, want %d", method, e.count(method), n)
		}
	}
}

// rewriting is a handler that answers some requests itself.
func rewriting(t *testing.T, next http.Handler, instead func(w http.ResponseWriter, r *http.Request, body string) bool) *httptest.Server {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var b strings.Builder
		if r.Body != nil {
			_, _ = bufio.NewReader(r.Body).WriteTo(&b)
		}
		r.Body = readCloser{strings.NewReader(b.String())}
		if !instead(w, r, b.String()) {
			next.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(web.Close)
	return web
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }
