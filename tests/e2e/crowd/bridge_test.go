//go:build unix

package crowd

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/sse"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
	"github.com/dragoman-mcp/dragoman/transport/ws"
)

// The ways to the bridge.
const (
	overHTTP  = "HTTP"
	overSSE   = "HTTP+SSE"
	overWS    = "WebSocket"
	overStdio = "stdio"
)

// A bridge is one era.Server with an endpoint for each way.
type bridge struct {
	dialers map[string]func() dragoman.Dialer
}

// newBridge builds a bridge in front of a server. settings may have more than a
// Dialer.
func newBridge(t *testing.T, settings *era.Server) *bridge {
	t.Helper()
	s := settings
	if c, ok := s.Dialer.(*streamable.Client); ok && s.Probe == nil {
		s.Probe = func(ctx context.Context) (protocol.Era, error) {
			v, err := c.Probe(ctx)
			return v.Era, err
		}
	}
	posts := &streamable.Server{Sessions: s, Requests: s.Requests()}
	streams := &sse.Server{Acceptor: s}
	sockets := &ws.Server{Acceptor: s, Requests: s.Requests()}
	lines := &stdio.Server{Acceptor: s}

	mux := http.NewServeMux()
	mux.Handle("/mcp", posts)
	mux.Handle("/sse", streams.Stream())
	mux.Handle("/messages", streams.Messages())
	mux.Handle("/ws", sockets)
	web := httptest.NewServer(mux)
	path := filepath.Join(t.TempDir(), "socket")
	l, err := stdio.Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() { // ends with lines.Close
		defer close(served)
		_ = lines.Serve(l)
	}()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = posts.Shutdown(ctx)
		_ = streams.Shutdown(ctx)
		_ = sockets.Shutdown(ctx)
		_ = lines.Close()
		<-served
		web.Close()
		_ = s.Close()
	})
	return &bridge{map[string]func() dragoman.Dialer{
		// A session that the bridge does not know any more must be noticed.
		overHTTP: func() dragoman.Dialer {
			return &streamable.Client{URL: web.URL + "/mcp", Timeout: -1}
		},
		overSSE:   func() dragoman.Dialer { return &sse.Client{URL: web.URL + "/sse"} },
		overWS:    func() dragoman.Dialer { return &ws.Client{URL: strings.Replace(web.URL, "http", "ws", 1) + "/ws"} },
		overStdio: func() dragoman.Dialer { return &stdio.Address{Network: "unix", Address: path} },
	}}
}
