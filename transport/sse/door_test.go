package sse

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/memnet"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

// inBubble runs a test with a server on a network in memory. send sends a request and
// returns its connection, of which nothing is read.
func inBubble(t *testing.T, s *Server, test func(t *testing.T, send func(method, path, body string, header ...string) net.Conn)) {
	t.Helper()
	memnet.Serve(t, mount(s, ""), s.Close, func(t *testing.T, l *memnet.Listener) {
		test(t, func(method, path, body string, header ...string) net.Conn {
			return l.Send(t, method, path, body, header...)
		})
	})
}

// openStream opens a session and returns its connection and where its messages go.
func openStream(t *testing.T, conn net.Conn) (r *bufio.Reader, endpoint string) {
	t.Helper()
	r = bufio.NewReader(conn)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if at, ok := strings.CutPrefix(line, "data: "); ok {
			return r, "/" + strings.TrimSpace(at)
		}
	}
}

// endless answers when its context ends.
var endless = dragoman.Funcs{OnCall: func(ctx context.Context, _ *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}}

func TestShutdownDoesNotWaitForAClientThatDoesNotRead(t *testing.T) {
	large := []byte(`{"text":"` + strings.Repeat("x", 1<<20) + `"}`)
	answers := func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		if req.Method() == "initialize" {
			return req.Reply(nil)
		}
		return req.Reply(large)
	}
	ignores := func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		if req.Method() != "initialize" {
			time.Sleep(time.Hour) // of the bubble
		}
		return req.Reply(nil)
	}
	for _, test := range []struct {
		name string
		call func(context.Context, *dragoman.Message, dragoman.Peer) (*dragoman.Message, error)
	}{
		{"an answer on a stream", answers},
		{"a call that ignores its context", ignores},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &Server{Acceptor: peertest.Accept(dragoman.Funcs{OnCall: test.call}), WriteTimeout: -1}
			inBubble(t, s, func(t *testing.T, send func(string, string, string, ...string) net.Conn) {
				_, to := openStream(t, send("GET", "/sse", ""))
				_, _ = memnet.Response(t, send("POST", to, ping))
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				defer cancel()
				began := time.Now()
				if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Shutdown returned %v", err)
				}
				if took := time.Since(began); took > 700*time.Millisecond {
					t.Errorf("Shutdown took %v", took)
				}
			})
		})
	}
}

func TestNegativeMeansNone(t *testing.T) {
	s := &Server{Acceptor: peertest.Accept(pinger), MaxSessions: -1, MaxRequests: -1, BodyTimeout: -1, WriteTimeout: -1, KeepAlive: -1, IdleTimeout: -1}
	inBubble(t, s, func(t *testing.T, send func(string, string, string, ...string) net.Conn) {
		if _, text := memnet.Response(t, send("POST", "/messages", ping)); text != pong {
			t.Errorf("answered %s", text)
		}
		stream, _ := openStream(t, send("GET", "/sse", "", "Connection: close"))
		time.Sleep(time.Hour) // of the bubble
		if n := len(s.syncConns); n != 1 {
			t.Errorf("there are %d conversations without a session, want 1", n)
		}
		_ = s.Close()
		if rest, err := io.ReadAll(stream); err != nil && !errors.Is(err, io.EOF) || strings.Contains(string(rest), ":") {
			t.Errorf("the stream said %q, %v", rest, err)
		}
	})
}

func TestTooManyRequestsGet503(t *testing.T) {
	s := &Server{Acceptor: peertest.Accept(endless), MaxRequests: 1}
	inBubble(t, s, func(t *testing.T, send func(string, string, string, ...string) net.Conn) {
		send("POST", "/messages", `{"jsonrpc":"2.0","id":1,"method":"initialize"}`)
		resp, text := memnet.Response(t, send("POST", "/messages", ping))
		if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "-31004") || !strings.Contains(text, "not_sent") || resp.Header.Get("Retry-After") == "" {
			t.Errorf("one too many got %d %s", resp.StatusCode, text)
		}
	})
}
