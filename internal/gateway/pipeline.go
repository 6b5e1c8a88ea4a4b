package gateway

import (
	"context"
	"errors"
	"reflect"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/internal/access/rules"
	"github.com/dragoman-mcp/dragoman/internal/gateway/aggregate"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/gateway/event"
	"github.com/dragoman-mcp/dragoman/internal/gateway/upstream"
	"github.com/dragoman-mcp/dragoman/internal/wire/subscription"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// This file puts together what a request passes. At an endpoint it is observed and admitted. At
// that of a server it is authorized then, and passed to the upstream. At that of an aggregate
// it is passed to a member, where it is observed once more, authorized, and passed to the upstream:
//
//	endpoint of a server     observe ─▶ admit ─▶ authorize ─▶ upstream
//	endpoint of an aggregate observe ─▶ admit ─▶ front ─▶ aggregate ─▶ observe ─▶ authorize ─▶ upstream
//
// The rest, era and connection, is in package upstream. Routes come before: see routes.go.

// A Backend is a server, or an aggregate of several, as an endpoint sees it.
type Backend struct {
	Acceptor dragoman.Acceptor // takes sessions of either era
	Sessions dragoman.Acceptor // takes sessions of the legacy era; nil if it is not served
	Requests dragoman.Peer     // takes requests of the modern era; nil if it is not served
}

// endpoint returns a backend with the first steps of its endpoint: observe and admit.
func (g *Gateway) endpoint(role event.Role, name string, b *Backend) *Backend {
	accept := func(next dragoman.Acceptor) dragoman.Acceptor {
		if next == nil {
			return nil
		}
		return dragoman.AcceptFunc(func(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
			link := &event.Link{Role: role, Server: name, Session: g.sessions.number(), Caller: dragoman.CallerOf(ctx)}
			peer, err := g.admission.Accept(ctx, event.ObserveClient(client, link, g.observers), next)
			if err != nil {
				return nil, err
			}
			if role != event.Builtin {
				g.sessions.open(ctx, name, client)
			}
			return event.Observe(peer, link, g.observers), nil
		})
	}
	in := &Backend{Acceptor: accept(b.Acceptor), Sessions: accept(b.Sessions)}
	if b.Requests != nil {
		in.Requests = event.Observe(g.admission.Requests(b.Requests), &event.Link{Role: role, Server: name}, g.observers)
	}
	return in
}

// A chain is the steps before one server: authorize and upstream. It is the same at the
// endpoint of the server and in each aggregate, and stays for as long as the name of the server
// is configured.
type chain struct {
	service  *upstream.Service
	views    *views
	tags     *tags
	requests dragoman.Peer      // at the endpoint of the server
	observed dragoman.Peer      // as a member of an aggregate
	changes  subscription.Hub   // of what a reload offers; those of the server itself do not come this way
	known    *upstream.Upstream // whose lists were published last; guarded by Gateway.mu
	config   *config.Server     // of it, when it was last applied; guarded by Gateway.mu
}

func newChain(s *upstream.Service, set *atomic.Pointer[rules.Set], tags *tags, by event.Observers) *chain {
	c := &chain{service: s, tags: tags, known: s.Upstream(), config: s.Upstream().Config()}
	c.views = &views{server: s.Name(), config: func() *config.Server { return s.Upstream().Config() }, lists: func() lister { return s.Upstream() }, rules: set}
	c.requests = c.authorize(s.Requests(), nil, nil)
	c.observed = event.Observe(c.requests, &event.Link{Role: event.Member, Server: s.Name()}, by)
	return c
}

// authorize puts the filter before the server, or before a session with it. client is that of
// the session, and caller the one who began it.
func (c *chain) authorize(p dragoman.Peer, client dragoman.Conn, caller *dragoman.Caller) dragoman.Peer {
	return &filter{Peer: p, views: c.views, tags: c.tags, changes: &c.changes, client: client, caller: caller}
}

func (c *chain) backend() *Backend { return &Backend{Acceptor: c, Sessions: c, Requests: c.requests} }

// Accept begins a session with a client of either era.
func (c *chain) Accept(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
	caller := dragoman.CallerOf(ctx)
	var seen dragoman.Peer = filteredPeer{client, c.views.hides(ctx, caller)}
	if o, ok := c.tags.owner(caller); ok {
		seen = boundPeer{seen, o}
	}
	peer, err := c.service.Accept(ctx, clientConn{client, seen})
	if err != nil {
		return nil, err
	}
	return c.authorize(peer, client, caller), nil
}

// A clientConn is the connection of a client as the server sees it: its messages to the client
// pass by a peer.
type clientConn struct {
	dragoman.Conn
	by dragoman.Peer
}

// Unwrap returns the connection itself.
func (c clientConn) Unwrap() dragoman.Conn { return c.Conn }

// Call implements dragoman.Peer.
func (c clientConn) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	return c.by.Call(ctx, req, from)
}

// Notify implements dragoman.Peer.
func (c clientConn) Notify(ctx context.Context, note *dragoman.Message) error {
	return c.by.Notify(ctx, note)
}

// newAggregate makes an aggregate without members, behind a front for clients of both eras.
func (g *Gateway) newAggregate() (*aggregate.Aggregate, *era.Frontend) {
	all := aggregate.New(&aggregate.Options{Name: g.opts.Name, Version: g.opts.Version, Logger: g.log})
	return all, era.NewFrontend(all, &era.FrontendOptions{
		Name: g.opts.Name, Version: g.opts.Version, Logger: g.log,
		Ended: func(ctx context.Context) {
			for _, up := range g.manager.Upstreams() {
				up.Service().End(ctx)
			}
		},
	})
}

// A member is a server of an aggregate. It is another one when its upstream has been replaced:
// nothing is known of that.
type member struct {
	*chain
	up *upstream.Upstream
}

var _ aggregate.Member = member{}

// Requests implements aggregate.Member: it takes requests of the modern era.
func (m member) Requests() dragoman.Peer { return m.observed }

// Name implements aggregate.Member.
func (m member) Name() string { return m.service.Name() }

// Prefix implements aggregate.Member.
func (m member) Prefix() *string { return m.up.Config().Tools.Prefix }

// OnChange implements aggregate.Member: f is called when the server's lists change, or
// what is offered of them.
func (c *chain) OnChange(f func(note string)) (stop func()) {
	end, endServer := c.changes.OnChange(f), c.service.OnChange(f)
	return func() {
		endServer()
		end()
	}
}

// announce publishes which lists are others by a new configuration than by the one before, as far as the server alone is concerned. changed says
// that there are other rules. A server that replaces another one may have other lists.
func (c *chain) announce(changed bool) {
	up := c.service.Upstream()
	old, now := c.config, up.Config()
	if up != c.known {
		changed = true
	}
	c.known, c.config = up, now
	before, after := old.Tools, now.Tools
	before.Timeout, after.Timeout, before.Prefix, after.Prefix = nil, nil, nil, nil
	before.Limits, after.Limits = nil, nil
	lists := protocol.Interest{
		Tools:     changed || !reflect.DeepEqual(before, after),
		Prompts:   changed || !reflect.DeepEqual(old.Prompts, now.Prompts),
		Resources: changed || !reflect.DeepEqual(old.Resources, now.Resources),
	}
	for note := range lists.ChangeNotes() {
		c.changes.Publish(note)
	}
}

// A missing member is a server that the configuration names and that cannot be used,
// because its configuration has errors. It keeps its position: its names do not become
// those of others.
type missing struct{ *views }

// Name implements aggregate.Member.
func (m missing) Name() string { return m.server }

// Prefix implements aggregate.Member.
func (m missing) Prefix() *string { return nil }

// OnChange implements aggregate.Member.
func (m missing) OnChange(func(string)) func() { return func() {} }

var errConfig = errors.New("the configuration of this server has errors; dragoman config check names them")

// Requests implements aggregate.Member.
func (m missing) Requests() dragoman.Peer {
	return dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		if v := m.of(ctx, nil); !v.grant.Any() {
			resp, err := v.nothing(req)
			if d, ok := errors.AsType[*event.Refusal](err); ok {
				return req.Fail(d.Answer), nil
			}
			return resp, err
		}
		return req.Fail(protocol.Unavailable(errConfig)), nil
	}}
}
