package checklist

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
	"github.com/dragoman-mcp/dragoman/transport/toolhttp"
	"github.com/dragoman-mcp/dragoman/transport/ws"
)

// timed calls and tells how long that took. A Go error becomes what a caller of a
// bridge would get for it.
func timed(t *testing.T, p dragoman.Peer, req *dragoman.Message) (resp *dragoman.Message, took time.Duration) {
	t.Helper()
	began := time.Now()
	resp, err := p.Call(t.Context(), req, nil)
	if err != nil {
		resp = protocol.Failure(req, err)
	}
	return resp, time.Since(began)
}

// watched is the built-in server, which tells why calls were cancelled.
func watched(cancelled chan<- error) dragoman.Peer {
	inner := builtIn()
	return dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
		resp, err := inner.Call(ctx, req, from)
		if ctx.Err() != nil {
			cancelled <- context.Cause(ctx)
		}
		return resp, err
	}}
}

func slowAnswersAreAborted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		cancelled := make(chan error, 1)
		client := inMemory(t, &toolhttp.Server{Requests: watched(cancelled)})
		conn := dial(t, &toolhttp.Client{URL: memoryURL, HTTP: client, Timeout: 7 * time.Second})
		resp, took := timed(t, conn, request(t, `1`, "slow", `{"ms":6999}`))
		if wantText(t, resp, `1`, "Took 6999 ms in 1 steps."); took != 6999*time.Millisecond {
			t.Errorf("the answer in time took %v", took)
		}
		resp, took = timed(t, conn, request(t, `2`, "wait", `{}`))
		if wantError(t, resp, protocol.CodeTimeout, "in time"); took != 7*time.Second {
			t.Errorf("the client gave up after %v, want 7 s", took)
		}
		if err := <-cancelled; !errors.Is(err, dragoman.ErrCancelled) {
			t.Errorf("the server's call ended by %v", err)
		}
	})
	// A server with a limit of its own says so before the client gives up.
	inBubble(t, func(t *testing.T) {
		client := inMemory(t, &toolhttp.Server{Requests: builtIn(), CallTimeout: 3 * time.Second})
		conn := dial(t, &toolhttp.Client{URL: memoryURL, HTTP: client, Timeout: 7 * time.Second})
		resp, took := timed(t, conn, request(t, `1`, "wait", `{}`))
		if wantError(t, resp, protocol.CodeTimeout); took != 3*time.Second {
			t.Errorf("the server answered after %v, want 3 s: %s", took, resp)
		}
	})
}

// A counter is a handler that counts the tool calls that reach it. Calls of the
// tool "lose" break the connection.
type counter struct {
	http.Handler
	calls atomic.Int32
}

func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if strings.Contains(string(body), `"tools/call"`) {
		c.calls.Add(1)
	}
	if strings.Contains(string(body), `"lose"`) {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	c.Handler.ServeHTTP(w, r)
}

// An HTTP client of ours, and what serves it.
type pairing struct {
	name string
	open func(t *testing.T, timeout time.Duration) (dragoman.Conn, *counter)
	tool func(t *testing.T, id, tool, arguments string) *dragoman.Message
}

// pairings are the clients that have a timeout.
func pairings() []pairing {
	overTools := func(stream bool) func(*testing.T, time.Duration) (dragoman.Conn, *counter) {
		return func(t *testing.T, timeout time.Duration) (dragoman.Conn, *counter) {
			c := &counter{Handler: &toolhttp.Server{Requests: builtIn()}}
			return dial(t, &toolhttp.Client{URL: memoryURL, HTTP: inMemory(t, c), Timeout: timeout, Stream: stream}), c
		}
	}
	overMCP := func(t *testing.T, timeout time.Duration) (dragoman.Conn, *counter) {
		server := builtin.New(nil)
		c := &counter{Handler: &streamable.Server{Sessions: server, Requests: server.Requests()}}
		return dial(t, &streamable.Client{URL: memoryURL, HTTP: inMemory(t, c), Timeout: timeout, NoToolList: true}), c
	}
	return []pairing{
		{"HTTP", overTools(false), request},
		{"SSE", overTools(true), request},
		{"Streamable HTTP", overMCP, request},
		{"Streamable HTTP with a session", func(t *testing.T, timeout time.Duration) (dragoman.Conn, *counter) {
			conn, c := overMCP(t, timeout)
			ask(t, conn, parse(t, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`))
			if err := conn.Notify(t.Context(), parse(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)); err != nil {
				t.Fatal(err)
			}
			return conn, c
		}, func(t *testing.T, id, tool, arguments string) *dragoman.Message {
			return parse(t, `{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{"name":"`+tool+`","arguments":`+arguments+`}}`)
		}},
	}
}

func timeoutsAreFollowed(t *testing.T) {
	const requestTimeoutMs = 7000 // what a host has configured
	for _, p := range pairings() {
		for timeout, want := range map[time.Duration]time.Duration{
			requestTimeoutMs * time.Millisecond: 7 * time.Second,
			0:                                   30 * time.Second,
		} {
			inBubble(t, func(t *testing.T) {
				conn, c := p.open(t, timeout)
				resp, took := timed(t, conn, p.tool(t, `1`, "wait", `{}`))
				if wantError(t, resp, protocol.CodeTimeout, "in time"); took != want {
					t.Errorf("%s: the call ended after %v, want %v", p.name, took, want)
				}
				time.Sleep(time.Hour) // in which it could be tried again
				if n := c.calls.Load(); n != 1 {
					t.Errorf("%s: a call that timed out was sent %d times", p.name, n)
				}
				wantText(t, ask(t, conn, p.tool(t, `2`, "echo", `{"text":"next"}`)), `2`, "next")
			})
		}
		inBubble(t, func(t *testing.T) {
			conn, _ := p.open(t, -1)
			if resp, took := timed(t, conn, p.tool(t, `1`, "slow", `{"ms":3600000}`)); took != time.Hour {
				t.Errorf("%s: without a limit the call took %v: %s", p.name, took, resp)
			}
		})
	}

	// Over a socket the caller's context is the limit, and all that the server
	// hears of it is one request and that it is cancelled.
	socket, conn := scriptSocket(t, &ws.Client{})
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() { // ends by cancel
		_, err := conn.Call(ctx, parse(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`), nil)
		done <- err
	}()
	sent := parse(t, socket.expect())
	cancel(context.DeadlineExceeded)
	if err := wait(t, done, "the end of the call"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the call ended with %v", err)
	}
	told := parse(t, socket.expect())
	if told.Method() != protocol.NoteCancelled || string(told.Get("requestId")) != sent.ID().String() {
		t.Errorf("after %s came %s", sent, told)
	}
	socket.wantFarewell(conn) // with nothing before it
}

func lostCallsAreNotSentAgain(t *testing.T) {
	for _, p := range pairings() {
		inBubble(t, func(t *testing.T) {
			conn, c := p.open(t, 0)
			// The connection has been used, so that net/http could take its end for
			// one that came before the request.
			wantText(t, ask(t, conn, p.tool(t, `1`, "echo", `{"text":"x"}`)), `1`, "x")
			resp, _ := timed(t, conn, p.tool(t, `2`, "lose", `{}`))
			wantFit(t, toolErrorSchema, resp.String())
			time.Sleep(time.Hour)
			if n := c.calls.Load(); n != 2 {
				t.Errorf("%s: the call that was lost was sent %d times", p.name, n-1)
			}
		})
	}
}
