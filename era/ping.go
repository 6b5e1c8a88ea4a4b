package era

import (
	"context"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Ping asks the server whether it is there, in the way of its era. It fails if
// there is no answer; any answer will do. A session with a legacy server is the
// caller's, as with every request.
func (s *Server) Ping(ctx context.Context) error {
	s.once.Do(s.prepare)
	era, err := s.era(ctx)
	if err != nil {
		return err
	}
	req, err := discoverRequest()
	if err != nil {
		return err
	}
	if era == protocol.Legacy {
		return s.down.Ping(ctx, req)
	}
	resp, err := s.link.Call(ctx, req, nil)
	if err != nil {
		return err
	}
	return unanswered(resp)
}

// unanswered returns why the server gave no answer, if the response is not its
// own.
func unanswered(resp *dragoman.Message) error {
	if e := resp.RPCError(); e != nil && protocol.Ours(e) {
		return e
	}
	return nil
}
