package interop_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/sse"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
	"github.com/dragoman-mcp/dragoman/transport/ws"
)

// A crossServer is a server that speaks one era, or is spoken to in one.
type crossServer struct {
	kind      string // of SDK
	name      string // that it gives itself; "cross" if empty
	era       protocol.Era
	transport string
	pinned    bool     // the SDK speaks both eras, so the bridge is told
	command   []string // or
	url       string
	env       []string // of the command
	journal   string
}

// bridge returns the bridge to the server, in this process.
func (s *crossServer) bridge(t *testing.T) *era.Server {
	t.Helper()
	b := &era.Server{Name: "dragoman", Version: "1"}
	if s.pinned {
		b.Era = &s.era
	}
	if s.url != "" {
		c := &streamable.Client{URL: s.url, Timeout: -1, MaxTimeout: -1}
		b.Dialer = c
		b.Probe = func(ctx context.Context) (protocol.Era, error) {
			v, err := c.Probe(ctx)
			return v.Era, err
		}
	} else {
		b.Dialer = &stdio.Command{
			Path: s.command[0], Args: s.command[1:], Env: s.env, InheritEnv: []string{"GORACE"}, Grace: 500 * time.Millisecond,
			OnStderr: func(line string) { fmt.Fprintln(t.Output(), s.kind+":", line) },
		}
		b.ProbeTimeout = 3 * patience // interpreters start slowly on a busy machine
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("the bridge does not end in good order: %v", err)
		}
	})
	return b
}

// connect is the command of the bridge to the server, in a process of its own.
func (s *crossServer) connect(t *testing.T) []string {
	t.Helper()
	args := []string{dragomanProgram.in(t), "connect"}
	if s.pinned {
		args = append(args, "--era", s.era.String())
	}
	if s.url != "" {
		return append(args, s.url)
	}
	for _, v := range append(s.env, "GORACE="+quickExit) {
		args = append(args, "-e", v)
	}
	return append(append(args, "--"), s.command...)
}

// listen opens the endpoints of a bridge in this process, and returns their URL. The
// server is up by then.
func (s *crossServer) listen(t *testing.T) string {
	t.Helper()
	b := s.bridge(t)
	c := dial(t, dragoman.Local(b))
	defer c.conn.Close()
	c.rev, c.caps = protocol.Latest, object{}
	hello := c.want(protocol.MethodDiscover, object{})
	if hello["supportedVersions"] == nil {
		t.Errorf("the bridge begins with %v", hello)
	}
	main := &streamable.Server{Sessions: b, Requests: b.Requests()}
	old := &sse.Server{Acceptor: b}
	sockets := &ws.Server{Acceptor: b, Requests: b.Requests()}
	mux := http.NewServeMux()
	mux.Handle("/mcp", main)
	mux.Handle("/sse", old.Stream())
	mux.Handle("/messages", old.Messages())
	mux.Handle("/ws", sockets)
	web := httptest.NewServer(mux)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := errors.Join(main.Shutdown(ctx), old.Shutdown(ctx), sockets.Shutdown(ctx)); err != nil {
			t.Errorf("the endpoints do not close: %v", err)
		}
		web.Close()
	})
	return web.URL
}

// meet connects a client to the server through the bridge. endpoint is the transport of the client.
func (s *crossServer) meet(t *testing.T, connect connector, endpoint string, rev protocol.Revision) *session {
	t.Helper()
	var to []string
	switch endpoint {
	case "stdio":
		to = s.connect(t)
	case "http":
		to = []string{s.listen(t) + "/mcp"}
	case "ws":
		to = []string{strings.Replace(s.listen(t), "http:", "ws:", 1) + "/ws"}
	default:
		to = []string{s.listen(t) + "/" + endpoint}
	}
	return connect.open(t, to, s.says(), rev)
}

// says returns the name that the server gives itself.
func (s *crossServer) says() string {
	if s.name == "" {
		return "cross"
	}
	return s.name
}
