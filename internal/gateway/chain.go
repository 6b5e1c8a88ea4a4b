package gateway

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/aggregate"
	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/manager"
	"github.com/dragoman-mcp/dragoman/internal/rules"
	"github.com/dragoman-mcp/dragoman/internal/tap"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A chain is a server with what stands in front of it, wherever clients come in: at its
// own doors, in a group, and among all. It has two doors, Accept and Requests.
type chain struct {
	up        *manager.Upstream
	log       *slog.Logger
	views     *views
	calls     *callLog
	tags      *tags
	taps      *tap.Hub // who looks on
	requests  dragoman.Peer
	listeners listeners
	limits    atomic.Pointer[serverLimits] // nil if there are none
	known     *config.Server               // whose offers the listeners know of; of who applies configurations
}

var (
	_ dragoman.Acceptor = (*chain)(nil)
	_ aggregate.Member  = (*chain)(nil)
)

func newChain(up *manager.Upstream, set *atomic.Pointer[rules.Set], tags *tags, calls *callLog, taps *tap.Hub) *chain {
	c := &chain{up: up, log: calls.log, calls: calls, tags: tags, taps: taps, known: up.Config(), views: &views{server: up.Name(), config: up.Config, rules: set}}
	c.limits.Store(newServerLimits(c.known, nil))
	c.requests = c.wrap(up.Requests(), nil, nil, "")
	return c
}

// wrap puts the steps before a server, or a conversation with it: the last one here
// is the first that a request comes to. client is that of a conversation, caller who has
// begun it, and session what it is called for who taps.
func (c *chain) wrap(p dragoman.Peer, client dragoman.Conn, caller *dragoman.Caller, session string) dragoman.Peer {
	p = &bound{p, c.tags, caller}
	p = &limiter{p, &c.limits, c.log} // of what is allowed alone: the rest counts for nothing
	p = &filter{Peer: p, views: c.views, listeners: &c.listeners, client: client, caller: caller}
	p = &recorder{Peer: p, calls: c.calls, caller: caller}
	return &tapped{Peer: p, taps: c.taps, server: c.up.Name(), session: session}
}

func (c *chain) backend() *Backend { return &Backend{Acceptor: c, Sessions: c, Requests: c.requests} }

// Accept begins a conversation with a client of either era.
func (c *chain) Accept(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
	caller := dragoman.CallerOf(ctx)
	session := c.taps.NewSession()
	seen := conversation{client, tappedClient{client, c.taps, c.up.Name(), session}}
	var told dragoman.Conn = filteredClient{seen, c.views.hides(ctx, caller)}
	if o, ok := c.tags.owner(caller); ok {
		told = conversation{told, boundPeer{told, o}}
	}
	peer, err := c.up.Accept(ctx, told)
	if err != nil {
		return nil, err
	}
	return c.wrap(peer, client, caller, session), nil
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

// Requests is the door for requests of the modern era.
func (c *chain) Requests() dragoman.Peer { return c.requests }

// Name implements aggregate.Member.
func (c *chain) Name() string { return c.up.Name() }

// Prefix implements aggregate.Member.
func (c *chain) Prefix() *string { return c.up.Config().Tools.Prefix }

// OnChange implements aggregate.Member: f is told when the server's lists change, or
// what is offered of them.
func (c *chain) OnChange(f func(note string)) (stop func()) {
	l := &listener{
		Peer: dragoman.Funcs{OnNotify: func(_ context.Context, note *dragoman.Message) error {
			f(note.Method())
			return nil
		}},
		wants: protocol.Interest{Tools: true, Prompts: true, Resources: true},
	}
	c.listeners.add(l)
	end := c.up.OnChange(f)
	return func() {
		end()
		c.listeners.remove(l)
	}
}

// announce puts the limits of a new configuration in force, and tells the listeners what it
// offers otherwise than the one before, as far as the server alone is concerned. ruled says
// that there are other rules.
func (c *chain) announce(ruled bool) {
	old, now := c.known, c.up.Config()
	c.known = now
	before, after := old.Tools, now.Tools
	before.Timeout, after.Timeout, before.Prefix, after.Prefix = nil, nil, nil, nil
	before.Limits, after.Limits = nil, nil
	if old != now {
		c.limits.Store(newServerLimits(now, c.limits.Load()))
	}
	c.listeners.tell(&protocol.Interest{
		Tools:     ruled || !reflect.DeepEqual(before, after),
		Prompts:   ruled || !reflect.DeepEqual(old.Prompts, now.Prompts),
		Resources: ruled || !reflect.DeepEqual(old.Resources, now.Resources),
	})
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
			if d, ok := errors.AsType[*denial](err); ok {
				return req.Fail(d.answer), nil
			}
			return resp, err
		}
		return req.Fail(protocol.Unavailable(errConfig)), nil
	}}
}
