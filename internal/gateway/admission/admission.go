package admission

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/gateway/event"
	"github.com/dragoman-mcp/dragoman/internal/gateway/upstream"
	"github.com/dragoman-mcp/dragoman/internal/util/limit"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// defaultSessionsPerCaller is how many sessions one caller may have.
const defaultSessionsPerCaller = 4096

// largeBody is the size from which the body of a request is not read if the request is refused anyway. What
// is smaller may be an answer or a cancel, which belong to what is in flight.
const largeBody = 64 << 10

// An Admission bounds what callers and sessions may have and do at all endpoints of a gateway,
// and refuses new work while memory is short. Responses always pass.
type Admission struct {
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

// New returns the admission that limits describe. The observers by are called for requests without an id.
func New(l *config.Limits, by event.Observers, log *slog.Logger) *Admission {
	return &Admission{
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

// Sessions returns how many sessions are open.
func (e *Admission) Sessions() int { return e.all.Used() }

// Check refuses an HTTP request before its body is read, if it is sure that what it brings
// would be refused. opens says that a GET at its path opens a session.
func (e *Admission) Check(r *http.Request, c *dragoman.Caller, opens bool) error {
	switch {
	case opens && r.Method == http.MethodGet && r.Header.Get(protocol.HeaderSession) == "":
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
func (e *Admission) noSession(key string) *dragoman.Error {
	switch {
	case e.memory.Short(limit.SessionsAt):
		return shortOfMemory()
	case e.each.Full(key):
		return e.tooManySessions()
	}
	return nil
}

// enter counts a request of a caller, by a transport, until leave, or returns why it is refused.
func (e *Admission) enter(key, transport string, req *dragoman.Message) *dragoman.Error {
	if e.memory.Short(limit.RequestsAt) {
		return shortOfMemory()
	}
	if e.calls.Max > 0 && !e.calls.Enter(key) {
		return upstream.TooMany(protocol.LimitCaller, fmt.Sprintf("too many requests are in flight: there may be %d of one caller (limits.callsPerCaller)", e.calls.Max))
	}
	if n := e.rooms.carried(transport, req); n > 0 {
		if err := e.rooms.messages.Take(key, n); err != nil {
			e.leaveCalls(key)
			return noRoom(e.rooms.messages, err)
		}
	}
	if wait := e.rates.Take(key); wait > 0 {
		e.leave(key, transport, req)
		return e.callerTooOften(wait)
	}
	return nil
}

func (e *Admission) leave(key, transport string, req *dragoman.Message) {
	if n := e.rooms.carried(transport, req); n > 0 {
		e.rooms.messages.Release(key, n)
	}
	e.leaveCalls(key)
}

func (e *Admission) leaveCalls(key string) {
	if e.calls.Max > 0 {
		e.calls.Leave(key)
	}
}

// refused is the answer to a request that is refused.
func (e *Admission) refused(req *dragoman.Message, refusal *dragoman.Error) (*dragoman.Message, error) {
	e.log.Debug("request refused", "method", req.Method(), "name", req.Name(), "reason", refusal.Message)
	return nil, &event.Refusal{Answer: refusal}
}

// openSession counts a session until closeSession, or returns why it is refused.
func (e *Admission) openSession(key string) (refusal *dragoman.Error) {
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

func (e *Admission) closeSession(key string) {
	e.all.Leave()
	e.each.Leave(key)
}

func shortOfMemory() *dragoman.Error {
	return upstream.TooMany(protocol.LimitGateway, "the gateway is short of memory (limits.memory)")
}

func (e *Admission) tooManySessions() *dragoman.Error {
	return upstream.TooMany(protocol.LimitCaller, fmt.Sprintf("too many sessions: one caller may have %d (limits.sessionsPerCaller); end some", e.each.Max))
}

func (e *Admission) callerTooOften(wait time.Duration) *dragoman.Error {
	return upstream.TooOften(protocol.LimitCaller, "too many requests of one caller (limits.ratePerCaller)", e.limits.RatePerCaller, wait)
}

// Accept begins a session behind the limits, and counts it until it has ended.
func (e *Admission) Accept(ctx context.Context, client dragoman.Conn, next dragoman.Acceptor) (dragoman.Peer, error) {
	caller := dragoman.CallerOf(ctx)
	key := limitKey(caller)
	if refusal := e.openSession(key); refusal != nil {
		return nil, refusal
	}
	peer, err := next.Accept(ctx, client)
	if err != nil {
		e.closeSession(key)
		return nil, err
	}
	jsonrpc.AfterDone(client, func() { e.closeSession(key) })
	notes := limitedNotes{Peer: peer, admission: e, caller: caller, key: key, rate: limit.NewBucket(e.limits.Rate, e.limits.Burst), began: new(atomic.Bool)}
	return e.limit(notes, e.limits.Calls), nil
}

// Requests returns a peer behind the limits, for requests without a session.
func (e *Admission) Requests(next dragoman.Peer) dragoman.Peer {
	return e.limit(limitedNotes{Peer: next, admission: e}, 0)
}

// limit adds the limits of requests, if there are any. calls is how many may be in flight in one session.
func (e *Admission) limit(notes limitedNotes, calls int) dragoman.Peer {
	if e.memory == nil && e.rates == nil && e.calls.Max == 0 && notes.rate == nil && calls == 0 {
		return notes
	}
	return &limited{notes, limit.Room{Max: calls}}
}

// A limited peer takes the requests of a session, or those without one, as far as the limits allow.
type limited struct {
	limitedNotes
	calls limit.Room // requests of the session in flight
}

// Call implements dragoman.Peer. The limits of the session come first: what they refuse does not
// count for the caller.
func (p *limited) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	e := p.admission
	if !p.calls.Enter() {
		return e.refused(req, upstream.TooMany(protocol.LimitSession, fmt.Sprintf("too many requests are in flight: there may be %d of one session (limits.calls)", p.calls.Max)))
	}
	defer p.calls.Leave()
	if wait := p.rate.Take(); wait > 0 {
		return e.refused(req, upstream.TooOften(protocol.LimitSession, "too many requests of one session (limits.rate)", e.limits.Rate, wait))
	}
	c, key := p.callerOf(ctx)
	if refusal := e.enter(key, c.Transport, req); refusal != nil {
		p.rate.Return()
		return e.refused(req, refusal)
	}
	defer e.leave(key, c.Transport, req)
	return p.Peer.Call(ctx, req, from)
}
