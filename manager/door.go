package manager

import (
	"context"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Requests is the door for requests of the modern era.
func (u *Upstream) Requests() dragoman.Peer { return requests{u} }

type requests struct{ up *Upstream }

// Call implements dragoman.Peer. What comes when the upstream is being retired, or has
// not been sent by then, goes to the one in its place.
func (d requests) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	resp, err := d.call(ctx, req, from)
	if err == nil && resp != nil && resp.IsError() && resp.RPCError().Code == protocol.CodeDraining {
		if next := d.up.successor(); next != nil {
			return requests{next}.Call(ctx, req, from)
		}
	}
	return resp, err
}

func (d requests) call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	u := d.up
	if e := u.shut(); e != nil {
		return req.Fail(e), nil
	}
	if resp := u.fromCache(req); resp != nil {
		return resp, nil
	}
	i, err := u.take(ctx)
	if err != nil {
		return answer(ctx, req, err)
	}
	defer i.leave()
	var patience time.Duration
	if isKept(req.Method()) {
		patience = MaxListWait
	}
	return u.pass(ctx, i, patience, req, from, func() (dragoman.Peer, error) { return i.server.Requests(), nil })
}

// Notify implements dragoman.Peer. A modern client has nothing to tell a server.
func (d requests) Notify(context.Context, *dragoman.Message) error { return nil }

// Accept begins a conversation with a client of either era. It implements
// dragoman.Acceptor.
func (u *Upstream) Accept(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
	if e := u.shut(); e != nil {
		return nil, e
	}
	return &conversation{up: u, client: client, caller: dragoman.CallerOf(ctx)}, nil
}

// End closes what is open for the session of a client that ctx is of.
func (u *Upstream) End(ctx context.Context) {
	for _, i := range u.all() {
		i.server.End(ctx)
	}
}

// A conversation is one with a client. era has it as soon as there is a server.
type conversation struct {
	up     *Upstream
	client dragoman.Conn
	caller *dragoman.Caller

	mu   sync.Mutex
	peer dragoman.Peer // of era; nil until the first request
}

// Call implements dragoman.Peer.
func (c *conversation) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	ctx = dragoman.WithCaller(ctx, c.caller)
	if protocol.IsModern(req) {
		return requests{c.up}.Call(ctx, req, from)
	}
	if e := c.up.shut(); e != nil {
		return req.Fail(e), nil
	}
	i, err := c.up.take(ctx)
	if err != nil {
		return answer(ctx, req, err)
	}
	defer i.leave()
	return c.up.pass(ctx, i, 0, req, from, func() (dragoman.Peer, error) { return c.bind(ctx, i) })
}

// bind returns who answers for era.
func (c *conversation) bind(ctx context.Context, i *instance) (dragoman.Peer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.peer != nil {
		return c.peer, nil
	}
	peer, err := i.server.Accept(ctx, c.client)
	if err == nil {
		c.peer = peer
		i.host(c)
	}
	return peer, err
}

// Notify implements dragoman.Peer. Before the first request there is nothing that
// it could be about.
func (c *conversation) Notify(ctx context.Context, note *dragoman.Message) error {
	c.mu.Lock()
	peer := c.peer
	c.mu.Unlock()
	if peer == nil {
		return nil
	}
	return peer.Notify(ctx, note)
}

// over tells whether the client has gone.
func (c *conversation) over() bool { return c.client.Err() != nil }

// shut returns why nobody is served, or nil.
func (u *Upstream) shut() *dragoman.Error {
	switch {
	case u.draining.Load():
		return u.drained()
	case u.broken != nil:
		r := u.refusal()
		r.Reason = u.clean(nil, u.broken)
		return r.unavailable(0)
	case u.main == nil:
		r := u.refusal()
		r.Reason = "it is disabled in the configuration"
		return r.unavailable(0)
	}
	return nil
}

// pass gives a request to the server, when that is there and has room for it.
func (u *Upstream) pass(
	ctx context.Context, i *instance, patience time.Duration,
	req *dragoman.Message, from dragoman.Peer, door func() (dragoman.Peer, error),
) (*dragoman.Message, error) {
	if err := i.reach(ctx, patience); err != nil {
		return answer(ctx, req, err)
	}
	if req.Method() != protocol.MethodListen {
		if err := u.admission.enter(ctx); err != nil {
			return answer(ctx, req, err)
		}
		defer u.admission.leave()
	}
	if u.draining.Load() { // counted or not: who stops us has seen that before
		return req.Fail(u.drained()), nil
	}
	peer, err := door()
	if err != nil {
		return answer(ctx, req, err)
	}
	if limit := u.limitOf(req); limit > 0 {
		return limited(ctx, peer, req, from, limit)
	}
	return peer.Call(ctx, req, from)
}

// host remembers a conversation, and forgets those that are over.
func (i *instance) host(c *conversation) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.guests) >= i.swept {
		i.sweepGuests()
		i.swept = 2*len(i.guests) + 16
	}
	i.guests[c] = struct{}{}
}

// sweepGuests forgets conversations that are over. The caller holds mu.
func (i *instance) sweepGuests() {
	for c := range i.guests {
		if c.over() {
			delete(i.guests, c)
		}
	}
}

// company returns the conversations of clients that are open.
func (i *instance) company() []*conversation {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.sweepGuests()
	list := make([]*conversation, 0, len(i.guests))
	for c := range i.guests {
		list = append(list, c)
	}
	return list
}
