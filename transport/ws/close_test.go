package ws

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// given is an Acceptor that hands out the client's conversation.
func given(p dragoman.Peer) (dragoman.Acceptor, <-chan dragoman.Conn) {
	conns := make(chan dragoman.Conn, 1)
	return dragoman.AcceptFunc(func(_ context.Context, c dragoman.Conn) (dragoman.Peer, error) {
		conns <- c
		return p, nil
	}), conns
}

func TestS20_A30_SocketsAreClosedWithFittingCodes(t *testing.T) {
	failing := dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) {
		return nil, errors.New("no room for secrets")
	})
	full := dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) {
		return nil, protocol.Overloaded("there are too many sessions; try again later")
	})
	panicking := dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) {
		panic("ws: this panic is part of the test")
	})
	absent := dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) { return nil, nil })
	const mcp = "Sec-WebSocket-Protocol: mcp"
	for _, c := range []struct {
		name     string
		acceptor dragoman.Acceptor
		do       func(r *raw)
		code     int
	}{
		{"binary message", nil, func(r *raw) { r.send(binmsg, []byte(asking("x"))) }, 1003},
		{"bad UTF-8", nil, func(r *raw) { r.sendText(asking("\xff")) }, 1007},
		{"not masked", nil, func(r *raw) { r.write([]byte{text, 0}) }, 1002},
		{"too large", nil, func(r *raw) { r.sendText(asking(sized(1<<20 + 1))) }, 1009},
		{"too large in fragments", nil, func(r *raw) { r.inPieces(asking(sized(1<<20+1)), 10_000, nil) }, 1009},
		{"acceptor fails", failing, func(r *raw) {}, 1011},
		{"acceptor fails at the first message", failing, func(r *raw) { r.sendText(asking("x")) }, 1011},
		{"acceptor has no room", full, func(r *raw) {}, 1013},
		{"acceptor panics", panicking, func(r *raw) {}, 1011},
		{"acceptor gives nobody", absent, func(r *raw) {}, 1011},
		{"client closes", nil, func(r *raw) { r.send(bye, closing(1000, "")) }, 1000},
		{"client closes with a code of its own", nil, func(r *raw) { r.send(bye, closing(4711, "")) }, 4711},
	} {
		t.Run(c.name, func(t *testing.T) {
			peertest.NoLeak(t)
			s := &Server{Acceptor: c.acceptor, MaxMessage: 1 << 20}
			if s.Acceptor == nil {
				s.Acceptor = peertest.Accept(echoes)
			}
			r := rawDial(t, serve(t, s), mcp)
			c.do(r)
			if reason := r.wantClose(c.code); strings.Contains(reason, "secrets") {
				t.Errorf("the reason tells too much: %s", reason)
			}
		})
	}
	t.Run("the accepting side closes", func(t *testing.T) {
		peertest.NoLeak(t)
		acceptor, conns := given(echoes)
		r := rawDial(t, serve(t, &Server{Acceptor: acceptor}), mcp)
		r.wantOpen()
		closed := make(chan error, 1)
		conn := peertest.Receive(t, conns, "the conversation")
		go func() { closed <- conn.Close() }()
		r.wantClose(1000)
		if err := peertest.Receive(t, closed, "Close returns"); err != nil {
			t.Error(err)
		}
	})
	t.Run("the dialling side closes", func(t *testing.T) {
		peertest.NoLeak(t)
		r, conn := rawServe(t, &Client{}, nil)
		closed := make(chan error, 1)
		go func() { closed <- conn.Close() }()
		r.wantClose(1000)
		if err := peertest.Receive(t, closed, "Close returns"); err != nil {
			t.Error(err)
		}
	})
	t.Run("a message of exactly the limit passes", func(t *testing.T) {
		r := rawDial(t, serve(t, &Server{Acceptor: peertest.Accept(echoes), MaxMessage: 1 << 20}))
		r.sendText(asking(sized(1 << 20)))
		r.want(asked(sized(1 << 20)))
	})
}

// pending starts n calls on a conversation whose other end is r, and returns
// when r has them.
func pending(t *testing.T, r *raw, conn dragoman.Conn, n int) <-chan error {
	t.Helper()
	errs := make(chan error, n)
	for range n {
		go func() { // ends with the call
			resp, err := conn.Call(t.Context(), peertest.Parse(t, `{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"n"}}`), nil)
			if err == nil {
				err = errors.New("got " + resp.String())
			}
			errs <- err
		}()
	}
	for range n {
		_ = r.message()
	}
	return errs
}

func TestA29_A30_AClosedSocketEndsAllCallsAndSaysHow(t *testing.T) {
	for _, tools := range []bool{false, true} {
		for _, c := range []struct {
			name string
			end  func(r *raw)
			says string
			is   error
			code int
		}{
			{"close 1011 with a reason", func(r *raw) { r.send(bye, closing(1011, "out of memory")) }, "1011: out of memory", dragoman.ErrClosed, 1011},
			{"close 1000", func(r *raw) { r.send(bye, closing(1000, "")) }, "code 1000", dragoman.ErrClosed, 1000},
			{"close without a code", func(r *raw) { r.send(bye, nil) }, "code 1005", dragoman.ErrClosed, 1005},
			{"close 1009", func(r *raw) { r.send(bye, closing(1009, "")) }, "code 1009", dragoman.ErrTooLarge, 1009},
			{"drop", func(r *raw) { _ = r.Close() }, "lost without a close", dragoman.ErrClosed, 0},
			{"answer that is too large", func(r *raw) { r.sendText(asking(sized(1<<20 + 1))) }, "1048576 bytes", dragoman.ErrTooLarge, 0},
			{"binary message", func(r *raw) { r.send(binmsg, nil) }, "binary", dragoman.ErrClosed, 0},
			{"not WebSocket", func(r *raw) { r.write([]byte("HTTP/1.1 200 OK\r\n\r\n")) }, "does not speak WebSocket", dragoman.ErrClosed, 0},
		} {
			name := c.name
			if tools {
				name += ", tool frames"
			}
			t.Run(name, func(t *testing.T) {
				peertest.NoLeak(t)
				r, conn := rawServe(t, &Client{Tools: tools, MaxMessage: 1 << 20}, nil)
				errs := pending(t, r, conn, 5)
				c.end(r)
				if c.code == 0 {
					_ = r.Close()
				}
				for range 5 {
					err := peertest.Receive(t, errs, "the call returns")
					if !errors.Is(err, dragoman.ErrClosed) || !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
						t.Errorf("a call returned %v\nwant an error that is %v and says %q", err, c.is, c.says)
					}
					var ce *CloseError
					if errors.As(err, &ce) != (c.code != 0) || ce != nil && ce.Code != c.code {
						t.Errorf("the close was %v, want code %d", ce, c.code)
					}
				}
				peertest.Receive(t, conn.Done(), "the conversation is over")
				if err := conn.Err(); !errors.Is(err, c.is) {
					t.Errorf("Err is %v", err)
				}
			})
		}
	}
}

func TestA25_ACallOnASocketThatIsNotOpenIsRejected(t *testing.T) {
	for _, tools := range []bool{false, true} {
		r, conn := rawServe(t, &Client{Tools: tools}, nil)
		_ = r.Close()
		peertest.Receive(t, conn.Done(), "the conversation is over")
		for _, method := range []string{"tools/call", "tools/list"} {
			req := peertest.Parse(t, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"name":"n"}}`)
			if resp, err := conn.Call(t.Context(), req, nil); !errors.Is(err, dragoman.ErrClosed) {
				t.Errorf("tools %v: %s returned %v, %v", tools, method, resp, err)
			}
		}
		note := peertest.Parse(t, `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
		if err := conn.Notify(t.Context(), note); !errors.Is(err, dragoman.ErrClosed) {
			t.Errorf("tools %v: Notify returned %v", tools, err)
		}
	}
}

// turnConn is a connection that is written to by who has the turn alone.
type turnConn struct {
	*testing.T
	wire *wire
	got  strings.Builder
}

func (c *turnConn) Read([]byte) (int, error) { return 0, io.EOF }
func (c *turnConn) Close() error             { return nil }

func (c *turnConn) Write(p []byte) (int, error) {
	if len(c.wire.turn) == 0 {
		c.Errorf("while %q is written, a close frame could overtake it", p)
	}
	return c.got.Write(p)
}

func TestNoFrameOvertakesWhatWasBufferedBefore(t *testing.T) {
	w := &wire{}
	c := &turnConn{T: t, wire: w}
	w.take(c)
	w.buffer(nil)
	for _, write := range []func() error{
		func() error { _, err := w.Write([]byte("message ")); return err },
		func() error { return w.flush() },
		func() error { _, err := w.Write([]byte("close")); return err },
	} {
		if err := write(); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.got.String(); got != "message close" {
		t.Errorf("%q was written", got)
	}
}
