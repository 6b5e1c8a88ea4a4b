package client

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A Client uses one server. It is safe for concurrent use.
type Client struct {
	opts   Options
	name   string      // of the server, for errors
	server *era.Server // of Connect; nil if we were given a peer
	dialer *dialer     // of server; without one it knows nothing
	side   protocolSide
	era    protocol.Era
	facts  facts
	lastID atomic.Int64

	ctx    context.Context // ends with Close
	cancel context.CancelCauseFunc
	once   sync.Once
	failed error // of Close
}

// A protocolSide is how the server is spoken to, which depends on its era.
type protocolSide interface {
	// open introduces us and returns what the server says about itself.
	open(ctx context.Context) (*facts, error)

	// ask makes a request and carries it to its end.
	ask(ctx context.Context, req *dragoman.Message, k *call) (*dragoman.Message, error)

	ping(ctx context.Context) error
	setLevel(ctx context.Context, level string) error
	subscribe(ctx context.Context, uri string) error
	unsubscribe(ctx context.Context, uri string) error

	// close ends what open began.
	close()
}

// facts is what a server says about itself.
type facts struct {
	Revision     protocol.Revision `json:"-"`
	Info         Info              `json:"serverInfo"`
	Capabilities json.RawMessage   `json:"capabilities"`
	Instructions string            `json:"instructions"`
}

// An Info is how a server introduces itself.
type Info struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Version string `json:"version"`
}

// Connect starts or reaches a server and learns what it is. ctx bounds Connect
// alone. The caller closes the Client. opts may be nil.
func Connect(ctx context.Context, s *Server, opts *Options) (*Client, error) {
	c, err := newConnecting(s, opts)
	if err != nil {
		return nil, err
	}
	if err := c.open(ctx, c.connect); err != nil {
		_ = c.Close() // it never was of use
		return nil, err
	}
	return c, nil
}

// New returns a Client of a peer of the modern era, such as the Requests of an
// [era.Server], whose errors are then the server's. It asks nothing, see Open. Close
// ends the Client and leaves the peer alone. opts may be nil; what it says about the
// era is of no use here.
func New(peer dragoman.Peer, opts *Options) *Client {
	c := newClient("the server", new(dialer), opts)
	c.era, c.side = protocol.Modern, newModern(c, direct{peer, c.ctx})
	return c
}

// Open has the server of New say what it is, before anybody else uses the Client.
// Without that, ServerInfo, Capabilities and Instructions are empty, changes of lists
// are not told, and the newest revision is spoken.
func (c *Client) Open(ctx context.Context) error {
	return c.open(ctx, func(context.Context) error { return nil })
}

// open connects and has the server say what it is.
func (c *Client) open(ctx context.Context, connect func(context.Context) error) error {
	limit, cancel := context.WithTimeoutCause(ctx, c.opts.ConnectTimeout, &dragoman.TimeoutError{After: c.opts.ConnectTimeout})
	defer cancel()
	err := connect(limit)
	if err == nil {
		var f *facts
		if f, err = c.openSide(limit); err == nil {
			c.facts = *f
			return nil
		}
	}
	return c.unconnected(ctx, err)
}

// openSide introduces us, in another era if that turns out to be the server's: what was
// remembered or assumed of it may be wrong.
func (c *Client) openSide(ctx context.Context) (*facts, error) {
	f, err := c.side.open(ctx)
	if c.server == nil {
		return f, err
	}
	if found, ok := c.server.Found(); ok && found != c.era {
		c.side.close()
		c.speak(found)
		return c.side.open(ctx)
	}
	return f, err
}

func newClient(name string, d *dialer, opts *Options) *Client {
	c := &Client{opts: opts.withDefaults(), name: name, dialer: d}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	return c
}

// newConnecting returns a Client of a server, which is not connected yet.
func newConnecting(s *Server, opts *Options) (*Client, error) {
	o := opts.withDefaults()
	t, err := s.target(&o)
	if err != nil {
		return nil, err
	}
	c := newClient(t.Name, &dialer{inner: t.Dialer}, &o)
	c.server = &era.Server{
		Dialer: c.dialer, Era: c.opts.Era, Hint: c.opts.Hint, Stateless: t.Stateless, ProbeTimeout: t.ProbeTimeout, DialTimeout: c.opts.ConnectTimeout,
		Name: c.opts.Name, Version: c.opts.Version, Logger: c.opts.Logger,
	}
	if t.Probe != nil {
		c.server.Probe = c.dialer.probe(t.Probe)
	}
	return c, nil
}

// connect has the server come up and chooses how to speak to it.
func (c *Client) connect(ctx context.Context) error {
	found, err := c.server.Start(ctx)
	if err == nil {
		c.speak(found)
	}
	return err
}

// speak chooses how to speak to a server of an era.
func (c *Client) speak(found protocol.Era) {
	if c.era = found; found == protocol.Modern {
		c.side = newModern(c, c.server.Requests())
	} else {
		c.side = &legacy{client: c}
	}
}

// Era returns the era that is spoken with the server.
func (c *Client) Era() protocol.Era { return c.era }

// Revision returns the revision that the server speaks.
func (c *Client) Revision() protocol.Revision { return c.facts.Revision }

// ServerInfo returns how the server introduced itself.
func (c *Client) ServerInfo() Info { return c.facts.Info }

// Capabilities returns what the server can do, as it said so: a JSON object.
func (c *Client) Capabilities() json.RawMessage { return c.facts.Capabilities }

// Can reports whether the server has a capability, such as "tools" or "logging".
func (c *Client) Can(capability string) bool {
	var all map[string]json.RawMessage
	_ = json.Unmarshal(c.facts.Capabilities, &all) // what cannot be read is not there
	return all[capability] != nil
}

// Instructions returns what the server tells models about its use.
func (c *Client) Instructions() string { return c.facts.Instructions }

// Close ends what Connect began, stops a server that we started, and waits for
// that. Requests in flight fail. It must not be called by a Handler or by
// OnNotification, which it waits for.
func (c *Client) Close() error {
	c.once.Do(func() {
		c.cancel(dragoman.ErrClosed)
		if c.side != nil {
			c.side.close()
		}
		if c.server != nil {
			c.failed = c.server.Close()
		}
	})
	return c.failed
}

// Done is closed by Close. The loss of a conversation does not end a Client: the
// next request opens another.
func (c *Client) Done() <-chan struct{} { return c.ctx.Done() }

// Err is nil before Done is closed, and [dragoman.ErrClosed] afterwards.
func (c *Client) Err() error { return context.Cause(c.ctx) }

// newID returns an id for a request.
func (c *Client) newID() dragoman.ID { return dragoman.IntID(c.lastID.Add(1)) }

// answer answers a question of the server.
func (c *Client) answer(ctx context.Context, req *dragoman.Message) (*dragoman.Message, error) {
	if req.Method() == protocol.MethodPing {
		return req.Reply(nil)
	}
	handle := c.opts.handler(req.Method(), req.Params())
	if handle == nil {
		return req.Fail(&dragoman.Error{Code: protocol.CodeMethodNotFound, Message: "method not found: this client cannot be asked " + req.Method()}), nil
	}
	result, err := c.handle(ctx, handle, req.Params())
	if e, ok := errors.AsType[*dragoman.Error](err); ok {
		return req.Fail(e), nil
	}
	if err != nil {
		return req.Fail(&dragoman.Error{Code: protocol.CodeInternal, Message: "Internal error: " + err.Error()}), nil //nolint:nilerr // that is the answer
	}
	return req.Reply(result)
}

// handle has a handler answer, and encodes the answer.
func (c *Client) handle(ctx context.Context, handle Handler, params json.RawMessage) (json.RawMessage, error) {
	result, err := handle(ctx, params)
	if err != nil {
		return nil, err
	}
	switch text := result.(type) {
	case json.RawMessage:
		return text, nil
	case []byte:
		return text, nil
	}
	return json.Marshal(result)
}

// notify calls OnNotification, if there is one.
func (c *Client) notify(note *dragoman.Message) {
	if c.opts.OnNotification != nil {
		c.opts.OnNotification(note)
	}
}
