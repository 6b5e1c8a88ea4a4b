package manager

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
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

// limited passes a request on that may take so long, counted anew with each
// progress and not while the server waits for an answer of the client.
func limited(ctx context.Context, peer dragoman.Peer, req *dragoman.Message, from dragoman.Peer, limit time.Duration) (*dragoman.Message, error) {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := fmt.Errorf("%w: the server gave no answer within %v", context.DeadlineExceeded, limit)
	c := &clock{Peer: from, limit: limit, timer: time.AfterFunc(limit, func() { cancel(late) })}
	defer c.timer.Stop()
	if from != nil {
		from = c
	}
	resp, err := peer.Call(inner, req, from)
	if err != nil && inner.Err() != nil && ctx.Err() == nil {
		return protocol.Failure(req, late), nil
	}
	return resp, err
}

// A clock is a caller whose request has a limit.
type clock struct {
	dragoman.Peer
	limit time.Duration
	timer *time.Timer

	mu    sync.Mutex
	asked int // questions without an answer
}

// Call stops the clock while the server waits.
func (c *clock) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	c.mu.Lock()
	c.asked++
	c.timer.Stop()
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.asked--; c.asked == 0 {
			c.timer.Reset(c.limit)
		}
	}()
	return c.Peer.Call(ctx, req, from)
}

// Notify begins to count anew if it is about progress.
func (c *clock) Notify(ctx context.Context, note *dragoman.Message) error {
	if note.Method() == protocol.NoteProgress {
		c.mu.Lock()
		if c.asked == 0 {
			c.timer.Reset(c.limit)
		}
		c.mu.Unlock()
	}
	return c.Peer.Notify(ctx, note)
}
