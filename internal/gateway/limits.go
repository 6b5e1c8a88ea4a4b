package gateway

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/gateway/event"
	"github.com/dragoman-mcp/dragoman/internal/gateway/upstream"
	"github.com/dragoman-mcp/dragoman/internal/util/limit"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// defaultSessionsPerCaller is how many sessions one caller may have.
const defaultSessionsPerCaller = 4096

// largeBody is from which size on a body is not read of who would be refused anyway. What
// is smaller may be an answer or a cancel, which belong to what is under way.
const largeBody = 64 << 10

// An entrance is what all doors of a gateway have behind them, before anything else is
// asked: it bounds what callers and sessions may have and do, and takes no new work
// while memory is short. Answers to questions always pass.
type entrance struct {
	limits config.Limits
	log    *slog.Logger
	by     event.Observers
	memory *limit.Memory // nil if there is no limit
	rates  *limit.Rates  // of callers; nil if there is no limit
	calls  limit.Counts  // of callers
	noID   noID
	rooms  rooms        // of bytes
	all    limit.Room   // sessions
	each   limit.Counts // sessions of callers
}

func newEntrance(l *config.Limits, by event.Observers, log *slog.Logger) *entrance {
	return &entrance{
		limits: *l, log: log, by: by, memory: limit.NewMemory(memoryLimit(l), nil),
		rates: limit.NewRates(l.RatePerCaller, l.BurstPerCaller),
		calls: limit.Counts{Max: l.CallsPerCaller},
		rooms: newRooms(memoryLimit(l)),
		all:   limit.Room{Max: cmp.Or(l.Sessions, streamable.DefaultMaxSessions)},
		each:  limit.Counts{Max: cmp.Or(l.SessionsPerCaller, defaultSessionsPerCaller)},
	}
}

// memoryLimit is how much memory we may use: what is configured, or else the soft limit
// of the runtime, if there is one.
func memoryLimit(l *config.Limits) uint64 {
	if l.Memory > 0 {
		return uint64(l.Memory)
	}
	if soft := debug.SetMemoryLimit(-1); soft < math.MaxInt64 {
		return uint64(soft)
	}
	return 0
}

// limitKey is what a caller counts as: who it has proven to be, or else its address. What
// else it says of itself it could say otherwise each time.
func limitKey(c *dragoman.Caller) string {
	if c.Principal != "" {
		return "principal " + c.Principal
	}
	return limit.Address(c.Address)
}

// guard puts the entrance before a server.
func (e *entrance) guard(s *Backend) *Backend {
	guarded := *s
	if s.Acceptor != nil {
		guarded.Acceptor = &guardedAcceptor{s.Acceptor, e}
	}
	if s.Sessions != nil {
		guarded.Sessions = &guardedAcceptor{s.Sessions, e}
	}
	if s.Requests != nil {
		in := notified{Peer: s.Requests, entrance: e}
		guarded.Requests = in
		if e.memory != nil || e.rates != nil || e.calls.Max > 0 {
			guarded.Requests = &guardedRequests{in}
		}
	}
	return &guarded
}

// check refuses an HTTP request before its body is read, if it is sure that what it
// brings would be refused.
func (e *entrance) check(r *http.Request, c *dragoman.Caller) error {
	switch {
	case r.Method == http.MethodGet && r.Header.Get(protocol.HeaderSession) == "" && (strings.HasSuffix(r.URL.Path, WSPath) || strings.HasSuffix(r.URL.Path, SSEPath)):
		if refusal := e.noSession(limitKey(c)); refusal != nil {
			return httpserver.Unavailable(refusal)
		}
	case r.Method == http.MethodPost && (r.ContentLength < 0 || r.ContentLength > largeBody):
		if e.memory.Short(limit.RequestsAt) {
			return httpserver.Unavailable(shortOfMemory())
		}
		if wait := e.rates.Wait(limitKey(c)); wait > 0 {
			return httpserver.Unavailable(e.callerTooOften(wait))
		}
	}
	return nil
}

// noSession returns why a caller may not open a session now, nil if it may.
func (e *entrance) noSession(key string) *dragoman.Error {
	switch {
	case e.memory.Short(limit.SessionsAt):
		return shortOfMemory()
	case e.each.Full(key):
		return e.tooManySessions()
	}
	return nil
}

// enter counts a request of a caller, by a door, until leave, or returns why it is refused.
func (e *entrance) enter(key, door string, req *dragoman.Message) *dragoman.Error {
	if e.memory.Short(limit.RequestsAt) {
		return shortOfMemory()
	}
	if e.calls.Max > 0 && !e.calls.Enter(key) {
		return upstream.TooMany(protocol.LimitCaller, fmt.Sprintf("too many requests are under way: there may be %d of one caller (limits.callsPerCaller)", e.calls.Max))
	}
	if n := e.rooms.carried(door, req); n > 0 {
		if err := e.rooms.messages.Take(key, n); err != nil {
			e.leaveCalls(key)
			return noRoom(e.rooms.messages, err)
		}
	}
	if wait := e.rates.Take(key); wait > 0 {
		e.leave(key, door, req)
		return e.callerTooOften(wait)
	}
	return nil
}

func (e *entrance) leave(key, door string, req *dragoman.Message) {
	if n := e.rooms.carried(door, req); n > 0 {
		e.rooms.messages.Give(key, n)
	}
	e.leaveCalls(key)
}

func (e *entrance) leaveCalls(key string) {
	if e.calls.Max > 0 {
		e.calls.Leave(key)
	}
}

// refused is the answer to a request that is refused.
func (e *entrance) refused(req *dragoman.Message, refusal *dragoman.Error) (*dragoman.Message, error) {
	e.log.Debug("request refused", "method", req.Method(), "name", req.Name(), "reason", refusal.Message)
	return nil, &event.Refusal{Answer: refusal}
}

// openSession counts a session until closeSession, or returns why it is refused.
func (e *entrance) openSession(key string) (refusal *dragoman.Error) {
	if refusal := e.noSession(key); refusal != nil {
		return refusal
	}
	if !e.all.Enter() {
		return upstream.TooMany(protocol.LimitGateway, "there are too many sessions")
	}
	if !e.each.Enter(key) {
		e.all.Leave()
		return e.tooManySessions()
	}
	return nil
}

func (e *entrance) closeSession(key string) {
	e.all.Leave()
	e.each.Leave(key)
}

func shortOfMemory() *dragoman.Error {
	return upstream.TooMany(protocol.LimitGateway, "the gateway is short of memory (limits.memory)")
}

func (e *entrance) tooManySessions() *dragoman.Error {
	return upstream.TooMany(protocol.LimitCaller, fmt.Sprintf("too many sessions: one caller may have %d (limits.sessionsPerCaller); end some", e.each.Max))
}

func (e *entrance) callerTooOften(wait time.Duration) *dragoman.Error {
	return upstream.TooOften(protocol.LimitCaller, "too many requests of one caller (limits.ratePerCaller)", e.limits.RatePerCaller, wait)
}

// A guardedAcceptor lets as many conversations begin as there may be.
type guardedAcceptor struct {
	acceptor dragoman.Acceptor
	entrance *entrance
}

// Accept implements dragoman.Acceptor.
func (a *guardedAcceptor) Accept(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
	e, caller := a.entrance, dragoman.CallerOf(ctx)
	key := limitKey(caller)
	if refusal := e.openSession(key); refusal != nil {
		return nil, refusal
	}
	peer, err := a.acceptor.Accept(ctx, client)
	if err != nil {
		e.closeSession(key)
		return nil, err
	}
	afterDone(client, func() { e.closeSession(key) })
	l := &e.limits
	in := notified{Peer: peer, entrance: e, caller: caller, rate: limit.NewBucket(l.Rate, l.Burst), began: new(atomic.Bool)}
	if e.memory == nil && e.rates == nil && e.calls.Max == 0 && l.Rate.Count == 0 && l.Calls == 0 {
		return in, nil
	}
	return &guardedSession{notified: in, key: key, door: caller.Door, calls: limit.Room{Max: l.Calls}}, nil
}

// afterDone has f called when a conversation is over.
func afterDone(c dragoman.Conn, f func()) {
	if conn, ok := dragoman.PeerAs[interface{ AfterDone(func()) func() bool }](c); ok {
		conn.AfterDone(f)
		return
	}
	// Ends with the conversation. Those of our own transports need none.
	go func() {
		<-c.Done()
		f()
	}()
}

// A guardedSession is a session, in which no more is asked than may be.
type guardedSession struct {
	notified
	key   string // of its caller
	door  string // by which it came
	calls limit.Room
}

// Call implements dragoman.Peer. The session is asked first: what it may not do is not
// counted as its caller's.
func (s *guardedSession) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	e := s.entrance
	if !s.calls.Enter() {
		return e.refused(req, upstream.TooMany(protocol.LimitSession, fmt.Sprintf("too many requests are under way: there may be %d of one session (limits.calls)", s.calls.Max)))
	}
	defer s.calls.Leave()
	if wait := s.rate.Take(); wait > 0 {
		return e.refused(req, upstream.TooOften(protocol.LimitSession, "too many requests of one session (limits.rate)", e.limits.Rate, wait))
	}
	if refusal := e.enter(s.key, s.door, req); refusal != nil {
		s.rate.Return()
		return e.refused(req, refusal)
	}
	defer e.leave(s.key, s.door, req)
	return s.Peer.Call(ctx, req, from)
}

// guardedRequests are requests without a session.
type guardedRequests struct{ notified }

// Call implements dragoman.Peer.
func (p *guardedRequests) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	e, c := p.entrance, dragoman.CallerOf(ctx)
	key := limitKey(c)
	if refusal := e.enter(key, c.Door, req); refusal != nil {
		return e.refused(req, refusal)
	}
	defer e.leave(key, c.Door, req)
	return p.Peer.Call(ctx, req, from)
}
