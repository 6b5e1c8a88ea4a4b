package ws

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// TestPeer runs the suite for peers over our server and our client.
func TestPeer(t *testing.T) {
	for name, compress := range map[string]bool{"plain": false, "deflated": true} {
		t.Run(name, func(t *testing.T) {
			for _, rev := range []protocol.Revision{protocol.Unknown, protocol.V20250326, protocol.LatestLegacy, protocol.Latest} {
				if compress && rev != protocol.Unknown {
					continue
				}
				t.Run("revision "+rev.String(), func(t *testing.T) {
					peertest.Run(t, func(t *testing.T, client dragoman.Peer, server dragoman.Acceptor) dragoman.Conn {
						at := serve(t, &Server{Acceptor: server, Compression: compress})
						return dial(t, &Client{URL: at, Compression: compress}, client)
					}, &peertest.Options{Revision: rev, Light: rev != protocol.Unknown})
				})
			}
		})
	}
}

// TestA26_A27_PeerByToolFrames runs the suite over tool frames, which know no
// cancel.
func TestA26_A27_PeerByToolFrames(t *testing.T) {
	peertest.Run(t, func(t *testing.T, client dragoman.Peer, server dragoman.Acceptor) dragoman.Conn {
		peer, err := server.Accept(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return dial(t, &Client{URL: serve(t, &Server{Requests: peer}), Tools: true}, client)
	}, &peertest.Options{ToolsOnly: true, NoCancel: true})
}

// serve serves s until the end of the test, and returns where.
func serve(t testing.TB, s *Server) string {
	t.Helper()
	web := httptest.NewServer(s)
	t.Cleanup(func() {
		stop(t, s)
		web.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return "ws" + strings.TrimPrefix(web.URL, "http")
}

// dial opens a conversation, which lasts no longer than the test.
func dial(t testing.TB, c *Client, local dragoman.Peer) dragoman.Conn {
	t.Helper()
	conn, err := c.Dial(t.Context(), local)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
