// Package event says what happens in a gateway to whoever observes it: an [Observer] is told of
// each request and its response, of all messages while it watches, and nothing of it adds a step
// to the path of a call. The gateway calls observers at its endpoints and where a server is
// reached; package observe holds the consumers.
package event

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A Role says what a Link is a point of.
type Role int

const (
	// ServerEndpoint is an endpoint with one server behind it.
	ServerEndpoint Role = iota

	// AggregateEndpoint is an endpoint with several servers behind it as one. What each of
	// them is asked for its requests is observed at a Member.
	AggregateEndpoint

	// Member is a server of an aggregate.
	Member

	// Builtin is an endpoint with the built-in server behind it, which no configuration names.
	Builtin

	// Connection is a connection to a server: what the server really gets and says.
	Connection
)

// A Link is a session or a connection at a point of observation, or all requests there that
// belong to no session.
type Link struct {
	Role    Role
	Server  string           // its name; that of an aggregate is its endpoint's, or ""
	Session string           // tells sessions apart in what people are shown; "" if there is none
	Caller  *dragoman.Caller // who began the session; nil if each request has its own

	client atomic.Pointer[string] // what the client of a session calls itself, once it has
}

// ClientName returns what the client of a session calls itself, or "".
func (l *Link) ClientName() string {
	if name := l.client.Load(); name != nil {
		return *name
	}
	return ""
}

// callerOf returns whose a request is.
func (l *Link) callerOf(ctx context.Context) *dragoman.Caller {
	if l.Caller != nil {
		return l.Caller
	}
	return dragoman.CallerOf(ctx)
}

// A Direction says which way a message goes.
type Direction int

// The directions of messages.
const (
	ToServer Direction = iota
	ToClient
)

// A Passing is one message on its way, at a link.
type Passing struct {
	*Link
	Direction Direction
	Message   *dragoman.Message // nil if there is no response
	Err       error             // why there is none

	// Of a response: its request, and when that passed.
	Request *dragoman.Message
	Began   time.Time
}

// An Exchange is one request and what becomes of it. Observers may keep it until End returns.
type Exchange struct {
	*Link
	Request *dragoman.Message
	Caller  *dragoman.Caller
	Began   time.Time

	// Parent is the request to an aggregate on behalf of which a member is asked; nil if
	// there is none.
	Parent *Exchange

	// Known at End.
	Response *dragoman.Message // nil if there is none
	Err      error             // why there is none
	Refusal  *Refusal          // by a step of ours, if one refused it

	mu     sync.Mutex
	served *Exchange // see Served
}

// A Refusal is an error with which a step of the gateway refuses a request, on its way to the
// point of observation, which makes a response of it.
type Refusal struct {
	Rule     string          // that denies it; "" if none does
	Admitted bool            // it was within the limits of its caller and session
	Answer   *dragoman.Error // what the client gets
}

// Error implements error.
func (r *Refusal) Error() string {
	if r.Rule == "" {
		return r.Answer.Message
	}
	return r.Rule + ": " + r.Answer.Message
}

// Served returns the exchange with the member that a request to an aggregate was passed on to:
// the one with a response, if there are several. It is nil for lists and the like, which are a
// matter of all members.
func (x *Exchange) Served() *Exchange {
	if method := x.Request.Method(); protocol.IsList(method) || protocol.IsUpkeep(method) {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.served
}

// serve notes the exchange with a member. Another method is asked to find out who is meant.
func (x *Exchange) serve(by *Exchange) {
	if by.Request.Method() != x.Request.Method() {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.served == nil || !x.served.Answered() {
		x.served = by
	}
}

// Answered reports whether there is a response that is no error.
func (x *Exchange) Answered() bool { return x.Response != nil && !x.Response.IsError() }

// Cancelled reports whether the caller gave the request up.
func (x *Exchange) Cancelled() bool {
	return errors.Is(x.Err, dragoman.ErrCancelled) || errors.Is(x.Err, context.Canceled)
}

// An Observer is told what happens. Its methods are called by many goroutines, and must not block.
type Observer interface {
	// Begin is called before a request is passed on. If it fails, the request is not.
	Begin(ctx context.Context, x *Exchange) error

	// End is called when it is known what became of a request.
	End(ctx context.Context, x *Exchange)

	// Watches reports whether Message is to be called for the messages of a link.
	Watches(ctx context.Context, l *Link) bool

	// Message is called with each message, when it passes.
	Message(ctx context.Context, p *Passing)

	// Event is called with what happens beside requests.
	Event(ctx context.Context, e *Event)
}

// Observers are several as one.
type Observers []Observer

// Begin implements Observer. The first failure counts.
func (list Observers) Begin(ctx context.Context, x *Exchange) error {
	for _, o := range list {
		if err := o.Begin(ctx, x); err != nil {
			return err
		}
	}
	return nil
}

// End implements Observer.
func (list Observers) End(ctx context.Context, x *Exchange) {
	for _, o := range list {
		o.End(ctx, x)
	}
}

// Watches implements Observer.
func (list Observers) Watches(ctx context.Context, l *Link) bool {
	for _, o := range list {
		if o.Watches(ctx, l) {
			return true
		}
	}
	return false
}

// Message implements Observer.
func (list Observers) Message(ctx context.Context, p *Passing) {
	for _, o := range list {
		if o.Watches(ctx, p.Link) {
			o.Message(ctx, p)
		}
	}
}

// Event implements Observer.
func (list Observers) Event(ctx context.Context, e *Event) {
	for _, o := range list {
		o.Event(ctx, e)
	}
}

type exchangeKey struct{}

// Of returns the request to an aggregate that ctx belongs to, or nil.
func Of(ctx context.Context) *Exchange {
	x, _ := ctx.Value(exchangeKey{}).(*Exchange)
	return x
}

// A peer is a server, or several as one, at a point of observation.
type peer struct {
	dragoman.Peer
	point Point
}

// Observe returns a peer whose requests and messages are observed.
func Observe(p dragoman.Peer, l *Link, by Observers) dragoman.Peer { return &peer{p, Point{l, by}} }

// Unwrap returns the peer itself.
func (p *peer) Unwrap() dragoman.Peer { return p.Peer }

// Call implements dragoman.Peer. Each request has an id, under which it is logged.
func (p *peer) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if !httpframe.HasRequestID(ctx) {
		ctx = httpframe.WithNewRequestID(ctx)
	}
	link, by := p.point.Link, p.point.By
	x := &Exchange{Link: link, Request: req, Caller: link.callerOf(ctx), Began: time.Now()}
	inner := ctx
	switch link.Role {
	case Member:
		x.Parent = Of(ctx)
	case AggregateEndpoint:
		inner = context.WithValue(ctx, exchangeKey{}, x)
	}
	if link.Caller != nil && req.Method() == protocol.MethodInitialize {
		name := strings.Clone(redact.Clip(protocol.ClientName(req))) // and nothing else of the message
		link.client.Store(&name)
	}
	watched := by.Watches(ctx, link)
	if watched {
		by.Message(ctx, &Passing{Link: link, Direction: ToServer, Message: req})
		if from != nil {
			from = &client{from, p.point}
		}
	}
	err := by.Begin(ctx, x)
	switch {
	case err == nil:
		x.Response, x.Err = p.Peer.Call(inner, req, from)
	case ctx.Err() != nil:
		x.Err = err
	default: // what cannot be written down is not passed on
		return req.Fail(protocol.Overloaded(err.Error())), nil
	}
	if r, ok := errors.AsType[*Refusal](x.Err); ok {
		x.Refusal, x.Response, x.Err = r, req.Fail(r.Answer), nil
	}
	if watched {
		by.Message(ctx, &Passing{Link: link, Direction: ToClient, Message: x.Response, Err: x.Err, Request: req, Began: x.Began})
	}
	if x.Parent != nil {
		x.Parent.serve(x)
	}
	by.End(ctx, x)
	return x.Response, x.Err
}

// Notify implements dragoman.Peer.
func (p *peer) Notify(ctx context.Context, note *dragoman.Message) error {
	p.point.Note(ctx, ToServer, note)
	return p.Peer.Notify(ctx, note)
}

// A Point is a link with those who observe it, for peers that have their messages observed
// themselves.
type Point struct {
	*Link
	By Observers
}

// Note has a notification observed.
func (p *Point) Note(ctx context.Context, to Direction, note *dragoman.Message) {
	if p.By.Watches(ctx, p.Link) {
		p.By.Message(ctx, &Passing{Link: p.Link, Direction: to, Message: note})
	}
}

// Relay makes a request of a peer, with its messages observed.
func (p *Point) Relay(ctx context.Context, to Direction, next dragoman.Peer, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if !p.By.Watches(ctx, p.Link) {
		return next.Call(ctx, req, from)
	}
	back, began := ToClient, time.Now()
	if to == ToClient {
		back = ToServer
	} else if from != nil {
		from = &client{from, *p}
	}
	p.By.Message(ctx, &Passing{Link: p.Link, Direction: to, Message: req})
	resp, err := next.Call(ctx, req, from)
	p.By.Message(ctx, &Passing{Link: p.Link, Direction: back, Message: resp, Err: err, Request: req, Began: began})
	return resp, err
}

// A client is who gets the requests and notifications of a server: the client of a session, or
// the one that has made a request.
type client struct {
	dragoman.Peer
	point Point
}

// Client returns a client whose requests and notifications are observed at a point.
func (p Point) Client(c dragoman.Peer) dragoman.Peer { return &client{c, p} }

// Unwrap returns the client itself.
func (c *client) Unwrap() dragoman.Peer { return c.Peer }

// Call implements dragoman.Peer.
func (c *client) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	return c.point.Relay(ctx, ToClient, c.Peer, req, from)
}

// Notify implements dragoman.Peer.
func (c *client) Notify(ctx context.Context, note *dragoman.Message) error {
	c.point.Note(ctx, ToClient, note)
	return c.Peer.Notify(ctx, note)
}

// A clientConn is the client of a session.
type clientConn struct {
	dragoman.Conn
	client client
}

// ObserveClient returns the connection of a client whose messages are observed.
func ObserveClient(c dragoman.Conn, l *Link, by Observers) dragoman.Conn {
	return &clientConn{c, client{c, Point{l, by}}}
}

// Unwrap returns the connection itself.
func (c *clientConn) Unwrap() dragoman.Conn { return c.Conn }

// Call implements dragoman.Peer.
func (c *clientConn) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	return c.client.Call(ctx, req, from)
}

// Notify implements dragoman.Peer.
func (c *clientConn) Notify(ctx context.Context, note *dragoman.Message) error {
	return c.client.Notify(ctx, note)
}

// Dialer returns a dialer whose connections to a server are observed.
func Dialer(d dragoman.Dialer, l *Link, by Observers) dragoman.Dialer {
	return dragoman.DialFunc(func(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error) {
		point := Point{l, by}
		if local != nil {
			local = point.Client(local)
		}
		c, err := d.Dial(ctx, local)
		if err != nil {
			return nil, err
		}
		return &serverConn{c, point}, nil
	})
}

// A serverConn is a connection to a server.
type serverConn struct {
	dragoman.Conn
	point Point
}

// Unwrap returns the connection itself.
func (c *serverConn) Unwrap() dragoman.Conn { return c.Conn }

// Call implements dragoman.Peer.
func (c *serverConn) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	return c.point.Relay(ctx, ToServer, c.Conn, req, from)
}

// Notify implements dragoman.Peer.
func (c *serverConn) Notify(ctx context.Context, note *dragoman.Message) error {
	c.point.Note(ctx, ToServer, note)
	return c.Conn.Notify(ctx, note)
}
