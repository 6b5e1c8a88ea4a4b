package up

import (
	"context"
	"encoding/json"
	"strconv"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/syncs"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A Server carries legacy clients to one modern server.
type Server struct {
	link   dragoman.Peer
	opts   Options
	self   json.RawMessage // how we introduce ourselves
	known  syncs.Flight[discovery]
	minted atomic.Int64 // ids of our own

	ctx    context.Context // ends with Close
	cancel context.CancelCauseFunc
	busy   syncs.Group // our goroutines
}

// New returns a Server for the modern server behind link, which all sessions
// share, with all that this server allows. opts may be nil.
func New(link dragoman.Peer, opts *Options) *Server {
	s := &Server{link: link, opts: opts.withDefaults()}
	s.self, _ = json.Marshal(struct { // strings always encode
		Name    string `json:"name"`
		Version string `json:"version"`
	}{s.opts.Name, s.opts.Version})
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s
}

// Accept begins the session of a legacy client. Its state ends when the client's
// conversation does.
func (s *Server) Accept(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
	if s.ctx.Err() != nil {
		return nil, dragoman.ErrClosed
	}
	return &session{server: s, client: client, ctx: dragoman.WithCallerOf(s.ctx, ctx)}, nil
}

// Close ends what sessions hear of changes, requests that wait for input or for
// a task, and refuses all others from then on. It waits for our goroutines.
// Plain calls in flight continue until the link or their callers end them.
func (s *Server) Close() error {
	s.busy.End()
	s.cancel(dragoman.ErrClosed)
	s.busy.Wait()
	return nil
}

// newID returns an id for a request of our own. It is a string: some servers lose
// track of subscriptions whose id is a number.
func (s *Server) newID() dragoman.ID {
	return dragoman.StringID("up-" + strconv.FormatInt(s.minted.Add(1), 10))
}

// request makes a request of our own to the server.
func (s *Server) request(method string, params any, env protocol.Envelope) (*dragoman.Message, error) {
	req, err := dragoman.NewRequest(s.newID(), method, params)
	if err != nil {
		return nil, err
	}
	return env.Put(req)
}

// fault is an error of our own.
func fault(code int, message string) *dragoman.Error {
	return &dragoman.Error{Code: code, Message: message}
}

var (
	_ dragoman.Acceptor = (*Server)(nil)
	_ dragoman.Peer     = (*session)(nil)
	_ dragoman.Peer     = (*clientCall)(nil)
)
