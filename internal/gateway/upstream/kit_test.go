package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

func TestMain(m *testing.M) {
	stdio.Guard()
	fault.Main()
	os.Exit(m.Run())
}

// A fake is a server in memory that remembers how it was used, and can be away.
type fake struct {
	acceptor dragoman.Acceptor

	mu    sync.Mutex
	away  error       // why it cannot be dialled
	hole  bool        // dialing waits forever
	mute  bool        // it does not answer
	dials []time.Time // also those that failed
	conns []*fakeConn
	asked []string // methods, in order
}

func serving(revisions ...protocol.Revision) *fake {
	return &fake{acceptor: builtin.New(&builtin.Options{Revisions: revisions})}
}

func legacyServer() *fake { return serving(protocol.LatestLegacy) }
func modernServer() *fake { return serving(protocol.Latest) }

// Dial implements dragoman.Dialer.
func (f *fake) Dial(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error) {
	f.mu.Lock()
	f.dials = append(f.dials, time.Now())
	away, hole := f.away, f.hole
	f.mu.Unlock()
	if hole {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	if away != nil {
		return nil, away
	}
	conn, err := dragoman.Local(f.acceptor).Dial(ctx, local)
	if err != nil {
		return nil, err
	}
	c := &fakeConn{Conn: conn, fake: f}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns = append(f.conns, c)
	return c, nil
}

// set makes the server go away, with a reason, or come back.
func (f *fake) set(away error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = away
}

func (f *fake) setMute(mute bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mute = mute
}

// crash cuts all conversations off.
func (f *fake) crash() {
	f.mu.Lock()
	conns := slices.Clone(f.conns)
	f.mu.Unlock()
	for _, c := range conns {
		_ = c.Conn.Close()
	}
}

func (f *fake) dialled() []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.dials)
}

// open returns how many conversations are not over.
func (f *fake) open() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		if c.Err() == nil {
			n++
		}
	}
	return n
}

// endsAt has the server end when it is asked for a method, or for anything if that
// is "".
func (f *fake) endsAt(method string) *fake {
	inner := f.acceptor
	f.acceptor = dragoman.AcceptFunc(func(ctx context.Context, c dragoman.Conn) (dragoman.Peer, error) {
		peer, err := inner.Accept(ctx, c)
		return dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			if method == "" || req.Method() == method {
				_ = c.Close()
				return nil, dragoman.ErrClosed
			}
			return peer.Call(ctx, req, from)
		}, OnNotify: peer.Notify}, err
	})
	return f
}

// saw returns how many requests of a method have come.
func (f *fake) saw(method string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.asked {
		if m == method {
			n++
		}
	}
	return n
}

type fakeConn struct {
	dragoman.Conn
	fake *fake
}

func (c *fakeConn) Correlates() bool { return true }

func (c *fakeConn) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	c.fake.mu.Lock()
	c.fake.asked = append(c.fake.asked, req.Method())
	mute := c.fake.mute
	c.fake.mu.Unlock()
	if mute {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-c.Done():
			return nil, dragoman.ErrClosed
		}
	}
	return c.Conn.Call(ctx, req, from)
}

// manage returns a manager of servers in memory. Those that are not there are
// processes and URLs as usual.
func manage(t *testing.T, opts *Options, fakes map[string]*fake) *Manager {
	t.Helper()
	m := New(opts)
	m.target = func(s *target.Spec) (*target.Target, error) {
		if f := fakes[s.Name]; f != nil {
			return &target.Target{Name: s.Name, How: "memory", Dialer: f}, nil
		}
		return target.New(s)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		_ = m.Shutdown(ctx)
	})
	return m
}

// one manages one server in memory, named "s".
func one(t *testing.T, f *fake, c *config.Server) *Upstream {
	t.Helper()
	if c == nil {
		c = new(config.Server)
	}
	c.Name = "s"
	if c.URL == "" && c.Command == "" {
		c.Command = "memory"
	}
	m := manage(t, nil, map[string]*fake{"s": f})
	m.Apply([]*config.Server{c})
	return m.Upstream("s")
}

// awaits waits for a state.
func awaits(t *testing.T, u *Upstream, want State) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s is %s", u.Name(), want), func() bool { return u.State() == want })
}

// eventually waits for what must come soon.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for limit := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("timed out waiting for: %s", what)
		}
	}
}

var lastID struct {
	sync.Mutex
	n int64
}

// ask sends a modern request. params is JSON text.
func ask(ctx context.Context, p dragoman.Peer, method, params string) (*dragoman.Message, error) {
	lastID.Lock()
	lastID.n++
	id := lastID.n
	lastID.Unlock()
	req, err := dragoman.NewRequest(dragoman.IntID(id), method, json.RawMessage(params))
	if err == nil {
		req, err = protocol.Envelope{Version: protocol.Latest.String()}.Put(req)
	}
	if err != nil {
		return nil, err
	}
	return p.Call(ctx, req, nil)
}

// call calls a tool and returns the answer.
func call(ctx context.Context, p dragoman.Peer, tool, args string) (*dragoman.Message, error) {
	return ask(ctx, p, protocol.MethodCallTool, fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, args))
}

// echo fails the test if the server does not answer.
func echo(t *testing.T, p dragoman.Peer) {
	t.Helper()
	resp, err := call(t.Context(), p, "echo", `{"text":"x"}`)
	if err == nil && resp.IsError() {
		err = resp.RPCError()
	}
	if err != nil {
		t.Fatalf("echo: %v", err)
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

// refused fails the test unless the answer has the code, and says that nothing was
// sent.
func refused(t *testing.T, code int, resp *dragoman.Message, err error) refusal {
	t.Helper()
	if err != nil {
		t.Fatalf("got the error %v, want %d", err, code)
	}
	var r refusal
	if e := resp.RPCError(); e == nil || e.Code != code || json.Unmarshal(e.Data, &r) != nil || r.Outcome != protocol.OutcomeNotSent || r.Source != "gateway" {
		t.Fatalf("got %s, want %d, not sent", resp.Bytes(), code)
	}
	return r
}

// A legacyClient is a client of the legacy era.
type legacyClient struct {
	t    *testing.T
	conn dragoman.Conn
	peer dragoman.Peer
	last int64

	mu       sync.Mutex
	received []string
}

// join opens the session of a legacy client.
func join(t *testing.T, u *Upstream, caller string) *legacyClient {
	t.Helper()
	c := &legacyClient{t: t}
	_, c.conn = dragoman.Pipe(c, nil)
	t.Cleanup(func() { _ = c.conn.Close() })
	peer, err := u.Service().Accept(dragoman.WithCaller(t.Context(), &dragoman.Caller{Address: caller}), c.conn)
	if err != nil {
		t.Fatal(err)
	}
	c.peer = peer
	resp, err := c.ask(protocol.MethodInitialize, fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"c","version":"1"}}`, protocol.LatestLegacy))
	if err != nil || resp.IsError() {
		t.Fatalf("initialize: %v %v", resp, err)
	}
	note, err := dragoman.NewNotification(protocol.NoteInitialized, nil)
	if err == nil {
		err = peer.Notify(t.Context(), note)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Call implements dragoman.Peer.
func (c *legacyClient) Call(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	return req.Reply(map[string]any{"roots": []any{}})
}

// Notify implements dragoman.Peer.
func (c *legacyClient) Notify(_ context.Context, note *dragoman.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.received = append(c.received, note.Method())
	return nil
}

func (c *legacyClient) ask(method, params string) (*dragoman.Message, error) {
	c.mu.Lock()
	c.last++
	id := c.last
	c.mu.Unlock()
	req, err := dragoman.NewRequest(dragoman.IntID(id), method, json.RawMessage(params))
	if err != nil {
		return nil, err
	}
	return c.peer.Call(c.t.Context(), req, c)
}

// call calls a tool.
func (c *legacyClient) call(tool, args string) (*dragoman.Message, error) {
	return c.ask(protocol.MethodCallTool, fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, args))
}

// child is a fault server as a process of its own.
func child(t *testing.T, mode string, j fault.Journal, more ...string) *config.Server {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &config.Server{Name: "s", Command: self, Env: fault.Env(mode, j, more...)}
}

func journal(t *testing.T) fault.Journal {
	return fault.Journal(filepath.Join(t.TempDir(), "journal"))
}

// protocolError returns the error that a client would be given.
func protocolError(resp *dragoman.Message, err error) *dragoman.Error {
	if err != nil {
		req, _ := dragoman.NewRequest(dragoman.IntID(1), "x", nil)
		resp = protocol.Failure(req, err)
	}
	return resp.RPCError()
}

// outcome returns the code of the error that a client would be given, or zero.
func outcome(resp *dragoman.Message, err error) int {
	if e := protocolError(resp, err); e != nil {
		return e.Code
	}
	return 0
}
