package era

import (
	"context"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A conversation is one with a client, whose messages tell which era they are
// of. What belongs to the legacy era goes to a peer that its first message
// brings about.
type conversation struct {
	server *Server
	client dragoman.Conn
	opened context.Context // by whom
	legacy flight[dragoman.Peer]
}

// Call implements dragoman.Peer.
func (c *conversation) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	ctx = dragoman.As(ctx, c.opened)
	if protocol.IsModern(req) {
		return requests{c.server}.Call(ctx, req, from)
	}
	peer, err := c.session(ctx)
	if err != nil {
		return unavailable(ctx, req, err)
	}
	return peer.Call(ctx, req, from)
}

// Notify implements dragoman.Peer.
func (c *conversation) Notify(ctx context.Context, note *dragoman.Message) error {
	if protocol.IsModern(note) {
		return nil
	}
	peer, ok := c.legacy.peek()
	if !ok {
		return nil // nothing has begun that this could be about
	}
	return peer.Notify(ctx, note)
}

// session returns who answers in the legacy era.
func (c *conversation) session(ctx context.Context) (dragoman.Peer, error) {
	if peer, ok := c.legacy.peek(); ok {
		return peer, nil
	}
	return c.legacy.get(ctx, c.server, c.accept)
}

func (c *conversation) accept(ctx context.Context) (dragoman.Peer, error) {
	s := c.server
	era, err := s.era(ctx)
	switch {
	case err != nil:
		return nil, err
	case era == protocol.Modern:
		return s.up.Accept(c.opened, c.client)
	case s.Isolation != PerSession:
		return s.round.Accept(c.opened, c.client)
	}
	return newStraight(s, c.client), nil
}
