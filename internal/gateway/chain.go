package gateway

import (
	"context"
	"errors"
	"log/slog"
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

// A chain is a server with what stands in front of it, wherever clients come in: at its
// own endpoint, in a group, and among all. It stays for as long as the name of the server is
// configured. Where it is observed is told by whoever leads to it.
type chain struct {
	service  *upstream.Service
	log      *slog.Logger
	views    *views
	tags     *tags
	requests dragoman.Peer      // as a server with an endpoint of its own
	member   dragoman.Peer      // as a member of an aggregate
	changes  subscription.Hub   // of what a reload offers; those of the server itself do not come this way
	known    *upstream.Upstream // whose lists were published last; guarded by Gateway.mu
	config   *config.Server     // of it, when it was last applied; guarded by Gateway.mu
}

var (
	_ dragoman.Acceptor = (*chain)(nil)
	_ aggregate.Member  = member{}
)

func newChain(s *upstream.Service, set *atomic.Pointer[rules.Set], tags *tags, log *slog.Logger, by event.Observers) *chain {
	c := &chain{service: s, log: log, tags: tags, known: s.Upstream(), config: s.Upstream().Config()}
	c.views = &views{server: s.Name(), config: func() *config.Server { return s.Upstream().Config() }, rules: set}
	c.requests = c.authorize(s.Requests(), nil, nil)
	c.member = event.Observe(c.requests, &event.Link{Role: event.Member, Server: s.Name()}, by)
	return c
}

// authorize puts the rules and the filter before a server, or a session with it. client is that
// of a session, and caller who has begun it.
func (c *chain) authorize(p dragoman.Peer, client dragoman.Conn, caller *dragoman.Caller) dragoman.Peer {
	return &filter{Peer: p, views: c.views, tags: c.tags, changes: &c.changes, client: client, caller: caller}
}

func (c *chain) backend() *Backend { return &Backend{Acceptor: c, Sessions: c, Requests: c.requests} }

// Accept begins a session with a client of either era.
func (c *chain) Accept(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
	caller := dragoman.CallerOf(ctx)
	var told dragoman.Peer = filteredPeer{client, c.views.hides(ctx, caller)}
	if o, ok := c.tags.owner(caller); ok {
		told = boundPeer{told, o}
	}
	peer, err := c.service.Accept(ctx, conversation{client, told})
	if err != nil {
		return nil, err
	}
	return c.authorize(peer, client, caller), nil
}

// A conversation is one in which the client is asked and told by way of a peer.
type conversation struct {
	dragoman.Conn
	by dragoman.Peer
}

// Unwrap returns the conversation itself.
func (c conversation) Unwrap() dragoman.Conn { return c.Conn }

// Call implements dragoman.Peer.
func (c conversation) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	return c.by.Call(ctx, req, from)
}

// Notify implements dragoman.Peer.
func (c conversation) Notify(ctx context.Context, note *dragoman.Message) error {
	return c.by.Notify(ctx, note)
}

// A member is a server of an aggregate. It is another one when its upstream has been replaced:
// nothing is known of that.
type member struct {
	*chain
	up *upstream.Upstream
}

// Requests implements aggregate.Member: it takes requests of the modern era.
func (m member) Requests() dragoman.Peer { return m.member }

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
		c.views.tools.Clear()
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
// because what is said of it has errors. It keeps its place: its names do not become
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

// A union is several servers as one: those of a group, or all. It lives as long
// as its group is configured, whatever servers come and go.
type union struct {
	all   *aggregate.Aggregate
	front *era.Front // for clients of both eras
}

func newUnion(g *Gateway) *union {
	all := aggregate.New(&aggregate.Options{Name: g.opts.Name, Version: g.opts.Version, Logger: g.log})
	return &union{all: all, front: era.NewFront(all, &era.FrontOptions{
		Name: g.opts.Name, Version: g.opts.Version, Logger: g.log,
		Ended: func(ctx context.Context) {
			for _, up := range g.manager.Upstreams() {
				up.Service().End(ctx)
			}
		},
	})}
}

func (u *union) backend() *Backend {
	return &Backend{Acceptor: u.front, Sessions: u.front, Requests: u.front.Requests()}
}

// close ends what is under way. Its doors have been shut before.
func (u *union) close() {
	_ = u.all.Close() // listens end with their results while there is somebody to tell
	_ = u.front.Close()
}
