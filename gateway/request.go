package gateway

import (
	"context"
	"log/slog"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A recorder is a peer that logs what it is asked, under the id of the request,
// which travels on with it.
type recorder struct {
	dragoman.Peer
	server string
	log    *slog.Logger
}

// Call implements dragoman.Peer.
func (p recorder) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if httpx.RequestID(ctx) == "" {
		ctx = httpx.WithRequestID(ctx, httpx.NewRequestID())
	}
	began := time.Now()
	resp, err := p.Peer.Call(ctx, req, from)
	level, outcome := slog.LevelDebug, "answered"
	switch {
	case err != nil:
		level, outcome = slog.LevelInfo, err.Error()
	case resp != nil && resp.IsError():
		e := resp.RPCError()
		outcome = e.Message
		if protocol.Ours(e) {
			level = slog.LevelWarn
		}
	}
	if p.log.Enabled(ctx, level) {
		p.log.LogAttrs(ctx, level, "call", slog.String("request", httpx.RequestID(ctx)), slog.String("server", p.server),
			slog.String("method", req.Method()), slog.String("name", req.Name()),
			slog.Duration("took", time.Since(began).Round(time.Microsecond)), slog.String("outcome", outcome))
	}
	return resp, err
}
