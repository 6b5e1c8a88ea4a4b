package checklist

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/toolhttp"
	"github.com/dragoman-mcp/dragoman/transport/ws"
)

// patience is how long a test waits for what must come at once.
const patience = 30 * time.Second

// envelope makes a request one that stands for itself.
var envelope = `"_meta":{"` + protocol.MetaProtocolVersion + `":"` + protocol.Latest.String() + `","` + protocol.MetaClientCapabilities + `":{}}`

// request is a tool request; id and arguments are JSON text.
func request(t *testing.T, id, tool, arguments string) *dragoman.Message {
	t.Helper()
	return parse(t, `{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{"name":"`+tool+`","arguments":`+arguments+`,`+envelope+`}}`)
}

func parse(t *testing.T, text string) *dragoman.Message {
	t.Helper()
	m, err := dragoman.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return m
}

// ask calls and returns the answer, which may be an error response.
func ask(t *testing.T, p dragoman.Peer, req *dragoman.Message) *dragoman.Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	resp, err := p.Call(ctx, req, nil)
	if err != nil {
		t.Fatalf("%s: %v", req, err)
	}
	return resp
}

// A reply is what a call returned.
type reply struct {
	resp *dragoman.Message
	err  error
}

// begin calls in the background.
func begin(t *testing.T, p dragoman.Peer, req *dragoman.Message, from dragoman.Peer) <-chan reply {
	done := make(chan reply, 1)
	go func() { // ends with the call, at the end of the test at the latest
		resp, err := p.Call(t.Context(), req, from)
		done <- reply{resp, err}
	}()
	return done
}

// wait returns the next value of ch.
func wait[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case v := <-ch:
		return v
	case <-timer.C:
	}
	t.Fatalf("waited in vain for this: %s", what)
	panic("unreachable")
}

// said returns the texts of a result, with a bar in between.
func said(t *testing.T, m *dragoman.Message) string {
	t.Helper()
	var result struct{ Content []struct{ Text string } }
	if err := m.Decode(&result); err != nil || m.IsError() {
		t.Fatalf("%s is no result with texts (%v)", m, err)
	}
	var texts []string
	for _, item := range result.Content {
		texts = append(texts, item.Text)
	}
	return strings.Join(texts, "|")
}

// wantText fails the test unless m is a tool response with that id and text.
func wantText(t *testing.T, m *dragoman.Message, id, text string) {
	t.Helper()
	wantFit(t, toolResponseSchema, m.String())
	if m.ID().String() != id || said(t, m) != text {
		t.Fatalf("got %.300s\nwant the id %s and the text %q", m, id, text)
	}
}

// wantError fails the test unless m is a tool error with that code, whose message
// says all of that.
func wantError(t *testing.T, m *dragoman.Message, code int, says ...string) {
	t.Helper()
	wantFit(t, toolErrorSchema, m.String())
	e := m.RPCError()
	if e == nil || e.Code != code || slices.ContainsFunc(says, func(s string) bool { return !strings.Contains(e.Message, s) }) {
		t.Fatalf("got %s\nwant an error with code %d that says %q", m, code, says)
	}
}

// wantClosed fails the test unless err says that the conversation is over.
func wantClosed(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, dragoman.ErrClosed) {
		t.Fatalf("%s: the error is %v, want ErrClosed", what, err)
	}
}

// builtIn is the built-in server, for requests that stand for themselves.
func builtIn() dragoman.Peer { return builtin.New(nil).Requests() }

// serve serves a handler until the test ends and returns its URL. stop is called
// before that, if it is not nil.
func serve(t *testing.T, h http.Handler, stop func(context.Context) error) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		if stop != nil {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_ = stop(ctx) // what is still under way is cut
		}
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// serveTools serves tool calls over HTTP.
func serveTools(t *testing.T, p dragoman.Peer) string {
	t.Helper()
	s := &toolhttp.Server{Requests: p, Check: schemas.Check}
	return serve(t, s, s.Shutdown)
}

func dial(t *testing.T, d dragoman.Dialer) dragoman.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, err := d.Dial(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// A transport is a way to the built-in server. Both of its ends log to log, which may
// be nil, and header goes along where there are headers.
type transport struct {
	name string
	dial func(t *testing.T, log *slog.Logger, header http.Header) dragoman.Conn
}

func transports() []transport {
	overHTTP := func(stream bool) func(*testing.T, *slog.Logger, http.Header) dragoman.Conn {
		return func(t *testing.T, log *slog.Logger, header http.Header) dragoman.Conn {
			s := &toolhttp.Server{Requests: builtIn(), Check: schemas.Check, Logger: log}
			return dial(t, &toolhttp.Client{URL: serve(t, s, s.Shutdown), Stream: stream, Logger: log, Header: header})
		}
	}
	overWS := func(tools bool) func(*testing.T, *slog.Logger, http.Header) dragoman.Conn {
		return func(t *testing.T, log *slog.Logger, header http.Header) dragoman.Conn {
			s := &ws.Server{Acceptor: builtin.New(nil), Requests: builtIn(), Logger: log}
			return dial(t, &ws.Client{URL: serve(t, s, s.Shutdown), Tools: tools, Logger: log, Header: header})
		}
	}
	return []transport{
		{"stdio", func(t *testing.T, log *slog.Logger, _ http.Header) dragoman.Conn {
			c := command(t, "everything")
			c.Logger = log
			return dial(t, c)
		}},
		{"HTTP", overHTTP(false)},
		{"SSE", overHTTP(true)},
		{"WebSocket", overWS(false)},
		{"WebSocket tool frames", overWS(true)},
	}
}

// A journal keeps what is written to it, by any number of goroutines.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// logger logs everything to the journal.
func (j *journal) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{Level: jsonrpc.LevelSteps}))
}

// quote returns a text as JSON.
func quote(s string) string {
	b, _ := json.Marshal(s) // strings always encode
	return string(b)
}
