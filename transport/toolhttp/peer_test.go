package toolhttp_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/toolhttp"
)

// TestPeer runs the suite for peers, our client against our server.
func TestPeer(t *testing.T) {
	for _, stream := range []bool{false, true} {
		t.Run(map[bool]string{false: "JSON", true: "events"}[stream], func(t *testing.T) {
			peertest.Run(t, func(t *testing.T, local dragoman.Peer, server dragoman.Acceptor) dragoman.Conn {
				peer, err := server.Accept(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				s := &toolhttp.Server{Requests: noList{peer}, MaxMessage: peertest.MaxMessage}
				return dialServer(t, local, s, &toolhttp.Client{Stream: stream, MaxMessage: peertest.MaxMessage})
			}, &peertest.Options{ToolsOnly: true, MaxMessage: peertest.MaxMessage})
		})
	}
}

func dialServer(t *testing.T, local dragoman.Peer, s *toolhttp.Server, c *toolhttp.Client) dragoman.Conn {
	t.Helper()
	h := httptest.NewServer(mount(s))
	c.URL = h.URL + "/call"
	conn, err := c.Dial(t.Context(), local)
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

// noList is a peer that cannot list its tools, so that none is unknown.
type noList struct{ dragoman.Peer }

func (p noList) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if req.Method() == protocol.MethodListTools {
		return nil, errors.New("there is no list")
	}
	return p.Peer.Call(ctx, req, from)
}
