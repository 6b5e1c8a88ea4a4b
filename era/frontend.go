package era

import (
	"context"
	"crypto/rand"
	"log/slog"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/up"
	"github.com/dragoman-mcp/dragoman/internal/util/syncs"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A Frontend lets clients of both eras to a peer of the modern era: requests of modern
// clients are passed on, sessions of legacy ones cross over.
type Frontend struct {
	ctx    context.Context // ends with Close
	cancel context.CancelCauseFunc
	busy   syncs.Group // our goroutines

	peer  dragoman.Peer // answers requests of the modern era
	up    *up.Server
	begin func(context.Context, *frontConn, *dragoman.Caller) (dragoman.Peer, error) // begins a legacy session
	start func(func()) bool                                                          // runs begin
	ended func(context.Context)                                                      // may be nil

	revisions      []protocol.Revision // that are served, newest first
	legacy, modern bool                // there are some of the era
}

// FrontendOptions configures a Front. The zero value is ready to use.
type FrontendOptions struct {
	// Name and Version are what we call ourselves where the peer does not say who it
	// is. If empty, they are "dragoman" and "0.0.0".
	Name, Version string

	// Ended is called when a session of a legacy client has ended, with the context
	// of its requests. It may be nil.
	Ended func(context.Context)

	// Revisions are those that are served, of one era or both; all if it is nil. Clients of
	// an era that is not served are refused.
	Revisions []protocol.Revision

	// Legacy begins the sessions of legacy clients, of a server that serves them itself. If
	// nil, they are translated.
	Legacy dragoman.Acceptor

	// The rest is for servers that FromMethods makes.

	// Info is how the server introduces itself, an object with a name and a version; if nil,
	// it has those above. Instructions are for the model.
	Info         any
	Instructions string

	// Logs says that calls send log messages.
	Logs bool

	// Cache says for how long and for whom ("public" or "private") a result may be cached
	// that does not say so. If nil, it may not. A result that holds answers of the client
	// never may.
	Cache func(req *dragoman.Message) (ttl time.Duration, scope string)

	// Changes serves subscriptions/listen. If nil, the methods do, if at all.
	Changes *Changes

	// Logger receives what goes wrong. If nil, nothing is logged.
	Logger *slog.Logger
}

// served returns the revisions that are served, newest first.
func (o *FrontendOptions) served() []protocol.Revision {
	if o.Revisions == nil {
		return protocol.Revisions()
	}
	served := slices.Sorted(slices.Values(o.Revisions))
	slices.Reverse(served)
	return served
}

// NewFrontend returns a front of a peer. opts may be nil.
func NewFrontend(peer dragoman.Peer, opts *FrontendOptions) *Frontend {
	if opts == nil {
		opts = new(FrontendOptions)
	}
	f := new(Frontend)
	f.prepare(closablePeer{peer, f}, opts)
	f.begin = f.cross
	if opts.Legacy != nil {
		f.start = syncs.OnCaller // it does not wait for a server
		f.begin = func(ctx context.Context, c *frontConn, _ *dragoman.Caller) (dragoman.Peer, error) {
			return opts.Legacy.Accept(ctx, c.client)
		}
	}
	return f
}

func (f *Frontend) prepare(peer dragoman.Peer, opts *FrontendOptions) {
	f.ctx, f.cancel = context.WithCancelCause(context.Background())
	f.peer, f.start, f.ended, f.revisions = peer, f.busy.Start, opts.Ended, opts.served()
	serves := func(e protocol.Era) bool {
		return slices.ContainsFunc(f.revisions, func(r protocol.Revision) bool { return r.Era() == e })
	}
	f.legacy, f.modern = serves(protocol.Legacy), serves(protocol.Modern)
	if !f.modern {
		f.peer = dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			return f.refuse(req), nil
		}}
	}
	f.up = up.New(peer, &up.Options{Name: opts.Name, Version: opts.Version, Revisions: f.revisions, Logger: opts.Logger})
}

// refuse answers a request in an era that is not served.
func (f *Frontend) refuse(req *dragoman.Message) *dragoman.Message {
	version, _ := dragoman.Text(req.Meta(protocol.MetaProtocolVersion))
	if !protocol.IsModern(req) {
		version = protocol.VersionOf(req)
	}
	return req.Fail(protocol.Unsupported(version, protocol.Names(f.revisions)))
}

// Requests returns the peer that answers requests of the modern era.
func (f *Frontend) Requests() dragoman.Peer { return f.peer }

// Accept begins a conversation with a client of either era. It takes sessions, and
// transports whose conversations carry both eras.
func (f *Frontend) Accept(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
	if f.ctx.Err() != nil {
		return nil, dragoman.ErrClosed
	}
	return &frontConn{front: f, client: client, caller: dragoman.CallerOf(ctx)}, nil
}

// Close cuts what is in flight, refuses all else from then on, and waits for our
// goroutines.
func (f *Frontend) Close() error {
	f.cancel(dragoman.ErrClosed)
	err := f.up.Close()
	f.busy.Wait()
	return err
}

// cross begins a session of a legacy client that needs the crossing.
func (f *Frontend) cross(_ context.Context, c *frontConn, caller *dragoman.Caller) (dragoman.Peer, error) {
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
	front *Frontend
}

// Unwrap returns the peer itself.
func (p closablePeer) Unwrap() dragoman.Peer { return p.Peer }

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
	return withLegacy(resp, p.front.revisions)
}

// A frontConn is one with a client, whose messages tell which era they are
// of. What belongs to the legacy era goes to a session that its first message
// begins.
type frontConn struct {
	front  *Frontend
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
	switch initialize := req.Method() == protocol.MethodInitialize; {
	case c.front.modern && protocol.IsModern(req), !c.front.legacy && !initialize:
		return c.front.peer.Call(dragoman.WithCaller(ctx, c.caller), req, from)
	case !c.front.legacy:
		return c.front.refuse(req), nil
	}
	v, ok := c.legacy.Peek()
	if !ok {
		var err error
		v, err = c.legacy.Get(ctx, c.front.start, func() (frontSession, error) { return c.begin(dragoman.WithCallerOf(c.front.ctx, ctx), req) })
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
