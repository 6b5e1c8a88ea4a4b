package era

import (
	"context"
	"crypto/rand"
	"log/slog"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/up"
	"github.com/dragoman-mcp/dragoman/internal/util/syncs"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A Front lets clients of both eras to a peer of the modern era: requests of modern
// clients are passed on, sessions of legacy ones cross over.
type Front struct {
	ctx    context.Context // ends with Close
	cancel context.CancelCauseFunc
	busy   syncs.Group // our goroutines

	peer  dragoman.Peer // answers requests of the modern era
	up    *up.Server
	begin func(context.Context, *frontConn, *dragoman.Caller) (dragoman.Peer, error) // begins a legacy session
	ended func(context.Context)                                                      // may be nil
}

// FrontOptions configures a Front. The zero value is ready to use.
type FrontOptions struct {
	// Name and Version are what we call ourselves where the peer does not say who it
	// is. If empty, they are "dragoman" and "0.0.0".
	Name, Version string

	// Ended is called when a session of a legacy client has ended, with the context
	// of its requests. It may be nil.
	Ended func(context.Context)

	// Changes serves subscriptions/listen of a server that FromMethods makes. If nil,
	// its methods do, if at all.
	Changes *Changes

	// Logger receives what goes wrong. If nil, nothing is logged.
	Logger *slog.Logger
}

// NewFront returns a front of a peer. opts may be nil.
func NewFront(peer dragoman.Peer, opts *FrontOptions) *Front {
	if opts == nil {
		opts = new(FrontOptions)
	}
	f := new(Front)
	f.prepare(closablePeer{peer, f}, opts)
	f.begin = f.cross
	return f
}

func (f *Front) prepare(peer dragoman.Peer, opts *FrontOptions) {
	f.ctx, f.cancel = context.WithCancelCause(context.Background())
	f.peer, f.ended = peer, opts.Ended
	f.up = up.New(peer, &up.Options{Name: opts.Name, Version: opts.Version, Logger: opts.Logger})
}

// Requests returns the peer that answers requests of the modern era.
func (f *Front) Requests() dragoman.Peer { return f.peer }

// Accept begins a conversation with a client of either era. Sessions come in by it, and
// transports whose conversations carry both eras.
func (f *Front) Accept(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
	if f.ctx.Err() != nil {
		return nil, dragoman.ErrClosed
	}
	return &frontConn{front: f, client: client, caller: dragoman.CallerOf(ctx)}, nil
}

// Close cuts what is under way, refuses all else from then on, and waits for our
// goroutines.
func (f *Front) Close() error {
	f.cancel(dragoman.ErrClosed)
	err := f.up.Close()
	f.busy.Wait()
	return err
}

// cross begins a session of a legacy client that needs the crossing.
func (f *Front) cross(_ context.Context, c *frontConn, caller *dragoman.Caller) (dragoman.Peer, error) {
	client, ctx := c.client, dragoman.WithCaller(context.Background(), caller)
	peer, err := f.up.Accept(ctx, client)
	if err == nil && f.ended != nil {
		// Ends with the client, or with the front.
		f.busy.Start(func() {
			select {
			case <-client.Done():
			case <-f.ctx.Done():
			}
			f.ended(ctx)
		})
	}
	return peer, err
}

// A closablePeer passes requests on until its front is closed, which cuts those under
// way. What it says of itself names the legacy revisions too.
type closablePeer struct {
	dragoman.Peer
	front *Front
}

// Call implements dragoman.Peer.
func (p closablePeer) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if p.front.ctx.Err() != nil {
		return nil, dragoman.ErrClosed
	}
	ctx, cancel := context.WithCancelCause(protocol.Identify(ctx, req))
	defer cancel(nil)
	defer context.AfterFunc(p.front.ctx, func() { cancel(dragoman.ErrClosed) })()
	resp, err := p.Peer.Call(ctx, req, from)
	if err != nil || req.Method() != protocol.MethodDiscover {
		return resp, err
	}
	return withLegacy(resp)
}

// A frontConn is one with a client, whose messages tell which era they are
// of. What belongs to the legacy era goes to a session that its first message
// begins.
type frontConn struct {
	front  *Front
	client dragoman.Conn
	caller *dragoman.Caller
	legacy syncs.Flight[frontSession] // replaced when the session crosses over
}

// A frontSession is the legacy side of a conversation.
type frontSession struct {
	dragoman.Peer
	caller *dragoman.Caller
}

// Call implements dragoman.Peer.
func (c *frontConn) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if protocol.IsModern(req) {
		return c.front.peer.Call(dragoman.WithCaller(ctx, c.caller), req, from)
	}
	v, ok := c.legacy.Peek()
	if !ok {
		var err error
		v, err = c.legacy.Get(ctx, c.front.busy.Start, func() (frontSession, error) { return c.begin(dragoman.WithCallerOf(c.front.ctx, ctx), req) })
		if err != nil {
			return unavailable(ctx, req, err)
		}
	}
	return v.Call(dragoman.WithCaller(ctx, v.caller), req, from)
}

// Notify implements dragoman.Peer.
func (c *frontConn) Notify(ctx context.Context, note *dragoman.Message) error {
	v, ok := c.legacy.Peek()
	if !ok || protocol.IsModern(note) {
		return nil // nothing has begun that this could be about
	}
	return v.Notify(dragoman.WithCaller(ctx, v.caller), note)
}

// begin begins the client's session, by its first request.
func (c *frontConn) begin(ctx context.Context, req *dragoman.Message) (frontSession, error) {
	caller := *c.caller
	if caller.Client == "" {
		caller.Client = protocol.ClientName(req)
	}
	if caller.Session == "" {
		caller.Session = rand.Text()
	}
	peer, err := c.front.begin(ctx, c, &caller)
	return frontSession{peer, &caller}, err
}
