package gateway

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/aggregate"
	"github.com/dragoman-mcp/dragoman/internal/audit"
	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/internal/manager"
	"github.com/dragoman-mcp/dragoman/internal/rules"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A chain is a server with what stands in front of it, wherever clients come in: at its
// own doors, in a group, and among all. It has two doors, Accept and Requests.
type chain struct {
	up        *manager.Upstream
	log       *slog.Logger
	views     *views
	audit     *audit.Log // nil if there is none
	requests  dragoman.Peer
	listeners listeners
	limits    atomic.Pointer[serverLimits] // nil if there are none
	known     *config.Server               // whose offers the listeners know of; of who applies configurations
}

var (
	_ dragoman.Acceptor = (*chain)(nil)
	_ aggregate.Member  = (*chain)(nil)
)

func newChain(up *manager.Upstream, set *atomic.Pointer[rules.Set], log *slog.Logger, to *audit.Log) *chain {
	c := &chain{up: up, log: log, audit: to, known: up.Config(), views: &views{server: up.Name(), config: up.Config, rules: set}}
	c.limits.Store(newServerLimits(c.known, nil))
	c.requests = c.wrap(up.Requests(), nil, nil)
	return c
}

// wrap puts the steps before a server, or a conversation with it: the last one here
// is the first that a request comes to. client is that of a conversation, and caller who
// has begun it.
func (c *chain) wrap(p dragoman.Peer, client dragoman.Conn, caller *dragoman.Caller) dragoman.Peer {
	p = &limiter{p, &c.limits, c.log} // of what is allowed alone: the rest counts for nothing
	p = &filter{Peer: p, views: c.views, listeners: &c.listeners, client: client, caller: caller}
	return &recorder{Peer: p, server: c.up.Name(), log: c.log, audit: c.audit, caller: caller}
}

func (c *chain) backend() *Backend { return &Backend{Acceptor: c, Sessions: c, Requests: c.requests} }

// Accept begins a conversation with a client of either era.
func (c *chain) Accept(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
	caller := dragoman.CallerOf(ctx)
	peer, err := c.up.Accept(ctx, filteredClient{client, c.views.hides(ctx, caller)})
	if err != nil {
		return nil, err
	}
	return c.wrap(peer, client, caller), nil
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

// A recorder is a peer that logs what it is asked, and what came of it, under the id of the
// request, which travels on with it, and writes it down in the audit log. It makes the
// answers of denials.
type recorder struct {
	dragoman.Peer
	server string
	log    *slog.Logger
	audit  *audit.Log // nil if there is none

	caller *dragoman.Caller       // of a conversation; nil if each request has its own
	client atomic.Pointer[string] // its name, if the conversation has said it
}

// Call implements dragoman.Peer.
func (p *recorder) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if httpx.RequestID(ctx) == "" {
		ctx = httpx.WithNewRequestID(ctx)
	}
	if p.audit != nil {
		passedOn(ctx, req)
	}
	if err := p.audit.Ready(); err != nil {
		return req.Fail(protocol.Overloaded(err.Error())), nil
	}
	began := time.Now()
	resp, err := p.Peer.Call(ctx, req, from)
	if p.audit != nil {
		p.write(ctx, began, req, resp, err)
	}
	if d, ok := errors.AsType[*denial](err); ok {
		resp, err = req.Fail(d.answer), nil
	}
	level, outcome := slog.LevelDebug, "answered"
	switch {
	case err != nil:
		level, outcome = slog.LevelInfo, err.Error()
	case resp != nil && resp.IsError():
		e := resp.RPCError()
		outcome = e.Message
		if protocol.IsOwn(e) {
			level = slog.LevelWarn
		}
	}
	if p.log.Enabled(ctx, level) {
		p.log.LogAttrs(ctx, level, "call", slog.String("request", httpx.RequestID(ctx)), slog.String("server", p.server),
			slog.String("method", req.Method()), slog.String("name", req.Name()),
			slog.Duration("took", time.Since(began).Round(time.Microsecond)), slog.String("outcome", outcome))
	}
	return resp, err
}

// write writes a call down.
func (p *recorder) write(ctx context.Context, began time.Time, req, resp *dragoman.Message, err error) {
	who := p.caller
	if who == nil {
		who = dragoman.CallerOf(ctx)
	}
	e := newCall(ctx, who, began, req, resp)
	e.Server = p.server
	if e.Client == "" {
		e.Client = p.clientName(req)
	}
	if p.audit.WantsArguments() {
		e.Arguments = audit.Arguments(req.Get("arguments"))
	}
	outcome(&e, req, resp, err)
	p.audit.Record(e)
}

// maxClientName is how much of the name that a client gives itself is kept.
const maxClientName = 256

// clientName returns what the client of a request calls itself. A conversation says it once.
func (p *recorder) clientName(req *dragoman.Message) string {
	name := protocol.ClientName(req)
	name = strings.Clone(name[:min(len(name), maxClientName)])
	if p.caller == nil {
		return name
	}
	if name != "" {
		p.client.Store(&name)
	}
	if known := p.client.Load(); known != nil {
		return *known
	}
	return ""
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
