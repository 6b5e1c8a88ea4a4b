package manager

import (
	"context"
	"errors"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// limitOf returns how long a request may take if that differs from what era sees
// to; zero if it does not.
func (u *Upstream) limitOf(req *dragoman.Message) time.Duration {
	tools := u.conf.Load().Tools.Timeout
	if len(tools) == 0 || req.Method() == protocol.MethodListen {
		return 0
	}
	if req.Method() == protocol.MethodCallTool {
		if d, ok := tools[req.Name()]; ok {
			return d
		}
	}
	return u.set.timeout
}

// limited is era.Limited with an answer for who waited in vain.
func limited(ctx context.Context, peer dragoman.Peer, req *dragoman.Message, from dragoman.Peer, limit time.Duration) (*dragoman.Message, error) {
	resp, err := era.Limited(ctx, peer, req, from, limit)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return protocol.Failure(req, err), nil
	}
	return resp, err
}
