package era_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// An upstream is a server that remembers how it was used, and can be cut off.
type upstream struct {
	acceptor dragoman.Acceptor
	confuses bool        // its conversations do not tell which call a question belongs to
	reads    func() bool // whether it has read what it was sent; nil if its connections do not know

	mu    sync.Mutex
	conns []*cuttable
	asked []string // methods of requests and notifications, in order
}

// serving is an upstream that is the built-in server in some revisions.
func serving(revisions ...protocol.Revision) *upstream {
	return &upstream{acceptor: builtin.New(&builtin.Options{Revisions: revisions})}
}

// Dial implements dragoman.Dialer.
func (u *upstream) Dial(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error) {
	conn, err := dragoman.Local(u.acceptor).Dial(ctx, local)
	if err != nil {
		return nil, err
	}
	c := &cuttable{Conn: conn, upstream: u, cut: make(chan struct{})}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.conns = append(u.conns, c)
	return c, nil
}

func (u *upstream) dials() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.conns)
}

// open returns how many conversations are not over.
func (u *upstream) open() (n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range u.conns {
		if c.Err() == nil {
			n++
		}
	}
	return n
}

// fail cuts all conversations off, as a crash does.
func (u *upstream) fail() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range u.conns {
		c.once.Do(func() { close(c.cut) })
		_ = c.Conn.Close()
	}
}

// forget has all conversations refuse what they are sent next, and end, as a server
// does that has forgotten its sessions.
func (u *upstream) forget() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range u.conns {
		c.forgotten.Store(true)
	}
}

// errForgotten is the error of a request that such a server has refused.
type errForgotten struct{}

func (errForgotten) Error() string   { return "the session is not known" }
func (errForgotten) Outcome() string { return protocol.OutcomeNotSent }
func (errForgotten) Unwrap() error   { return dragoman.ErrClosed }

func (u *upstream) saw(method string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := 0
	for _, m := range u.asked {
		if m == method {
			n++
		}
	}
	return n
}

type cuttable struct {
	dragoman.Conn
	upstream *upstream
	cut      chan struct{}
	once     sync.Once

	forgotten atomic.Bool
}

func (c *cuttable) Correlates() bool { return !c.upstream.confuses }

// Unread is as a connection with a process has it.
func (c *cuttable) Unread() (n int, known bool) {
	switch {
	case c.upstream.reads == nil:
		return 0, false
	case c.upstream.reads():
		return 0, true
	}
	return 1, true
}

func (c *cuttable) note(m *dragoman.Message) {
	c.upstream.mu.Lock()
	defer c.upstream.mu.Unlock()
	c.upstream.asked = append(c.upstream.asked, m.Method())
}

func (c *cuttable) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if c.forgotten.Load() {
		_ = c.Close()
		return nil, errForgotten{}
	}
	c.note(req)
	return c.Conn.Call(ctx, req, from)
}

func (c *cuttable) Notify(ctx context.Context, note *dragoman.Message) error {
	c.note(note)
	return c.Conn.Notify(ctx, note)
}

// A client is one of the legacy era, or of the modern one if its revision is.
type client struct {
	t        *testing.T
	revision protocol.Revision
	peer     dragoman.Peer // that answers it
	conn     dragoman.Conn // its own side, as the server sees it
	last     int64

	mu    sync.Mutex
	heard []*dragoman.Message
}

// join opens the conversation of a client, which makes the handshake if its
// revision has one.
func join(t *testing.T, a dragoman.Acceptor, r protocol.Revision) *client {
	t.Helper()
	c := &client{t: t, revision: r}
	_, c.conn = dragoman.Pipe(c, nil)
	t.Cleanup(func() { _ = c.conn.Close() })
	peer, err := a.Accept(t.Context(), c.conn)
	if err != nil {
		t.Fatal(err)
	}
	c.peer = peer
	if r.HasSessions() {
		resp := c.must(protocol.MethodInitialize, fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"c","version":"1"}}`, r))
		if got := string(resp.Get("protocolVersion")); got != fmt.Sprintf("%q", r) {
			t.Fatalf("initialize with %s: got %s", r, got)
		}
		note, err := dragoman.NewNotification(protocol.NoteInitialized, nil)
		if err == nil {
			err = peer.Notify(t.Context(), note)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// Call implements dragoman.Peer.
func (c *client) Call(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	return req.Reply(map[string]any{"roots": []any{}})
}

// Notify implements dragoman.Peer.
func (c *client) Notify(_ context.Context, note *dragoman.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = append(c.heard, note)
	return nil
}

func (c *client) hears(method string) bool { return c.count(method) > 0 }

// count returns how many notifications of a method the client has got.
func (c *client) count(method string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.heard {
		if m.Method() == method {
			n++
		}
	}
	return n
}

// request asks. params is JSON text.
func (c *client) request(ctx context.Context, method, params string) (*dragoman.Message, error) {
	c.t.Helper()
	c.last++
	req, err := dragoman.NewRequest(dragoman.IntID(c.last), method, json.RawMessage(params))
	if err == nil && c.revision.Era() == protocol.Modern {
		req, err = protocol.Envelope{Version: c.revision.String(), Client: json.RawMessage(`{"name":"c","version":"1"}`)}.Put(req)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return c.peer.Call(ctx, req, c)
}

func (c *client) must(method, params string) *dragoman.Message {
	c.t.Helper()
	resp, err := c.request(c.t.Context(), method, params)
	if err == nil && resp.IsError() {
		err = resp.RPCError()
	}
	if err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
	return resp
}

func (c *client) echo() {
	c.t.Helper()
	resp := c.must(protocol.MethodCallTool, `{"name":"echo","arguments":{"text":"x"}}`)
	if resp.Get("content") == nil {
		c.t.Fatalf("echo: got %s", resp.Bytes())
	}
}

// eventually waits for what must come soon.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for limit := time.Now().Add(10 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("timed out waiting for: %s", what)
		}
	}
}

// codeOf returns the code of a JSON-RPC error that an answer or an error is.
func codeOf(resp *dragoman.Message, err error) int {
	if err == nil && resp.IsError() {
		return resp.RPCError().Code
	}
	if e, ok := errors.AsType[*dragoman.Error](err); ok {
		return e.Code
	}
	return 0
}
