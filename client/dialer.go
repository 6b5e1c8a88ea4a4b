package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A dialer opens the conversations, and remembers what era.Server has no way to
// tell: why the last attempt to reach the server failed, and what the server
// itself said.
type dialer struct {
	inner dragoman.Dialer

	mu       sync.Mutex
	failures int               // so far; guarded by mu
	last     error             // the last of them; guarded by mu
	stderr   []byte            // of the process that failed last; guarded by mu
	revision protocol.Revision // in which the server answered initialize last; guarded by mu
}

// Dial implements dragoman.Dialer.
func (d *dialer) Dial(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error) {
	inner, err := d.inner.Dial(ctx, local)
	if err != nil {
		d.recordFailure(err, nil)
		return nil, err
	}
	return &conn{inner, d}, nil
}

// probe returns a probe whose failures are remembered.
func (d *dialer) probe(probe func(context.Context) (protocol.Era, error)) func(context.Context) (protocol.Era, error) {
	return func(ctx context.Context) (protocol.Era, error) {
		found, err := probe(ctx)
		if err != nil {
			d.recordFailure(err, nil)
		}
		return found, err
	}
}

func (d *dialer) recordFailure(err error, stderr []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failures++
	d.last, d.stderr = err, stderr
}

// count returns how many failures there have been.
func (d *dialer) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failures
}

// failure returns the last failure if there were more than so many, else nil.
func (d *dialer) failure(since int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failures <= since {
		return nil
	}
	return d.last
}

// stderrTail returns what the process that failed last wrote to its standard error.
func (d *dialer) stderrTail() []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stderr
}

// recordInitialize notes the server's answer to initialize.
func (d *dialer) recordInitialize(resp *dragoman.Message) {
	if resp.IsError() {
		d.recordFailure(resp.RPCError(), nil)
		return
	}
	var hello struct{ ProtocolVersion string }
	_ = resp.Decode(&hello) // era judges it
	d.mu.Lock()
	defer d.mu.Unlock()
	d.revision = protocol.ParseRevision(hello.ProtocolVersion)
}

// negotiated returns the revision in which the server answered initialize.
func (d *dialer) negotiated() protocol.Revision {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.revision
}

// A conn is a conversation with the server.
type conn struct {
	dragoman.Conn
	dialer *dialer
}

// Unwrap returns the conversation itself.
func (c *conn) Unwrap() dragoman.Conn { return c.Conn }

// endWait is how long a conversation may take to be over after it has said so.
const endWait = time.Second

// waitUntilOver waits until a conversation that has failed a call because it is over is
// over for everybody. Otherwise the next request might be given to it.
func (c *conn) waitUntilOver(ctx context.Context, err error) {
	if !errors.Is(err, dragoman.ErrClosed) {
		return
	}
	t := time.NewTimer(endWait)
	defer t.Stop()
	select {
	case <-c.Done():
	case <-ctx.Done():
	case <-t.C:
	}
}

// direct is a peer that somebody else reaches for us: whatever it says is the server's
// word.
type direct struct {
	dragoman.Peer
	life context.Context // of the Client
}

// Call implements dragoman.Peer. It ends with the Client.
func (d direct) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if err := context.Cause(d.life); err != nil {
		return nil, err
	}
	if k, ok := ctx.Value(callKey{}).(*call); ok {
		k.reached.Store(true)
		k.answered.Store(true)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(d.life, func() { cancel(context.Cause(d.life)) })()
	return d.Peer.Call(ctx, req, from)
}

// Call implements dragoman.Peer. The call that ctx carries learns that it got
// here, and whether the server itself answered.
func (c *conn) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	k, _ := ctx.Value(callKey{}).(*call)
	if k != nil {
		k.reached.Store(true)
		k.answered.Store(false)
	}
	resp, err := c.Conn.Call(ctx, req, from)
	switch {
	case err != nil && ctx.Err() == nil:
		var stderr []byte
		if p, ok := dragoman.PeerAs[interface{ Stderr() []byte }](c.Conn); ok {
			stderr = p.Stderr()
		}
		c.dialer.recordFailure(err, stderr)
		c.waitUntilOver(ctx, err)
	case err == nil && resp != nil:
		if k != nil {
			k.answered.Store(true)
		}
		if req.Method() == protocol.MethodInitialize {
			c.dialer.recordInitialize(resp)
		}
	}
	return resp, err
}
