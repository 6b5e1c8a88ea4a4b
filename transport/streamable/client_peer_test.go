package streamable_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// TestClientPeer runs the suite for peers over HTTP, our client against our
// server, in each era.
func TestClientPeer(t *testing.T) {
	for _, r := range protocol.Revisions() {
		if !r.HasStreamableHTTP() {
			continue
		}
		if testing.Short() && r != protocol.Latest && r != protocol.LatestLegacy {
			continue
		}
		t.Run(r.String(), func(t *testing.T) {
			peertest.Run(t, dialServer(r), &peertest.Options{
				Revision:   r,
				Stateless:  !r.HasSessions(),
				MaxMessage: peertest.MaxMessage,
				Light:      r != protocol.Latest && r != protocol.LatestLegacy, // one of each era is enough
			})
		})
	}
}

// dialServer returns what opens a conversation with a server that has the endpoint
// of the revision's era.
func dialServer(r protocol.Revision) peertest.Connect {
	return func(t *testing.T, client dragoman.Peer, server dragoman.Acceptor) dragoman.Conn {
		s := &streamable.Server{MaxMessage: peertest.MaxMessage}
		if r.HasSessions() {
			s.Sessions = server
		} else if peer, err := server.Accept(t.Context(), nil); err != nil {
			t.Fatal(err)
		} else {
			s.Requests = noTools{peer}
		}
		return dialHandler(t, client, s)
	}
}

func dialHandler(t *testing.T, client dragoman.Peer, s *streamable.Server) dragoman.Conn {
	h := httptest.NewServer(s)
	c := &streamable.Client{
		URL: h.URL + "/mcp", MaxMessage: peertest.MaxMessage,
		Retry: &streamable.Retry{Min: 10 * time.Millisecond},
	}
	conn, err := c.Dial(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		h.Close()
	})
	return conn
}

// noTools answers a question that neither the suite nor its peers expect: both
// sides of this transport look for the schemas of tools.
type noTools struct{ dragoman.Peer }

func (p noTools) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if req.Method() == protocol.MethodListTools {
		return req.Reply(json.RawMessage(`{"resultType":"complete","tools":[]}`))
	}
	return p.Peer.Call(ctx, req, from)
}
