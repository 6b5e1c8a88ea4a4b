package toolhttp

import (
	"context"
	"sync"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A conn is a conversation without a connection: each call is an HTTP request,
// made by its caller's goroutine.
type conn struct {
	client *Client
	ctx    context.Context // ends with the conversation
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	ended   bool
	calls   int            // under way
	busy    sync.WaitGroup // the same; none is added after the end
	release sync.Once      // releases the client's connections
}

var _ dragoman.Conn = (*conn)(nil)

func newConn(client *Client) *conn {
	c := &conn{client: client}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	return c
}

// enter counts a call, or refuses it.
func (c *conn) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ended:
		return dragoman.ErrClosed
	case c.calls >= MaxCalls:
		return dragoman.ErrOverloaded
	}
	c.calls++
	c.busy.Add(1)
	return nil
}

func (c *conn) leave() {
	c.mu.Lock()
	c.calls--
	c.mu.Unlock()
	c.busy.Done()
}

// Call implements dragoman.Peer.
func (c *conn) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.leave()
	switch req.Method() {
	case protocol.MethodCallTool:
		return c.callTool(ctx, req, from)
	case protocol.MethodListTools:
		return c.listTools(ctx, req)
	}
	return dragoman.Nobody.Call(ctx, req, from)
}

// Notify implements dragoman.Peer. A server without
// conversations takes no notifications.
func (c *conn) Notify(context.Context, *dragoman.Message) error { return c.Err() }

// Close implements dragoman.Conn.
func (c *conn) Close() error {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.cancel(dragoman.ErrClosed)
	c.busy.Wait()
	c.release.Do(c.client.http.Release)
	return nil
}

// Done implements dragoman.Conn.
func (c *conn) Done() <-chan struct{} { return c.ctx.Done() }

// Err implements dragoman.Conn.
func (c *conn) Err() error { return context.Cause(c.ctx) }
