package sse

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// TestPeer runs the suite for peers over our server and our client.
func TestPeer(t *testing.T) {
	for _, rev := range []protocol.Revision{protocol.Unknown, protocol.V20241105} {
		t.Run("revision "+rev.String(), func(t *testing.T) {
			peertest.Run(t, func(t *testing.T, client dragoman.Peer, server dragoman.Acceptor) dragoman.Conn {
				_, url := serve(t, &Server{Acceptor: server, MaxMessage: peertest.MaxMessage})
				conn, err := (&Client{URL: url + "/sse", MaxMessage: peertest.MaxMessage}).Dial(t.Context(), client)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = conn.Close() })
				return conn
			}, &peertest.Options{Revision: rev, MaxMessage: peertest.MaxMessage, Light: rev != protocol.Unknown})
		})
	}
}

// TestPeerWithoutSessions runs the suite over the variant without sessions: the
// server has no event stream here, and answers in the response.
func TestPeerWithoutSessions(t *testing.T) {
	peertest.Run(t, func(t *testing.T, client dragoman.Peer, server dragoman.Acceptor) dragoman.Conn {
		s := &Server{Acceptor: server, MaxMessage: peertest.MaxMessage}
		m := http.NewServeMux()
		m.Handle("/messages", s.Messages())
		conn, err := (&Client{URL: listen(t, s, m), Sync: true, MaxMessage: peertest.MaxMessage}).Dial(t.Context(), client)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}, &peertest.Options{Revision: protocol.V20241105, MaxMessage: peertest.MaxMessage, Stateless: true, NoServerRequests: true, NoNotes: true})
}

// serve serves s until the end of the test, and returns where.
func serve(t *testing.T, s *Server) (*Server, string) {
	t.Helper()
	return s, listen(t, s, mount(s, ""))
}

// mount returns both endpoints of s under a prefix.
func mount(s *Server, prefix string) http.Handler {
	m := http.NewServeMux()
	m.Handle(prefix+"/sse", s.Stream())
	m.Handle(prefix+"/messages", s.Messages())
	return m
}

// listen serves h, behind which s is, until the end of the test.
func listen(t *testing.T, s *Server, h http.Handler) string {
	t.Helper()
	web := httptest.NewServer(h)
	t.Cleanup(func() {
		_ = s.Close()
		web.Close()
	})
	return web.URL
}
