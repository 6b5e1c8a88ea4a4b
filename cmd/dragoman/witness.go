package main

import (
	"context"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman"
)

// A witness is a dialer that remembers, while a server comes up, why a call on
// one of its conversations got no answer.
type witness struct {
	dragoman.Dialer
	over atomic.Bool // the server has come up, or it never will
	last atomic.Pointer[error]
}

// Dial implements dragoman.Dialer.
func (w *witness) Dial(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error) {
	conn, err := w.Dialer.Dial(ctx, local)
	if err != nil || w.over.Load() {
		return conn, err
	}
	return &witnessed{conn, w}, nil
}

// failure returns the reason, or nil if every call was answered.
func (w *witness) failure() error {
	if err := w.last.Load(); err != nil {
		return *err
	}
	return nil
}

// A witnessed is a conversation that was opened while the server came up.
type witnessed struct {
	dragoman.Conn
	witness *witness
}

// Unwrap returns the conversation itself, for what can be said to that alone.
func (c *witnessed) Unwrap() dragoman.Conn { return c.Conn }

// Call implements dragoman.Peer.
func (c *witnessed) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	resp, err := c.Conn.Call(ctx, req, from)
	if err != nil {
		c.witness.last.Store(&err)
	}
	return resp, err
}
