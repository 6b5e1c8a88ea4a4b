package stdio

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/testkit/memnet"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A holding is a server whose tool calls end when they are let, or cancelled unless
// it ignores that. All else is answered at once.
type holding struct {
	began   chan struct{} // one for each tool call
	let     chan struct{}
	ignores bool
	asks    bool // a call asks its client for its roots when it is let
}

func newHolding() *holding { return &holding{began: make(chan struct{}, 10), let: make(chan struct{})} }

func (h *holding) Accept(context.Context, dragoman.Conn) (dragoman.Peer, error) {
	return dragoman.Funcs{OnCall: h.call}, nil
}

func (h *holding) call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if req.Method() != protocol.MethodCallTool {
		return req.Reply(struct{}{})
	}
	h.began <- struct{}{}
	if h.ignores {
		ctx = context.WithoutCancel(ctx)
	}
	select {
	case <-h.let:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if h.asks {
		question, err := dragoman.NewRequest(dragoman.IntID(1), protocol.MethodListRoots, nil)
		if err != nil {
			return nil, err
		}
		answer, err := from.Call(ctx, question, nil)
		if err != nil {
			return nil, err
		}
		return req.Reply(map[string]string{"roots": string(answer.Get("roots"))})
	}
	return req.Reply(map[string]bool{"let": true})
}

// A way is how a client comes to a Server.
type way struct {
	name string
	open func(t *testing.T, s *Server) func(Framing) io.ReadWriteCloser
}

// twoWays are sockets and other streams. What serves them ends with the Server.
var twoWays = []way{
	{"socket", func(t *testing.T, s *Server) func(Framing) io.ReadWriteCloser {
		l := memnet.Listen()
		closes(t, s, func() error { return s.Serve(l) })
		return func(Framing) io.ReadWriteCloser {
			nc, err := l.DialContext(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			return nc
		}
	}},
	{"streams", func(t *testing.T, s *Server) func(Framing) io.ReadWriteCloser {
		return func(Framing) io.ReadWriteCloser {
			in, to := io.Pipe()
			from, out := io.Pipe()
			closes(t, s, func() error { return s.ServeIO(in, out) })
			return &pipes{from, to}
		}
	}},
	{"a standard input that cannot be interrupted", func(t *testing.T, s *Server) func(Framing) io.ReadWriteCloser {
		return func(Framing) io.ReadWriteCloser {
			in, to := io.Pipe()
			from, out := io.Pipe()
			closes(t, s, func() error { return s.ServeIO(struct{ io.Reader }{in}, out) })
			return &pipes{from, to}
		}
	}},
}

// closes serves until the end of the test, when s must have been closed.
func closes(t *testing.T, s *Server, serve func() error) {
	t.Helper()
	served := make(chan error, 1)
	go func() { served <- serve() }() // ends with s
	t.Cleanup(func() {
		_ = s.Close()
		if err := peertest.Receive(t, served, "it is served no more"); !errors.Is(err, ErrServerClosed) {
			t.Errorf("it is served until %v", err)
		}
	})
}

// pipes are both ends of a client.
type pipes struct {
	*io.PipeReader
	to *io.PipeWriter
}

func (p *pipes) Write(b []byte) (int, error) { return p.to.Write(b) }

func (p *pipes) Close() error {
	_ = p.to.Close()
	return p.PipeReader.Close()
}

// client opens the conversation of a client over rw.
func client(t *testing.T, rw io.ReadWriteCloser, framing Framing, local dragoman.Peer) *jsonrpc.Conn {
	t.Helper()
	conn := jsonrpc.New(newStream(rw, rw, framing, dragoman.Limits{}, nil, rw.Close), nil)
	conn.Start(local)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

type ending struct {
	resp *dragoman.Message
	err  error
}

// begin makes a request and returns where its answer will come.
func begin(t *testing.T, p dragoman.Peer, id int64, method string, from dragoman.Peer) <-chan ending {
	t.Helper()
	m, done := req(t, id, method, map[string]any{"name": "slow"}), make(chan ending, 1)
	go func() { // ends with the conversation
		resp, err := p.Call(context.WithoutCancel(t.Context()), m, from)
		done <- ending{resp, err}
	}()
	return done
}

func shutdown(ctx context.Context, s *Server) <-chan error {
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(ctx) }() // ends with the conversations
	return stopped
}

// refused returns when requests are refused because the server stops.
func refused(t *testing.T, p dragoman.Peer) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		resp, err := p.Call(t.Context(), req(t, 9, protocol.MethodPing, nil), nil)
		if err != nil {
			t.Fatalf("a new request gets %v", err)
		}
		if resp.IsError() {
			if code := resp.RPCError().Code; code != protocol.CodeDraining {
				t.Fatalf("a new request gets %s", resp)
			}
			return
		}
	}
	t.Fatal("new requests are taken")
}

func TestS47_ShutdownAnswersWhatIsUnderWayAndRefusesWhatIsNew(t *testing.T) {
	for _, way := range twoWays {
		for _, framing := range []Framing{Lines, ContentLength} {
			t.Run(way.name+", "+framing.String(), func(t *testing.T) {
				peertest.NoLeak(t)
				h := newHolding()
				s := &Server{Acceptor: h}
				open := way.open(t, s)
				busy, idle := client(t, open(framing), framing, nil), client(t, open(framing), framing, nil)
				ask(t, idle, 1, protocol.MethodPing, nil)
				call := begin(t, busy, 1, protocol.MethodCallTool, nil)
				peertest.Receive(t, h.began, "the call")
				stopped := shutdown(t.Context(), s)
				peertest.Receive(t, idle.Done(), "the end of a conversation on which nothing happens")
				refused(t, busy)
				select {
				case err := <-stopped:
					t.Fatalf("Shutdown returned %v while a call was in flight", err)
				default:
				}
				close(h.let)
				if e := peertest.Receive(t, call, "the answer"); e.err != nil || e.resp.Get("let") == nil {
					t.Errorf("the call comes to %v, %v", e.resp, e.err)
				}
				peertest.Receive(t, busy.Done(), "the end of the conversation")
				if err := peertest.Receive(t, stopped, "Shutdown returns"); err != nil {
					t.Errorf("Shutdown returned %v", err)
				}
				if err := s.ServeIO(strings.NewReader(""), io.Discard); !errors.Is(err, ErrServerClosed) {
					t.Errorf("a new client: %v, want ErrServerClosed", err)
				}
			})
		}
	}
}

func TestS47_ShutdownThatTakesTooLongCutsTheRest(t *testing.T) {
	for _, way := range twoWays {
		t.Run(way.name, func(t *testing.T) {
			peertest.NoLeak(t)
			h := newHolding()
			s := &Server{Acceptor: h}
			c := client(t, way.open(t, s)(Lines), Lines, nil)
			call := begin(t, c, 1, protocol.MethodCallTool, nil)
			peertest.Receive(t, h.began, "the call")
			enough := errors.New("enough")
			ctx, cancel := context.WithCancelCause(t.Context())
			stopped := shutdown(ctx, s)
			refused(t, c)
			cancel(enough)
			if e := peertest.Receive(t, call, "the answer"); e.err != nil || !e.resp.IsError() || e.resp.RPCError().Code != protocol.CodeLost {
				t.Errorf("the call comes to %v, %v", e.resp, e.err)
			}
			peertest.Receive(t, c.Done(), "the end of the conversation")
			if err := peertest.Receive(t, stopped, "Shutdown returns"); !errors.Is(err, enough) {
				t.Errorf("Shutdown returned %v", err)
			}
		})
	}
}

func TestShutdownDoesNotWaitLongForACallThatIgnoresItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHolding()
		h.ignores = true
		s := &Server{Acceptor: h}
		c := client(t, twoWays[0].open(t, s)(Lines), Lines, nil)
		call := begin(t, c, 1, protocol.MethodCallTool, nil)
		<-h.began
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		from := time.Now()
		if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown returned %v", err)
		}
		if took := time.Since(from) - time.Minute; took <= 0 || took > 3*time.Second {
			t.Errorf("it returned %v after the limit", took)
		}
		if e := <-call; !errors.Is(e.err, dragoman.ErrClosed) {
			t.Errorf("the call comes to %v, %v", e.resp, e.err)
		}
		close(h.let)
	})
}

func TestShutdownEndsListensInGoodOrder(t *testing.T) {
	peertest.NoLeak(t)
	server := builtin.New(nil)
	t.Cleanup(func() { _ = server.Close() })
	s := &Server{Acceptor: server}
	c := client(t, twoWays[0].open(t, s)(Lines), Lines, nil)
	acknowledged := make(chan struct{}, 1)
	from := dragoman.Funcs{OnNotify: func(_ context.Context, note *dragoman.Message) error {
		if note.Method() == protocol.NoteAcknowledged {
			acknowledged <- struct{}{}
		}
		return nil
	}}
	listen, done := req(t, 1, protocol.MethodListen, meta(map[string]any{"notifications": map[string]any{"toolsListChanged": true}})), make(chan ending, 1)
	go func() { // ends with the conversation
		resp, err := c.Call(context.WithoutCancel(t.Context()), listen, from)
		done <- ending{resp, err}
	}()
	peertest.Receive(t, acknowledged, "the acknowledgement")
	if err := s.Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown returned %v", err)
	}
	if e := peertest.Receive(t, done, "the end of the listen"); e.err != nil || e.resp.IsError() {
		t.Errorf("the listen comes to %v, %v", e.resp, e.err)
	}
}

func TestCallUnderWayMayAskItsClientWhileTheServerStops(t *testing.T) {
	peertest.NoLeak(t)
	h := newHolding()
	h.asks = true
	s := &Server{Acceptor: h}
	c := client(t, twoWays[0].open(t, s)(Lines), Lines, nil)
	call := begin(t, c, 1, protocol.MethodCallTool, dragoman.Funcs{
		OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			return req.Reply(map[string]any{"roots": []string{"/"}})
		},
	})
	peertest.Receive(t, h.began, "the call")
	stopped := shutdown(t.Context(), s)
	refused(t, c)
	close(h.let)
	if e := peertest.Receive(t, call, "the answer"); e.err != nil || string(e.resp.Get("roots")) != `"[\"/\"]"` {
		t.Errorf("the call comes to %v, %v", e.resp, e.err)
	}
	if err := peertest.Receive(t, stopped, "Shutdown returns"); err != nil {
		t.Errorf("Shutdown returned %v", err)
	}
}

func TestShutdownEndsAClientThatIsBeingAccepted(t *testing.T) {
	peertest.NoLeak(t)
	accepting := make(chan struct{}, 1)
	s := &Server{Acceptor: dragoman.AcceptFunc(func(ctx context.Context, _ dragoman.Conn) (dragoman.Peer, error) {
		accepting <- struct{}{}
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})}
	c := client(t, twoWays[0].open(t, s)(Lines), Lines, nil)
	peertest.Receive(t, accepting, "Accept")
	if err := peertest.Receive(t, shutdown(t.Context(), s), "Shutdown returns"); err != nil {
		t.Errorf("Shutdown returned %v", err)
	}
	peertest.Receive(t, c.Done(), "the end of the conversation")
}

func TestShutdownDoesNotWaitForAnAcceptorThatIgnoresItsContext(t *testing.T) {
	for _, way := range twoWays {
		t.Run(way.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				accepting, let := make(chan struct{}), make(chan struct{})
				s := &Server{Acceptor: dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) {
					close(accepting)
					<-let
					return dragoman.NoPeer, nil
				})}
				c := client(t, way.open(t, s)(Lines), Lines, nil)
				<-accepting
				from := time.Now()
				if err := s.Shutdown(t.Context()); err != nil {
					t.Errorf("Shutdown returned %v", err)
				}
				if took := time.Since(from); took > 2*abortWait {
					t.Errorf("it returned after %v", took)
				}
				<-c.Done()
				close(let)
			})
		})
	}
}

func TestEndOfTheContextOfServeIOLeavesTimeToAnswer(t *testing.T) {
	for _, test := range []struct {
		name   string
		linger time.Duration
		let    bool // the call ends within the time
		within time.Duration
	}{
		{"a call that ends", 0, true, signalGrace / 2},
		{"a call that does not", 0, false, signalGrace},
		{"a call that does not, without a moment to linger", -1, false, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHolding()
				in, to := io.Pipe()
				from, out := io.Pipe()
				ctx, cancel := context.WithCancel(t.Context())
				served := make(chan error, 1)
				go func() { served <- ServeIO(ctx, h, in, out, &Options{Linger: test.linger}) }() // ends with ctx
				call := begin(t, client(t, &pipes{from, to}, Lines, nil), 1, protocol.MethodCallTool, nil)
				<-h.began
				cancel()
				if test.let {
					time.AfterFunc(signalGrace/2, func() { close(h.let) })
				}
				start := time.Now()
				e := <-call
				switch {
				case e.err != nil:
					t.Errorf("the call fails: %v", e.err)
				case test.let && e.resp.Get("let") == nil, !test.let && (!e.resp.IsError() || e.resp.RPCError().Code != protocol.CodeLost):
					t.Errorf("the call comes to %s", e.resp)
				}
				if took := time.Since(start); took != test.within {
					t.Errorf("it comes to that after %v, want %v", took, test.within)
				}
				if err := <-served; !errors.Is(err, context.Canceled) {
					t.Errorf("ServeIO returned %v", err)
				}
			})
		})
	}
}
