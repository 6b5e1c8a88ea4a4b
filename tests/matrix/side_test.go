package matrix

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/sse"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
	"github.com/dragoman-mcp/dragoman/transport/ws"
)

// The transports, by the names that the table shows.
const (
	overStdio      = "stdio"
	overStreamable = "Streamable HTTP"
	overSSE        = "HTTP+SSE"
	overWS         = "WebSocket"
)

// A side is a client or a server: what it speaks, and over what.
type side struct {
	revision  protocol.Revision
	transport string
}

func (s side) String() string { return s.revision.String() + " " + s.transport }

// sides are all there are, in the order of the table. HTTP+SSE is the transport
// of one revision, and is spoken with all that have sessions.
func sides() (all []side) {
	revisions := protocol.Revisions()
	for i := len(revisions) - 1; i >= 0; i-- {
		r := revisions[i]
		all = append(all, side{r, overStdio})
		if r.HasStreamableHTTP() {
			all = append(all, side{r, overStreamable})
		}
		if r.HasSessions() {
			all = append(all, side{r, overSSE})
		}
		all = append(all, side{r, overWS})
	}
	return all
}

// Environment of this test binary when it is started as a program of its own.
const (
	roleVariable      = "MATRIX_ROLE"     // "server" or "bridge"
	revisionVariable  = "MATRIX_REVISION" // of the server
	journalVariable   = "MATRIX_JOURNAL"  // of the server
	transportVariable = "MATRIX_TRANSPORT"
	addressVariable   = "MATRIX_ADDRESS"
)

func TestMain(m *testing.M) {
	stdio.Guard()
	switch os.Getenv(roleVariable) {
	case "server":
		play(journal{newEverything(protocol.ParseRevision(os.Getenv(revisionVariable))), os.Getenv(journalVariable)})
	case "bridge":
		b := newBridge(dialer(os.Getenv(transportVariable), os.Getenv(addressVariable), os.Getenv(journalVariable)))
		play(b)
		_ = b.Close()
	default:
		os.Exit(m.Run())
	}
}

// play serves on standard input and output, as a program does.
func play(a dragoman.Acceptor) {
	if err := stdio.Serve(context.Background(), a, nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// newEverything is the server behind the bridge. It speaks one revision, and its
// lists have several pages.
func newEverything(r protocol.Revision) *builtin.Server {
	return builtin.New(&builtin.Options{Revisions: []protocol.Revision{r}, PageSize: 7, Numbered: 12})
}

func newBridge(d dragoman.Dialer) *era.Server {
	s := &era.Server{Dialer: d}
	if c, ok := d.(*streamable.Client); ok {
		s.Probe = func(ctx context.Context) (protocol.Era, error) {
			v, err := c.Probe(ctx)
			return v.Era, err
		}
	}
	return s
}

// dialer reaches a server. The address of one on stdio is the revision that it
// speaks.
func dialer(transport, address, journal string) dragoman.Dialer {
	switch transport {
	case overStreamable:
		return &streamable.Client{URL: address, Timeout: -1}
	case overSSE:
		return &sse.Client{URL: address}
	case overWS:
		return &ws.Client{URL: address}
	}
	return self(roleVariable+"=server", revisionVariable+"="+address, journalVariable+"="+journal)
}

// self starts this test binary.
func self(env ...string) *stdio.Command {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return &stdio.Command{Path: path, Env: env, Grace: 500 * time.Millisecond}
}

// serve serves the server side and returns its address.
func (s side) serve(t *testing.T, path string) string {
	if s.transport == overStdio {
		return s.revision.String()
	}
	server := newEverything(s.revision)
	t.Cleanup(func() { _ = server.Close() })
	return listen(t, s.transport, journal{server, path}, page{server.Requests(), path})
}

// listen puts both endpoints on a transport and returns its URL.
func listen(t *testing.T, transport string, sessions dragoman.Acceptor, requests dragoman.Peer) string {
	mux := http.NewServeMux()
	var endpoint interface{ Shutdown(context.Context) error }
	path := "/mcp"
	switch transport {
	case overStreamable:
		s := &streamable.Server{Sessions: sessions, Requests: requests}
		mux.Handle(path, s)
		endpoint = s
	case overSSE:
		s := &sse.Server{Acceptor: sessions}
		path = "/sse"
		mux.Handle(path, s.Stream())
		mux.Handle("/messages", s.Messages())
		endpoint = s
	case overWS:
		s := &ws.Server{Acceptor: sessions, Requests: requests}
		path = "/ws"
		mux.Handle(path, s)
		endpoint = s
	}
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = endpoint.Shutdown(ctx)
		server.Close()
	})
	return server.URL + path
}

// through returns how a client reaches a server, with the bridge in between.
func (s side) through(t *testing.T, server side, journal string) dragoman.Dialer {
	t.Helper()
	address := server.serve(t, journal)
	if s.transport == overStdio {
		return self(roleVariable+"=bridge", transportVariable+"="+server.transport, addressVariable+"="+address, journalVariable+"="+journal)
	}
	bridge := newBridge(dialer(server.transport, address, journal))
	t.Cleanup(func() { _ = bridge.Close() })
	return dialer(s.transport, listen(t, s.transport, bridge, bridge.Requests()), "")
}
