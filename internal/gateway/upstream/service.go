package upstream

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/catalog"
	"github.com/dragoman-mcp/dragoman/internal/util/syncs"
	"github.com/dragoman-mcp/dragoman/internal/wire/sessions"
	"github.com/dragoman-mcp/dragoman/internal/wire/subscription"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A Service is a server as its clients see it. It stays for as long as the name of the server
// is configured, while the Upstream behind it may be replaced: requests in flight end at the
// old one, and open sessions continue at the new one.
type Service struct {
	name    string
	current atomic.Pointer[Upstream]
	changes subscription.Hub // of lists

	retiring atomic.Pointer[[]*Upstream] // replaced and not closed yet; changed under mu

	mu       sync.Mutex
	sessions map[*session]struct{} // in use, and some that have ended; guarded by mu
	sweepAt  int                   // number of sessions at which those that have ended are removed; guarded by mu
}

var _ dragoman.Acceptor = (*Service)(nil)

func newService(name string) *Service {
	return &Service{name: name, sessions: make(map[*session]struct{})}
}

// Name returns the name of the server.
func (s *Service) Name() string { return s.name }

// Upstream returns the upstream that gets new requests.
func (s *Service) Upstream() *Upstream { return s.current.Load() }

// replace sends requests to another upstream from now on. Sessions that have subscribed to
// resources move to it immediately, since they may wait for updates without a request.
func (s *Service) replace(u *Upstream) {
	old := s.current.Swap(u)
	if old == nil {
		return
	}
	s.changeRetiring(func(list []*Upstream) []*Upstream { return append(list, old) })
	old.stopUse()
	if u.supervisor == nil {
		return
	}
	for _, ss := range s.openSessions() {
		if ss.memory.Subscribes() {
			// Ends when the session is open at u, or with u.
			u.supervisor.spawn(func() { _, _ = ss.attach(u.supervisor.ctx) }) // or its next request tries again
		}
	}
}

// changeRetiring replaces the list of retiring upstreams. change may modify its argument.
func (s *Service) changeRetiring(change func([]*Upstream) []*Upstream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*Upstream
	if before := s.retiring.Load(); before != nil {
		list = slices.Clone(*before)
	}
	if list = change(list); len(list) == 0 {
		s.retiring.Store(nil)
		return
	}
	s.retiring.Store(&list)
}

// upstreamFor returns the upstream that gets a request: a retiring one, if the request continues a
// call that is suspended there, or else the current one.
func (s *Service) upstreamFor(ctx context.Context, req *dragoman.Message) *Upstream {
	if list := s.retiring.Load(); list != nil && req.Get("requestState") != nil {
		for _, u := range *list {
			if u.continues(ctx, req) {
				return u
			}
		}
	}
	return s.current.Load()
}

// forget has sessions that are still open at an upstream hold it no longer.
func (s *Service) forget(u *Upstream) {
	s.changeRetiring(func(list []*Upstream) []*Upstream {
		return slices.DeleteFunc(list, func(other *Upstream) bool { return other == u })
	})
	for _, ss := range s.openSessions() {
		if a := ss.at.Load(); a != nil && a.up == u {
			ss.at.CompareAndSwap(a, nil)
		}
	}
}

// Requests returns the peer that takes requests of the modern era.
func (s *Service) Requests() dragoman.Peer { return requests{s} }

type requests struct{ service *Service }

// Call implements dragoman.Peer. A request that a retired upstream did not send goes to the one
// that replaced it.
func (r requests) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	for {
		u := r.service.upstreamFor(ctx, req)
		resp, err := u.request(ctx, req, from)
		if !r.service.replaced(u, resp) {
			return resp, err
		}
	}
}

// Notify implements dragoman.Peer. Modern clients send no notifications to a server.
func (requests) Notify(context.Context, *dragoman.Message) error { return nil }

// replaced reports whether a response of an upstream means that it was replaced before it sent
// the request.
func (s *Service) replaced(u *Upstream, resp *dragoman.Message) bool {
	return resp != nil && resp.IsError() && resp.RPCError().Code == protocol.CodeDraining && s.current.Load() != u
}

// Accept begins a session with a client of either era. It implements dragoman.Acceptor.
func (s *Service) Accept(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
	if e := s.current.Load().shut(); e != nil {
		return nil, e
	}
	return &session{service: s, client: client, caller: dragoman.CallerOf(ctx)}, nil
}

// End closes what is open for the session of a client that ctx is of.
func (s *Service) End(ctx context.Context) {
	if u := s.current.Load(); u.supervisor != nil {
		u.supervisor.server.End(u.passing(ctx))
	}
}

// add adds a session to those in use, and removes some that have ended.
func (s *Service) add(ss *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sessions) >= s.sweepAt {
		s.sweep()
		s.sweepAt = 2*len(s.sessions) + 16
	}
	s.sessions[ss] = struct{}{}
}

// sweep removes sessions that have ended. They hold no upstream any longer, as others may hold
// them for a while. s.mu is held.
func (s *Service) sweep() {
	for ss := range s.sessions {
		if ss.client.Err() != nil {
			ss.at.Store(nil)
			delete(s.sessions, ss)
		}
	}
}

// openSessions returns the sessions in use.
func (s *Service) openSessions() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	return slices.Collect(maps.Keys(s.sessions))
}

// OnChange calls f when lists of the server may have changed, with the method
// of the notification. f must not block.
func (s *Service) OnChange(f func(note string)) (stop func()) { return s.changes.OnChange(f) }

// A session is that of one client. Its first request after the upstream was replaced opens it
// at the new one.
type session struct {
	service *Service
	client  dragoman.Conn
	caller  *dragoman.Caller
	memory  sessions.Memory // what is replayed at a new upstream
	at      atomic.Pointer[attachment]
	known   atomic.Bool  // it is among the sessions of the service
	asks    atomic.Bool  // the client's user can be sent to a page
	repeats atomic.Int64 // for ids
}

// An attachment is a session at one upstream.
type attachment struct {
	up   *Upstream
	peer dragoman.Peer          // the session as era serves it
	open syncs.Flight[struct{}] // the handshake with the server
}

// Call implements dragoman.Peer.
func (ss *session) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if protocol.IsModern(req) {
		return requests{ss.service}.Call(dragoman.WithCaller(ctx, ss.caller), req, from)
	}
	for {
		a, err := ss.attach(ctx)
		if err != nil {
			return answer(ctx, req, err)
		}
		resp, err := ss.ask(ctx, a, req, from)
		if !ss.service.replaced(a.up, resp) {
			return resp, err
		}
	}
}

// Notify implements dragoman.Peer.
func (ss *session) Notify(ctx context.Context, note *dragoman.Message) error {
	if note.Method() == protocol.NoteInitialized {
		ss.memory.Initialized()
	}
	if a := ss.at.Load(); a != nil {
		return a.peer.Notify(ctx, note)
	}
	return nil
}

// ask passes a request to an upstream, and records what must be replayed at the next one.
func (ss *session) ask(ctx context.Context, a *attachment, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	u := a.up
	if !ss.known.Swap(true) {
		ss.service.add(ss)
	}
	if req.Method() == protocol.MethodInitialize {
		ss.asks.Store(elicits(req.Get("capabilities")))
	}
	changes := u.catalog.Changes()
	resp, err := u.pass(ctx, req, from, a.peer)
	u.catalog.Pass(catalog.View{Caller: u.keyed(ss.caller), Session: true}, changes, req, resp)
	if u.signsIn && ss.asks.Load() && protocol.MayNeedInput(req.Method()) {
		source := u.sourceOf(u.passedOf(ss.caller))
		if q := u.questionOf(resp, err); q != nil && q.ask(ctx, from, source) {
			return u.pass(ctx, req, from, a.peer)
		}
	}
	if err == nil && req.Method() == protocol.MethodInitialize && !resp.IsError() {
		a.open.Replace(struct{}{})
		ss.memory.Opened(agreed(req, resp), resp)
	}
	ss.memory.Learn(req, resp)
	return resp, err
}

// agreed returns an initialize that asks for the revision by which it was answered, which the
// client speaks from then on.
func agreed(req, resp *dragoman.Message) *dragoman.Message {
	if version := protocol.VersionOf(resp); version != protocol.VersionOf(req) {
		if other, err := req.Edit().Set("protocolVersion", dragoman.Quote(version)).Message(); err == nil {
			return other
		}
	}
	return req
}

// attach returns the session at the current upstream. If that has replaced another one, it
// repeats the handshake there.
func (ss *session) attach(ctx context.Context) (*attachment, error) {
	for {
		a, err := ss.attachment()
		if err != nil {
			return nil, err
		}
		if _, ok := a.open.Peek(); ok || !ss.memory.IsOpen() {
			return a, nil
		}
		_, err = a.open.Get(ctx, a.up.supervisor.spawn, func() (struct{}, error) { return struct{}{}, ss.repeat(a) })
		if err == nil || ctx.Err() != nil || ss.service.current.Load() == a.up {
			return a, err
		}
	}
}

// attachment returns the session at the current upstream, with which there may be no handshake yet.
func (ss *session) attachment() (*attachment, error) {
	for {
		a, u := ss.at.Load(), ss.service.current.Load() // in this order: u is not older than a
		if e := u.shut(); e != nil {
			return nil, e
		}
		if a != nil && a.up == u {
			return a, nil
		}
		ctx := u.passing(dragoman.WithCaller(context.Background(), ss.caller))
		peer, err := u.supervisor.server.Accept(ctx, ss.client)
		if err != nil {
			return nil, err
		}
		if next := (&attachment{up: u, peer: peer}); ss.at.CompareAndSwap(a, next) {
			return next, nil
		}
	}
}

// repeat repeats the handshake, the log level and the subscriptions of the client at an
// upstream, and notifies the client of resources that may have changed meanwhile.
func (ss *session) repeat(a *attachment) error {
	u, open := a.up, false
	ctx, cancel := context.WithTimeoutCause(dragoman.WithCaller(u.supervisor.ctx, ss.caller), u.set.connect, u.set.hangs())
	defer cancel()
	server := dragoman.Funcs{
		OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			return u.pass(ctx, req, from, a.peer)
		},
		OnNotify: a.peer.Notify,
	}
	newID := func() dragoman.ID { return dragoman.StringID("repeat-" + strconv.FormatInt(ss.repeats.Add(1), 10)) }
	accept := func(*dragoman.Message) error {
		open = true
		return nil
	}
	if err := ss.memory.Replay(ctx, server, newID, accept, u.log); err != nil {
		if open { // a second handshake would be refused
			ss.at.CompareAndSwap(a, nil)
		}
		if isRefusal(err) {
			return err
		}
		r := u.refusal()
		r.Reason = u.redactError(err)
		return r.unavailable(0)
	}
	missed := protocol.Interest{URIs: ss.memory.Missed().URIs}
	for note := range missed.ChangeNotes() {
		_ = ss.client.Notify(ctx, note) // a client that cannot be notified has gone
	}
	return nil
}
