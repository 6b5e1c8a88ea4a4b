package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/eventlog"
	"github.com/dragoman-mcp/dragoman/internal/access/auth"
	"github.com/dragoman-mcp/dragoman/internal/access/authserver"
	"github.com/dragoman-mcp/dragoman/internal/access/rules"
	"github.com/dragoman-mcp/dragoman/internal/gateway/admission"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/gateway/event"
	"github.com/dragoman-mcp/dragoman/internal/gateway/upstream"
	"github.com/dragoman-mcp/dragoman/internal/util/limit"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
)

// DrainTimeout is how long requests in flight may take when their server has been removed or
// replaced.
const DrainTimeout = 10 * time.Second

// maxSessionRecords is how many sessions are remembered beyond their endpoints when there is no
// directory for them.
const maxSessionRecords = 16384

// Options configures a Gateway. The zero value is ready to use.
type Options struct {
	// Name and Version are what we call ourselves.
	Name, Version string

	// Load reads the configuration again. If nil, it cannot be reloaded.
	Load func() (*config.File, *config.Report)

	// Applied, if not nil, is called with each configuration that takes effect by
	// a reload, for the keys that are not ours: what is logged.
	Applied func(*config.File)

	// Files are those of the configuration, by which the owner tells gateways apart.
	Files []string

	// State is the directory for what outlives the process. If empty, the file
	// says it; if that does not either, nothing does.
	State string

	// Cache is the directory for the last known lists and eras of servers, if State does
	// not name one for everything.
	Cache string

	// Single says that the configuration is one server, to which the root leads. It is
	// not supervised, see [upstream.Options].
	Single bool

	// Root, if not nil, is what the root leads to in place of all servers as one, and
	// RootName what that is called in the log.
	Root     *Backend
	RootName string

	// MessagesPath is what clients of HTTP+SSE at the root are told to send to. If
	// empty, it is MessagesPath beside the stream.
	MessagesPath string

	// SignIn is how servers are signed in to, see [upstream.Options].
	SignIn *upstream.SignInOptions

	// Stderr is given what servers write to their standard error, see
	// [upstream.Options].
	Stderr func(server, line string)

	// Notice is told what a user should know at once about a server, see
	// [upstream.Options].
	Notice func(server string, level slog.Level, text string)

	// Observers are called in their order. Package observe has those of the program.
	Observers event.Observers

	// AuditStatus, if not nil, returns the state of the audit log for Status.
	AuditStatus func() any

	// ControlHandlers are handlers of Control besides its own, by their patterns. If the
	// query has a server, it is the name of one.
	ControlHandlers map[string]http.Handler

	// Closed, if not nil, is called at the end of Shutdown, and by New if that fails. Nothing
	// is observed afterwards.
	Closed func() error

	// Logger is the log. If nil, nothing is logged.
	Logger *slog.Logger
}

// A Gateway lets clients to the servers of a configuration.
type Gateway struct {
	opts          Options
	log           *slog.Logger
	began         time.Time
	manager       *upstream.Manager
	policy        *auth.Policy
	rules         atomic.Pointer[rules.Set]
	front         atomic.Pointer[front] // nil if users do not sign in by us
	signIns       signIns
	serverSignIns authserver.ServerSignIns // sign-ins of callers at servers, that wait for their browsers
	store         eventlog.Records         // of sessions
	events        eventlog.Log             // of the streams of all endpoints
	disk          *disk                    // where both are; nil if that is memory
	boundKey      []byte                   // of what servers give out to callers
	closers       []func() error
	admission     *admission.Admission
	first         *config.File // of which listen, state, log.format, limits and audit.file are in force

	observers event.Observers
	sessions  openSessions

	now      atomic.Pointer[routes]
	draining atomic.Bool
	refusals refusals
	mistakes *httpserver.Mistakes // of clients over HTTP

	reloading sync.Mutex // held while a configuration is read and applied
	access    *access    // guarded by reloading

	mu           sync.Mutex // held while a configuration is applied
	file         *config.File
	all          *route
	groups       map[string]*route
	last         Reloaded       // guarded by mu
	seen         string         // the files when they were last read; guarded by mu
	shuttingDown sync.WaitGroup // endpoints that are being shut down
}

// New returns a gateway for a configuration, whose servers it starts. State,
// limits and what is listened on are those of this file until the end.
func New(opts *Options, file *config.File) (*Gateway, error) {
	g := &Gateway{opts: *opts, began: time.Now(), first: file, groups: make(map[string]*route)}
	g.observers = opts.Observers
	g.sessions = openSessions{by: g.observers, all: make(map[*event.Event]struct{})}
	g.log = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	g.mistakes = httpserver.NewMistakes(g.log)
	g.observe(&event.Event{Kind: event.Start, Reason: fmt.Sprintf("%s %s, %d servers", opts.Name, opts.Version, len(file.Servers))})
	lists, err := g.openState()
	if err == nil {
		g.access, err = g.readAccess(file, nil)
	}
	if err != nil {
		return nil, errors.Join(err, g.close(err))
	}
	g.policy = auth.New(g.access.Options, file.Limits.FailedProofs, g.log)
	g.admission = admission.New(&file.Limits, g.observers, g.log)
	g.front.Store(g.access.front)
	signIn := opts.SignIn
	if signIn != nil {
		with := *signIn
		with.Callback, signIn = g.callback, &with
	}
	g.manager = upstream.New(&upstream.Options{
		Name: opts.Name, Version: opts.Version, Store: lists, MaxMessage: int(file.Limits.Message),
		Unsupervised: opts.Single, SignIn: signIn, Stderr: opts.Stderr,
		Notice: opts.Notice, CommandLine: opts.Single, Observers: g.observers, Logger: g.log,
	})
	switch {
	case opts.Root != nil:
		g.all = g.newRoute(event.Builtin, opts.RootName, "", opts.Root)
	case !opts.Single:
		g.all = g.newAggregateRoute("", "")
	}
	g.now.Store(&routes{all: g.all, rules: &g.rules, servers: map[string]*route{}, groups: map[string]*route{}, grouped: map[*route][]string{}})
	g.seen = stamps(file.Files)
	g.Apply(file)
	return g, nil
}

// ConnRoom returns the room of what connections of HTTP/1.1 read before a handler is called,
// nil if there is no limit.
func (g *Gateway) ConnRoom() *limit.Bytes { return g.admission.Conns() }

// Backend returns what the root leads to, for transports that the caller serves.
func (g *Gateway) Backend() *Backend { return g.now.Load().all.backend }

// Upstreams returns the servers, in the order of the configuration.
func (g *Gateway) Upstreams() []*upstream.Upstream { return g.manager.Upstreams() }

// Apply puts a configuration in the place of the one before. Servers that are new get an
// endpoint. Those that have changed keep theirs: new requests go to the new upstream, and the
// old one finishes those in flight. The endpoints of what is removed are shut down. What is
// unchanged is left alone. After Shutdown nothing changes.
func (g *Gateway) Apply(file *config.File) upstream.Changes {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.draining.Load() {
		return upstream.Changes{}
	}
	servers := make([]*config.Server, 0, len(file.Names))
	for _, name := range file.Names {
		servers = append(servers, file.Servers[name])
	}
	ruled := g.setRules(file)
	changes, old := g.manager.Apply(servers)
	before, ups := g.now.Load(), g.manager.Upstreams()
	after := &routes{
		all: g.all, passes: passes(ups), rules: &g.rules,
		servers: maps.Clone(before.servers), groups: maps.Clone(before.groups), grouped: maps.Clone(before.grouped),
	}
	for _, up := range ups {
		e := before.servers[up.Name()]
		if e == nil || e.chain.service != up.Service() {
			e = g.newServerRoute(up)
			after.servers[up.Name()] = e
		}
		if g.opts.Single {
			after.all = e
		}
	}
	removed := g.regroup(file, after)
	for _, name := range changes.Removed {
		removed = append(removed, before.servers[name])
	}
	g.file = file
	g.now.Store(after)
	if g.all != nil && g.all.aggregate != nil {
		g.all.aggregate.Set(after.members(file.All()))
	}
	for _, up := range ups {
		after.servers[up.Name()].chain.announce(ruled)
	}
	for _, e := range removed {
		// Ends when the requests in flight do, or after DrainTimeout.
		g.shuttingDown.Go(func() { g.remove(e) })
	}
	for _, up := range old {
		if !slices.Contains(changes.Removed, up.Name()) {
			g.shuttingDown.Go(func() { g.retire(up) }) // likewise
		}
	}
	return changes
}

// setRules puts the rules of a configuration in force, and reports whether they are others
// than before. g.mu is locked.
func (g *Gateway) setRules(file *config.File) bool {
	set, _ := rules.Parse(file.Rules, file.RuleOptions()) // they have been checked
	g.rules.Store(set)
	return g.file != nil && !(slices.Equal(g.file.Rules, file.Rules) && reflect.DeepEqual(g.file.RuleOptions(), file.RuleOptions()))
}

// newServerRoute makes the endpoint of a server.
func (g *Gateway) newServerRoute(up *upstream.Upstream) *route {
	c := newChain(up.Service(), &g.rules, newTags(g.boundKey, up.Name(), g.policy.Anyone), g.observers)
	e := g.newRoute(event.ServerEndpoint, up.Name(), serversPath+up.Name(), c.backend())
	e.chain = c
	return e
}

// newAggregateRoute makes the endpoint of an aggregate.
func (g *Gateway) newAggregateRoute(name, path string) *route {
	all, front := g.newAggregate()
	e := g.newRoute(event.AggregateEndpoint, name, path, &Backend{Acceptor: front, Sessions: front, Requests: front.Requests()})
	e.aggregate, e.front = all, front
	return e
}

// newRoute makes the endpoint of a backend at a path.
func (g *Gateway) newRoute(role event.Role, name, path string, b *Backend) *route {
	b = g.endpoint(role, name, b)
	limits := g.first.Limits
	return &route{path: path, backend: b, Endpoint: NewEndpoint(b, &EndpointOptions{
		Caller: g.caller, Denied: g.deny, MessagesPath: g.opts.MessagesPath,
		MaxMessage: int(limits.Message), MaxSessions: limits.Sessions, MaxRequests: limits.Calls, IdleTimeout: limits.IdleSession,
		Log: g.events, Store: sessions{g.store, name}, Logger: g.mistakes.Logger(),
	})}
}

// regroup makes the groups of a configuration, and returns those that are gone.
func (g *Gateway) regroup(file *config.File, after *routes) (gone []*route) {
	made := make(map[string]*route, len(file.Groups))
	for name, group := range file.Groups {
		e := g.groups[name]
		mcp := group.Path
		if mcp == "" {
			mcp = groupsPath + name + MCPPath
		}
		if e == nil || e.mcp != mcp {
			e = g.newAggregateRoute("group "+name, strings.TrimSuffix(mcp, MCPPath))
			e.mcp = mcp
		}
		e.aggregate.SetPlain(group.Naming == "plain", after.members(group.Servers))
		made[name] = e
		after.groups[e.path], after.grouped[e] = e, group.Servers
	}
	for name, e := range g.groups {
		if made[name] != e {
			gone = append(gone, e)
		}
	}
	g.groups = made
	return gone
}

// remove shuts down the endpoint of a server or a group that is not configured any more. It
// keeps its path until then, so that clients can send what belongs to requests in flight.
func (g *Gateway) remove(e *route) {
	ctx, cancel := context.WithTimeout(context.Background(), DrainTimeout)
	defer cancel()
	if err := e.Shutdown(ctx); err != nil {
		g.log.Warn("requests in flight were cut", "path", e.path, "error", err)
	}
	if e.chain != nil {
		e.chain.service.Upstream().Retire(ctx)
	}
	e.closeAggregate()
	g.mu.Lock()
	defer g.mu.Unlock()
	next, is := *g.now.Load(), func(_ string, other *route) bool { return other == e }
	next.servers, next.groups, next.grouped = maps.Clone(next.servers), maps.Clone(next.groups), maps.Clone(next.grouped)
	maps.DeleteFunc(next.servers, is)
	maps.DeleteFunc(next.groups, is)
	delete(next.grouped, e)
	g.now.Store(&next)
}

// retire stops an upstream that was replaced when its requests in flight have ended.
func (g *Gateway) retire(up *upstream.Upstream) {
	ctx, cancel := context.WithTimeout(context.Background(), DrainTimeout)
	defer cancel()
	if !up.Retire(ctx) {
		g.log.Warn("requests in flight were cut", "server", up.Name(), "error", context.Cause(ctx))
	}
}

// HandlerOptions says whom a Handler answers.
type HandlerOptions struct {
	// Hosts and Origins are accepted in the headers of these names beside those of this
	// machine, as by the transports. Pages of these origins may read every answer, and
	// send the headers that some server has passed on.
	Hosts, Origins []string

	// Open lets in everybody, whatever the configuration says of who may come in.
	Open bool
}

// Handler answers clients over HTTP. Everything but the checks of our health is behind
// the question who a client is. The options may be nil.
func (g *Gateway) Handler(o *HandlerOptions) http.Handler {
	if o == nil {
		o = &HandlerOptions{}
	}
	gate, open := &httpserver.Gate{Hosts: o.Hosts, Origins: o.Origins}, o.Open
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := gate.Refuses(w, r); err != nil {
			g.refusals.log(g.log, r, err)
			g.deny(r, "", "host and origin", err)
			return
		}
		routes := g.now.Load()
		if httpserver.AllowOrigin(w, r, routes.passes...) {
			return
		}
		r = httpframe.WithClientRequestID(w, r)
		refusal := CheckPath(r.URL)
		if refusal == nil {
			if h := g.public(r.URL.Path); h != nil {
				h(w, r)
				return
			}
			r = routes.withoutSlash(r)
			if with := wantsPage(r); with != "" {
				g.serveRootPage(w, r, with, open)
				return
			}
		}
		inBrowser := refusal == nil && wantsEndpointPage(r)
		if !g.policy.Anyone() {
			var denied *httpserver.Refusal
			if r, denied = g.authenticate(r, open); denied != nil {
				if !inBrowser || !g.serveEndpointPage(w, r, denied) {
					denied.Write(w)
				}
				return
			}
		}
		switch {
		case refusal != nil:
			refusal.Log(g.mistakes, r)
			refusal.Write(w)
		case inBrowser && g.serveEndpointPage(w, r, nil):
		case r.URL.Path == StatusPath:
			g.serveStatus(w, r)
		default:
			admitted, release := g.admission.Admit(r)
			if release != nil {
				defer release()
			}
			if missing := routes.serve(w, admitted); missing != "" {
				g.mistakes.Log(r, http.StatusNotFound, func() string { return missing })
			}
		}
	})
}

// Shutdown takes no new work, lets what is in flight end until ctx does, ends all
// streams in good order and stops the servers. own shut down transports of the caller that
// use Backend: they are shut with ours, before the servers are stopped. It returns an
// error if something was cut.
func (g *Gateway) Shutdown(ctx context.Context, own ...func(context.Context) error) error {
	g.mu.Lock()
	g.draining.Store(true) // nothing is applied from now on
	now := g.now.Load()
	g.mu.Unlock()
	all := slices.Concat(slices.Collect(maps.Values(now.servers)), slices.Collect(maps.Values(now.groups)))
	if !slices.Contains(all, now.all) {
		all = append(all, now.all)
	}
	for _, e := range all {
		own = append(own, e.Shutdown)
	}
	cut := shutdownAll(ctx, own)
	g.shuttingDown.Wait()
	for _, e := range all {
		e.closeAggregate()
	}
	cut = cmp.Or(g.manager.Shutdown(ctx), cut)
	g.reloading.Lock()
	defer g.reloading.Unlock()
	g.access.close()
	if f := g.access.front; f != nil {
		f.Close()
	}
	g.sessions.close()
	return errors.Join(cut, g.close(cut))
}
