package down

import (
	"context"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Ping asks the server whether it is there. req is any request of the caller; it
// says whose session is used.
func (s *Server) Ping(ctx context.Context, req *dragoman.Message) error {
	r, refusal := s.read(ctx, req, nil)
	if refusal != nil {
		return refusal
	}
	v, err := s.pool.get(ctx, &r, false)
	if err != nil {
		return err
	}
	defer s.pool.release(v, false)
	_, err = v.ask(ctx, protocol.MethodPing, nil)
	return err
}
