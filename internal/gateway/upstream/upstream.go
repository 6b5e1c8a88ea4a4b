package upstream

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/internal/gateway/catalog"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/gateway/credential"
	"github.com/dragoman-mcp/dragoman/internal/gateway/event"
	"github.com/dragoman-mcp/dragoman/internal/util/limit"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// An Upstream keeps one server running, as one configuration describes it. Clients reach it
// by its Service.
type Upstream struct {
	manager  *Manager
	service  *Service
	name     string
	digest   string // of its configuration
	conf     atomic.Pointer[config.Server]
	limits   atomic.Pointer[serverLimits] // nil if there are none
	set      settings
	log      *slog.Logger
	point    event.Point // where what it gets and says is observed
	logs     *lastLines
	catalog  *catalog.Catalog       // of its lists
	revision atomic.Pointer[string] // that a legacy server answered with, as JSON
	memory   *Memory                // of earlier processes
	stray    atomic.Pointer[string] // the first line on its stdout that is no message
	waiting  atomic.Bool            // it has been told that an answer is waited for

	admission  admission
	broken     error // why the configuration cannot be used
	sources    sources
	credential *credential.Source // nil if none is configured
	tls        *tls.Config        // of connections to a URL; set once, as proxy is
	proxy      func(*http.Request) (*url.URL, error)
	signsIn    bool        // if the server wants that
	supervisor *supervisor // nil if it cannot be used, or is not to be
	draining   atomic.Bool
	calls      atomic.Int64    // that were passed on
	inUse      context.Context // ends when another upstream gets new requests
	stopUse    context.CancelFunc

	mu     sync.Mutex
	warned time.Time // when its failing was last a warning
}

// newUpstream makes an upstream, and starts its server unless that is lazy.
func (m *Manager) newUpstream(s *Service, c *config.Server, digest string) *Upstream {
	u := &Upstream{
		manager: m, service: s, name: c.Name, digest: digest, set: newSettings(c), log: m.opts.Logger.With("server", c.Name),
		logs: new(lastLines),
	}
	u.catalog = u.newCatalog(c.Command != "")
	u.inUse, u.stopUse = context.WithCancel(context.Background())
	u.point = event.Point{Link: &event.Link{Role: event.Connection, Server: c.Name}, By: m.opts.Observers}
	u.configure(c)
	u.memory = remember(c, m.opts.Store, m.salt, u.log)
	u.admission = admission{up: u, line: limit.Line{Max: u.set.calls, Queue: u.set.queue}}
	if c.Disabled {
		return u
	}
	u.signsIn = m.opts.SignIn != nil && SignsIn(c)
	if u.broken = u.prepare(); u.broken != nil {
		u.event(eventStopped, nil, "server configuration cannot be used: "+u.redactError(u.broken))
		return u
	}
	supervised := !u.set.passes && !m.opts.Unsupervised
	if supervised {
		u.catalog.Load()
	}
	u.supervisor = newSupervisor(u, supervised)
	u.supervisor.begin()
	return u
}

// configure puts a configuration in force, as far as it may change while the server runs.
func (u *Upstream) configure(c *config.Server) {
	u.conf.Store(c)
	u.limits.Store(newServerLimits(c, u.limits.Load()))
}

// prepare makes what the server is reached with, and sees whether it can be used.
func (u *Upstream) prepare() (err error) {
	c := u.conf.Load()
	if u.tls, u.proxy, err = connectionOf(c, u.log); err != nil {
		return err
	}
	if u.credential, err = newCredential(c, u.vet(), u.log); err != nil {
		return err
	}
	if u.sources.shared, err = u.newSource(""); err != nil {
		return err
	}
	_, err = u.newTarget(nil)
	return err
}

// newServer makes the server as clients of either era see it.
func (u *Upstream) newServer(d dragoman.Dialer) *era.Server {
	conf, set := u.conf.Load(), &u.set
	t, _ := u.newTarget(nil) // it was made before
	s := &era.Server{
		Dialer: d, Stateless: t.Stateless,
		ProbeTimeout: min(orDefault(t.ProbeTimeout, era.DefaultProbeTimeout), set.connect/3), DialTimeout: set.connect,
		Timeout: longest(set.timeout, conf.Tools.Timeout), Isolation: set.isolation, Warm: conf.Pool,
		MaxSessions: conf.Sessions, MaxPerCaller: conf.SessionsPerClient, MaxSuspended: conf.Suspended, IdleTimeout: set.sessionIdle(conf),
		Hint: u.memory.Hint(), OnEra: u.memory.Found,
		Changed: u.changed, Name: u.manager.opts.Name, Version: u.manager.opts.Version, Logger: u.log,
	}
	if t.Probe != nil {
		s.Probe = u.probe
	}
	legacy, modern := protocol.Legacy, protocol.Modern
	switch conf.Era {
	case "legacy":
		s.Era = &legacy
	case "modern":
		s.Era = &modern
	}
	return s
}

// probe finds out the server's era, with what is passed on for who wants to know.
func (u *Upstream) probe(ctx context.Context) (protocol.Era, error) {
	t, err := u.newTarget(u.passedOf(dragoman.CallerOf(ctx)))
	if err != nil {
		return 0, err
	}
	found, err := t.Probe(ctx)
	return found, u.explain(ctx, err)
}

// Name returns the upstream's name.
func (u *Upstream) Name() string { return u.name }

// Service returns the server as its clients see it.
func (u *Upstream) Service() *Service { return u.service }

// Config returns the upstream's configuration, which must not be changed.
func (u *Upstream) Config() *config.Server { return u.conf.Load() }

// request answers a request of the modern era.
func (u *Upstream) request(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if e := u.shut(); e != nil {
		return req.Fail(e), nil
	}
	ctx = u.passing(protocol.Identify(ctx, req))
	asks := u.signsIn && protocol.MayNeedInput(req.Method())
	if asks {
		var err error
		if req, err = u.afterQuestion(ctx, req); err != nil {
			return protocol.Failure(req, err), nil
		}
	}
	offer, err := u.List(ctx, req)
	if e, refused := errors.AsType[*dragoman.Error](err); refused {
		return req.Fail(e), nil
	}
	if err != nil {
		return nil, err
	}
	if offer != nil {
		return offer.Reply(req)
	}
	if req.Method() == protocol.MethodListen {
		return u.listen(ctx, req, from)
	}
	changes := u.catalog.Changes()
	resp, err := u.pass(ctx, req, from, u.supervisor.requests)
	u.catalog.Pass(catalog.View{Caller: dragoman.CallerOf(ctx)}, changes, req, resp)
	if asks {
		if q := u.questionOf(resp, err); q != nil && elicits(req.Meta(protocol.MetaClientCapabilities)) {
			return q.inputRequired(req)
		}
	}
	return resp, err
}

// continues reports whether a request continues a call that is suspended here.
func (u *Upstream) continues(ctx context.Context, req *dragoman.Message) bool {
	return u.supervisor != nil && !u.draining.Load() && u.supervisor.server.Continues(u.passing(ctx), req)
}

// listen answers a subscription, which ends in good order when the upstream is replaced: the
// client subscribes again at the next one.
func (u *Upstream) listen(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	using, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(u.inUse, cancel)()
	resp, err := u.pass(using, req, from, u.supervisor.requests)
	if err != nil && using.Err() != nil && ctx.Err() == nil {
		return protocol.EndOfListen(req), nil
	}
	return resp, err
}

// shut returns why nobody is served, or nil.
func (u *Upstream) shut() *dragoman.Error {
	switch {
	case u.draining.Load():
		return u.drained()
	case u.broken != nil:
		r := u.refusal()
		r.Reason = u.redactError(u.broken)
		return r.unavailable(0)
	case u.supervisor == nil:
		r := u.refusal()
		r.Reason = "the configuration disables it"
		return r.unavailable(0)
	}
	return nil
}

// pass gives a request to the server, when that is there and has room for it.
func (u *Upstream) pass(ctx context.Context, req *dragoman.Message, from dragoman.Peer, server dragoman.Peer) (resp *dragoman.Message, err error) {
	if limits := u.limits.Load(); limits != nil && isWork(req.Method()) {
		if err := limits.enter(ctx, req); err != nil {
			u.log.Debug("request refused", "method", req.Method(), "name", req.Name(), "reason", err.Error())
			return answer(ctx, req, err)
		}
		defer limits.leave(req)
	}
	u.supervisor.enter()
	defer u.supervisor.leave()
	var maxWait time.Duration
	if catalog.IsCached(req.Method()) && protocol.IsModern(req) {
		maxWait = MaxListWait
	}
	if err := u.supervisor.waitUsable(ctx, maxWait); err != nil {
		return answer(ctx, req, err)
	}
	if !protocol.Lasts(req.Method()) {
		if err := u.admission.enter(ctx); err != nil {
			return answer(ctx, req, err)
		}
		defer u.admission.leave()
	}
	if u.draining.Load() { // counted or not: who stops us has seen that before
		return req.Fail(u.drained()), nil
	}
	if !protocol.IsUpkeep(req.Method()) {
		u.calls.Add(1)
	}
	resp, err = u.call(ctx, req, from, server)
	for range maxSignIns {
		if !needsSignIn(resp, err) || !u.awaitSignIn(ctx) {
			break
		}
		resp, err = u.call(ctx, req, from, server)
	}
	return resp, err
}

// call gives a request to the server, and has an answer for who waited in vain.
func (u *Upstream) call(ctx context.Context, req *dragoman.Message, from dragoman.Peer, server dragoman.Peer) (resp *dragoman.Message, err error) {
	limit := u.limitOf(req)
	if limit > 0 {
		resp, err = era.Limited(ctx, server, req, from, limit)
	} else {
		resp, err = server.Call(ctx, req, from)
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		const advice = "no answer within %v; allow more time by --timeout, or by timeout in a configuration, or have the server report progress"
		return protocol.Failure(req, &protocol.LateError{Message: fmt.Sprintf(advice, cmp.Or(limit, u.set.timeout))}), nil
	}
	return resp, err
}

// limitOf returns how long a request may take if that differs from what era sees
// to; zero if it does not.
func (u *Upstream) limitOf(req *dragoman.Message) time.Duration {
	tools := u.conf.Load().Tools.Timeout
	if len(tools) == 0 || protocol.Lasts(req.Method()) {
		return 0
	}
	if req.Method() == protocol.MethodCallTool {
		if d, ok := tools[req.Name()]; ok {
			return d
		}
	}
	return u.set.timeout
}

// Check returns what keeps the server from being started, as far as that can be told
// without starting it.
func (u *Upstream) Check() error {
	if u.broken != nil {
		return u.broken
	}
	t, err := u.newTarget(nil)
	if err != nil {
		return err
	}
	if c, ok := t.Dialer.(*stdio.Command); ok {
		return c.Check()
	}
	return nil
}

// Start has the server come up, and returns its era. Who does not call it leaves that
// to the manager, or to the first client of a server that is not supervised.
func (u *Upstream) Start(ctx context.Context) (protocol.Era, error) {
	if e := u.shut(); e != nil {
		return 0, e
	}
	return u.supervisor.await(ctx)
}

// Restart stops the server and starts it again, at once, whatever its state.
// Requests in flight fail. It returns when the server can be used, or with the
// reason why it cannot. A lazy server that is not running stays so.
func (u *Upstream) Restart(ctx context.Context) error {
	if e := u.shut(); e != nil {
		return e
	}
	u.event(eventRestarted, nil, "server is restarted on request")
	return u.supervisor.restart(ctx)
}

// awaitSuspended waits until no call waits for its client's input, which gets here although the
// upstream is replaced. It reports whether that was so before ctx ended.
func (u *Upstream) awaitSuspended(ctx context.Context) bool {
	if u.supervisor == nil || u.service.Upstream() == u {
		return true
	}
	for {
		running, _ := u.admission.counts()
		if running == 0 && u.supervisor.server.Suspended() == 0 {
			return true
		}
		if sleep(ctx, suspendedInterval, nil) != nil {
			return false
		}
	}
}

// suspendedInterval is the time between two checks whether calls are suspended at a retiring upstream.
const suspendedInterval = 50 * time.Millisecond

// drain lets requests in flight end, and no others begin, until ctx ends.
func (u *Upstream) drain(ctx context.Context) bool {
	u.draining.Store(true)
	u.stopUse()
	if u.supervisor != nil {
		u.supervisor.changed.fire() // who waits for the server need not
	}
	return u.admission.empty(ctx)
}

// close ends everything. Requests in flight fail; the conversations that clients have
// with us are for their endpoints to end.
func (u *Upstream) close() {
	u.draining.Store(true)
	if u.supervisor != nil {
		u.supervisor.close()
	}
	u.sources.close()
	if u.credential != nil {
		u.credential.Close()
	}
	u.service.forget(u)
	u.event(eventStopped, nil, "server is stopped")
}

// State returns the upstream's state.
func (u *Upstream) State() State {
	state, _ := u.stateSince()
	return state
}

func (u *Upstream) stateSince() (State, time.Time) {
	switch {
	case u.conf.Load().Disabled:
		return Disabled, u.manager.began
	case u.supervisor == nil:
		return Stopped, u.manager.began
	}
	state, since := u.supervisor.current()
	if u.draining.Load() {
		state = Stopped
	}
	return state, since
}

// A Status is what there is to say about an upstream. It has no secrets in it, but
// tells how the server is run and what it said, which is for the owner alone: see
// Public. What is zero may be left out of its JSON.
type Status struct {
	Name      string `json:"name"`
	State     State  `json:"state"`
	Era       string `json:"era,omitempty"`
	Revision  string `json:"revision,omitempty"`
	Transport string `json:"transport,omitempty"`
	Location  string `json:"where,omitempty"`

	Since       time.Time  `json:"since"` // when the state began
	LastError   string     `json:"lastError,omitempty"`
	LastErrorAt *time.Time `json:"lastErrorAt,omitempty"`
	LastStderr  string     `json:"lastStderr,omitempty"`
	NextAttempt *time.Time `json:"nextAttempt,omitempty"`
	SignIn      string     `json:"signIn,omitempty"`     // where to sign in
	SignInCode  string     `json:"signInCode,omitempty"` // what to enter there, if anything
	Restarts    int        `json:"restarts,omitempty"`

	Tools     int  `json:"tools"`
	Prompts   int  `json:"prompts"`
	Resources int  `json:"resources"`
	Unlisted  bool `json:"unlisted,omitempty"` // the counts are not known: no client has asked for a list yet
	Cached    bool `json:"cached"`             // what is known of the lists is from before the server's last start

	Connections int `json:"conversations,omitempty"` // with the server
	Sessions    int `json:"sessions,omitempty"`      // of clients
	Instances   int `json:"instances,omitempty"`     // sets of values that callers pass on
	InFlight    int `json:"inFlight,omitempty"`
	Waiting     int `json:"waiting,omitempty"`

	Calls     int64 `json:"calls,omitempty"`     // that were passed to the server, without what keeps conversations up
	Processes []int `json:"processes,omitempty"` // numbers of those that were started
	Memory    int64 `json:"memory,omitempty"`    // resident, of those and what they have started; of Statuses alone

	// Broken says that the configuration has errors, and so LastError.
	Broken bool `json:"broken,omitempty"`
}

// Public returns what of it everybody may know: who the server is, how it is, and how
// much it offers.
func (s *Status) Public() Status {
	return Status{
		Name: s.Name, State: s.State, Era: s.Era, Revision: s.Revision, Since: s.Since,
		Tools: s.Tools, Prompts: s.Prompts, Resources: s.Resources, Unlisted: s.Unlisted, Cached: s.Cached,
	}
}

// Status returns what there is to say about the upstream.
func (u *Upstream) Status() Status {
	c := u.conf.Load()
	s := Status{
		Name: u.name, Transport: string(c.ResolvedTransport()), Location: c.Location(),
		LastError: u.redactError(u.broken), LastStderr: u.logs.lastStderr(),
	}
	s.State, s.Since = u.stateSince()
	s.InFlight, s.Waiting = u.admission.counts()
	s.Calls = u.calls.Load()
	var known bool
	s.Tools, known = u.catalog.Count(protocol.MethodListTools)
	s.Prompts, _ = u.catalog.Count(protocol.MethodListPrompts)
	s.Resources, _ = u.catalog.Count(protocol.MethodListResources)
	s.Cached = s.Tools > 0 && (!known || s.State != Ready && s.State != Degraded)
	if u.supervisor != nil && !u.supervisor.supervised {
		s.Unlisted = !u.countObserved(&s)
	}
	s.Sessions = len(u.service.openSessions())
	if u.supervisor != nil {
		u.supervisor.report(&s)
	}
	p := u.signInPrompt()
	s.SignIn, s.SignInCode = p.URL, p.Code
	return s
}

// countObserved sets the counts of a status to the lists that clients have received. It reports whether
// there are any.
func (u *Upstream) countObserved(s *Status) (some bool) {
	for method, count := range map[string]*int{protocol.MethodListTools: &s.Tools, protocol.MethodListPrompts: &s.Prompts, protocol.MethodListResources: &s.Resources} {
		if n, known := u.catalog.CountObserved(method); known {
			*count, some = n, true
		}
	}
	return some
}

// report adds what the supervisor knows.
func (s *supervisor) report(to *Status) {
	if to.Transport == string(config.Auto) {
		if t, err := s.up.newTarget(nil); err == nil {
			to.Transport = t.How
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sets := make(map[string]bool)
	for c := range s.conns {
		if c.passed != nil {
			sets[c.passed.digest] = true
		}
		if process, ok := dragoman.PeerAs[*stdio.Conn](c.Conn); ok {
			to.Processes = append(to.Processes, process.PID())
		}
	}
	slices.Sort(to.Processes)
	to.Connections, to.Restarts, to.Instances = len(s.conns), s.restarts, len(sets)
	if s.hasAnswered {
		if found, ok := s.server.Found(); ok {
			to.Era = found.String()
		}
	}
	switch rev := s.up.revision.Load(); {
	case to.Era == protocol.Modern.String():
		to.Revision = protocol.Latest.String()
	case rev != nil:
		_ = json.Unmarshal([]byte(*rev), &to.Revision) // what is no text is no revision
	}
	switch {
	case s.last != nil:
		to.LastError = s.up.redactError(s.last)
		if !s.failedAt.IsZero() {
			to.LastErrorAt = new(s.failedAt)
		}
	case !s.hasAnswered:
		to.LastError = s.up.strayText()
	}
	if wait := s.due(time.Now()); wait > 0 {
		to.NextAttempt = new(time.Now().Add(wait))
	}
}
