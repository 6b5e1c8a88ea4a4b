package gateway

import (
	"context"
	"log/slog"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/manager"
)

// A single is one server as its own doors see it: with the tools that are
// offered, and on the record.
type single struct {
	up  *manager.Upstream
	log *slog.Logger
}

func newSingle(up *manager.Upstream, log *slog.Logger) *single { return &single{up, log} }

func (s *single) served() *Served {
	return &Served{Acceptor: s, Sessions: s, Requests: s.around(s.up.Requests())}
}

// Accept begins a conversation with a client.
func (s *single) Accept(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
	peer, err := s.up.Accept(ctx, client)
	if err != nil {
		return nil, err
	}
	return s.around(peer), nil
}

func (s *single) around(p dragoman.Peer) dragoman.Peer {
	return &filter{Peer: recorder{p, s.up.Name(), s.log}, server: s.up}
}
