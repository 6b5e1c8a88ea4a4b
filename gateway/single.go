package gateway

import (
	"context"
	"log/slog"
	"reflect"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/config"
	"github.com/dragoman-mcp/dragoman/manager"
)

// A single is one server as its own doors see it: with the tools that are
// offered, and on the record.
type single struct {
	up        *manager.Upstream
	log       *slog.Logger
	listeners listeners
	offers    config.Tools // that the listeners know of; of who applies configurations
}

func newSingle(up *manager.Upstream, log *slog.Logger) *single {
	return &single{up: up, log: log, offers: up.Config().Tools}
}

func (s *single) served() *Served {
	return &Served{Acceptor: s, Sessions: s, Requests: s.around(s.up.Requests(), nil)}
}

// Accept begins a conversation with a client.
func (s *single) Accept(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
	peer, err := s.up.Accept(ctx, client)
	if err != nil {
		return nil, err
	}
	return s.around(peer, client), nil
}

func (s *single) around(p dragoman.Peer, client dragoman.Conn) dragoman.Peer {
	return &filter{Peer: recorder{p, s.up.Name(), s.log}, single: s, client: client}
}

// announce tells the listeners if a new configuration offers other tools than the one
// before, or in another way.
func (s *single) announce() {
	now := s.up.Config().Tools
	if !sameOffer(s.offers, now) {
		s.offers = now
		s.listeners.tell()
	}
}

// sameOffer reports whether two configurations offer the same tools, as far as the
// server alone is concerned.
func sameOffer(a, b config.Tools) bool {
	a.Timeout, b.Timeout, a.Prefix, b.Prefix = nil, nil, nil, nil
	return reflect.DeepEqual(a, b)
}
