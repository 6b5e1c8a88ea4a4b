package era

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/down"
	"github.com/dragoman-mcp/dragoman/era/internal/pool"
	"github.com/dragoman-mcp/dragoman/internal/util/syncs"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Defaults of a Server.
const (
	DefaultProbeTimeout = 5 * time.Second
	DefaultDialTimeout  = 60 * time.Second
)

// An Isolation says which clients share a conversation with the server.
type Isolation uint8

// The isolations.
const (
	// PerSession gives each session of a legacy client one of its own. Requests
	// of modern clients, who have no sessions, share that of their caller.
	PerSession Isolation = iota

	// PerCaller lets all sessions and requests of one caller share.
	PerCaller

	// Shared lets everybody share. It is for servers that remember nothing. Nobody
	// can be asked anything, since nobody could tell who.
	Shared

	// PerRequest opens a session for each request, and closes it behind it.
	PerRequest
)

// A Server is a server of one era or both, as clients of either era see it. Its
// fields must not be changed once it is in use.
type Server struct {
	// Dialer opens conversations with the server. Required. The context of Dial says
	// who the conversation is for.
	Dialer dragoman.Dialer

	// Era is the era in which the server is spoken to. If nil, it is found out.
	Era *protocol.Era

	// Hint is the era that the server spoke when it was last found out, if that is
	// remembered. A legacy server is not asked for its era: the first message that it gets is
	// the initialize of a client, or ours. A modern one is given more time to answer. A
	// server that refuses what it is sent first, or does not answer, is asked for its era.
	Hint *protocol.Era

	// Probe finds out the era, if that is known. If nil, it is done by asking on
	// a conversation, and if there is no answer after ProbeTimeout by a handshake on
	// another one, too. If neither is answered, each later attempt does one of them.
	// Where the connection knows what the server has read, as that with a process does on
	// Linux, the time counts from then on, and a fifth of it is enough: then the next
	// initialize goes out on the same connection.
	Probe func(context.Context) (protocol.Era, error)

	// ProbeTimeout is how long a server may take to answer what no legacy server
	// knows before a handshake is tried; DialTimeout how long a conversation may take
	// to open. Zero means the defaults.
	ProbeTimeout, DialTimeout time.Duration

	// Timeout is how long the server may take over a request, reset by
	// each progress it makes and not while it waits for an answer of the client.
	// Zero means no limit.
	Timeout time.Duration

	// Isolation says which clients share a conversation.
	Isolation Isolation

	// Stateless says that in the modern era a conversation with the server holds
	// nothing, so that everybody can share one, as over HTTP.
	Stateless bool

	// Warm is how many conversations with a legacy server are kept open for
	// those who come next.
	Warm int

	// MaxSessions is how many conversations there may be in all, MaxPerCaller how
	// many of one caller, IdleTimeout how long one stays open that nobody uses.
	// MaxSuspended is how many calls of one caller may wait for it to come back with
	// its input, and SuspendTimeout for how long. Zero means the defaults: 1024, 256,
	// 5 minutes, 64, 10 minutes.
	MaxSessions, MaxPerCaller, MaxSuspended int
	IdleTimeout, SuspendTimeout             time.Duration

	// OnEra is called when the era has been found out. It does not block. It may be nil.
	OnEra func(protocol.Era)

	// Changed is called when the server says that a list has changed, by the method of
	// the notification, with whose conversation it was, or nil if that is everybody's.
	// It does not block. It may be nil.
	Changed func(whose *dragoman.Caller, note string)

	// Name and Version are what we call ourselves where a side does not say who
	// it is. If empty, they are "dragoman" and dragoman.Version.
	Name, Version string

	// Logger receives what is dropped and what is dialled. If nil, nothing is
	// logged.
	Logger *slog.Logger

	once            sync.Once
	ctx             context.Context // ends with Close
	cancel          context.CancelCauseFunc
	busy            syncs.Group // our goroutines
	log             *slog.Logger
	found           syncs.Flight[protocol.Era]
	silent          atomic.Bool           // the last probe had no answer, and nothing has been opened since
	handshakeFailed atomic.Bool           // the last handshake of our own had no answer either
	spoils          atomic.Bool           // a handshake on a connection that was probed has failed
	hinted          atomic.Bool           // Hint has been used
	assumed         atomic.Bool           // the server has taken no handshake: that it is a legacy one is remembered, or follows from what it did with the probe
	lent            atomic.Pointer[probe] // the last probe whose connection became a spare without an answer
	refuses         atomic.Bool           // the server is modern, and has refused a handshake or keeps no legacy sessions
	refused         atomic.Uint64         // handshakes that were refused so far
	repeats         atomic.Int64          // for ids
	pool            *pool.Pool
	spares          warmConns    // conversations that nobody uses yet
	front           Frontend     // what clients come to
	down            *down.Server // for modern clients of a legacy server
}

func (s *Server) prepare() {
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.log = cmp.Or(s.Logger, slog.New(slog.DiscardHandler))
	name, version := s.Name, s.Version
	if name == "" {
		name, version = "dragoman", dragoman.Version
	}
	s.spares.server = s
	s.pool = pool.New(&pool.Options{Max: s.MaxSessions, PerCaller: s.MaxPerCaller, Idle: s.IdleTimeout, Logger: s.log})
	s.front.prepare(requests{server: s}, &FrontendOptions{Name: name, Version: version, Ended: s.ended, Logger: s.log})
	s.front.begin = s.begin
	s.down = down.New(s.dial, &down.Options{
		Name: name, Version: version,
		Revisions:  protocol.Revisions(),
		Owner:      s.owner,
		PerRequest: s.Isolation == PerRequest, Shared: s.Isolation == Shared,
		Pool: s.pool, SuspendedPerCaller: s.MaxSuspended, SuspendTimeout: s.SuspendTimeout,
		Refused: func() { s.refused.Add(1) }, Assumed: s.assumed.Load, Accepted: s.accepted, Doubtful: s.isModern, Changed: s.changed,
		Logger: s.log,
	})
}

// owner returns whose conversation a request may use.
func (s *Server) owner(ctx context.Context) pool.Key {
	c := dragoman.CallerOf(ctx)
	switch s.Isolation {
	case Shared:
		return pool.Key{Caller: "#" + c.Passed}
	case PerSession:
		return pool.Key{Caller: c.Key(), Session: c.Session}
	}
	return pool.Key{Caller: c.Key()}
}

// Start finds out the server's era, again if it was known, and opens what is to be
// kept open, so that the first client need not wait and a server that does not come
// up is noticed. It may be left out.
func (s *Server) Start(ctx context.Context) (protocol.Era, error) {
	s.once.Do(s.prepare)
	s.forget()
	era, err := s.era(ctx)
	if err != nil || era == protocol.Modern {
		return era, err
	}
	s.spares.fill()
	return era, nil
}

// Found returns the era in which the server is spoken to, and whether it is known.
func (s *Server) Found() (protocol.Era, bool) {
	if s.Era != nil {
		return *s.Era, true
	}
	return s.found.Peek()
}

// Accept begins a conversation with a client of either era. Sessions come in by it, and
// transports whose conversations carry both eras.
func (s *Server) Accept(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
	s.once.Do(s.prepare)
	return s.front.Accept(ctx, client)
}

// Requests returns the peer that answers requests of the modern era.
func (s *Server) Requests() dragoman.Peer {
	s.once.Do(s.prepare)
	return requests{server: s}
}

// Main returns the peer that answers modern requests of our own. They have a conversation that is
// nobody else's, unless all share one, and that stays open. A legacy server is told
// there that everything can be asked, so that it hides nothing; there is nobody to ask,
// though, so what a request seems to wait for is refused.
func (s *Server) Main() dragoman.Peer {
	s.once.Do(s.prepare)
	return requests{server: s, main: true}
}

// Ping asks the server whether it is there, in the way of its era, in the
// conversation of our own. It fails if there is no answer, or if it is not that of a
// server of the era that was found.
func (s *Server) Ping(ctx context.Context) error {
	s.once.Do(s.prepare)
	era, err := s.era(ctx)
	if err != nil {
		return err
	}
	req, err := discoverRequest()
	if err != nil {
		return err
	}
	if era == protocol.Legacy {
		return s.down.Ping(ctx, req)
	}
	resp, err := s.pass(ctx, req, nil, true)
	if err != nil {
		return err
	}
	if e := resp.RPCError(); e != nil && protocol.IsGatewayError(e) {
		return e
	}
	if now, err := readDiscover(resp); s.Era == nil && (err != nil || now != era) {
		return errEra
	}
	return nil
}

// changed tells of a list that has changed.
func (s *Server) changed(whose *dragoman.Caller, note *dragoman.Message) {
	if s.Changed == nil {
		return
	}
	switch method := note.Method(); method {
	case protocol.NoteToolsChanged, protocol.NotePromptsChanged, protocol.NoteResourcesChanged:
		s.Changed(whose, method)
	}
}

// ended is told that a session has ended that needed the crossing. At the end of the
// server all conversations end.
func (s *Server) ended(ctx context.Context) {
	if s.ctx.Err() == nil {
		s.End(ctx)
	}
}

// End closes what is open for the client's session that ctx is of.
func (s *Server) End(ctx context.Context) {
	s.once.Do(s.prepare)
	if key := s.owner(ctx); key.Session != "" {
		s.pool.End(key)
	}
}

// Suspended returns how many calls at a legacy server wait for input of their modern clients.
func (s *Server) Suspended() int {
	s.once.Do(s.prepare)
	return s.down.Suspended()
}

// Continues reports whether a request continues a call that is suspended here, by its
// requestState.
func (s *Server) Continues(ctx context.Context, req *dragoman.Message) bool {
	s.once.Do(s.prepare)
	return s.down.Continues(protocol.Identify(ctx, req), req)
}

// Close ends all conversations with the server and waits for our goroutines.
func (s *Server) Close() error {
	s.once.Do(s.prepare)
	s.cancel(dragoman.ErrClosed)
	err := errors.Join(s.front.Close(), s.down.Close()) // which closes the pool
	s.busy.Wait()
	s.spares.close()
	return err
}

// dial opens a conversation with a legacy server, or takes one that is open.
func (s *Server) dial(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error) {
	if conn := s.spares.take(protocol.Legacy, dragoman.CallerOf(ctx), local); conn != nil {
		return conn, nil
	}
	return s.open(ctx, local)
}

// open opens a conversation with the server.
func (s *Server) open(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error) {
	if s.ctx.Err() != nil {
		return nil, dragoman.ErrClosed
	}
	ctx, cancel := s.dialContext(ctx)
	defer cancel()
	conn, err := s.Dialer.Dial(ctx, local)
	if err != nil {
		return nil, err
	}
	s.silent.Store(false)
	if s.Timeout > 0 {
		conn = withTimeout(conn, s.Timeout)
	}
	return conn, nil
}

// dialContext bounds what must have the server reached.
func (s *Server) dialContext(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := cmp.Or(s.DialTimeout, DefaultDialTimeout)
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("era: the server cannot be reached within %v", limit))
}

// requests is the peer that answers requests of the modern era.
type requests struct {
	server *Server
	main   bool // they are our own
}

// Call sends a request to the server in the era that it speaks. If what is known of
// that turns out to be wrong, it is found out once more.
func (d requests) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	s := d.server
	ctx = protocol.Identify(ctx, req)
	for again := true; ; again = false {
		era, err := s.era(ctx)
		if err != nil {
			return unavailable(ctx, req, err)
		}
		var resp *dragoman.Message
		before := s.refused.Load()
		switch {
		case era == protocol.Modern && !s.asksLegacy(ctx):
			resp, err = s.modern(ctx, req, from, d.main)
			if !errors.Is(err, errEra) || !again {
				return answered(ctx, req, resp, err)
			}
			s.forget()
			continue
		case d.main:
			resp, err = s.down.Main().Call(ctx, req, from)
		default:
			resp, err = s.down.Call(ctx, req, from)
		}
		if err != nil || !again || s.refused.Load() == before || !isUnavailable(resp) {
			return resp, err
		}
		s.wasRefused(era)
	}
}

// asksLegacy reports whether a request that came in the modern era belongs to a
// session of a legacy client, which is better served in its own: a server of both
// eras can ask it then, and keeps its state, unless it keeps no legacy sessions.
func (s *Server) asksLegacy(ctx context.Context) bool {
	return s.Era == nil && s.Isolation == PerSession && !s.refuses.Load() && dragoman.CallerOf(ctx).Session != ""
}

// accepted notes that the server has taken a handshake.
func (s *Server) accepted() { s.assumed.Store(false) }

// wasRefused notes that a server of an era has refused a handshake: if it is modern,
// it is used as that alone, and if it was taken for legacy, it may be another one by now.
func (s *Server) wasRefused(era protocol.Era) {
	if era == protocol.Modern {
		s.refuses.Store(true)
		return
	}
	s.spoils.Store(true)
	s.forget()
}

func isUnavailable(resp *dragoman.Message) bool {
	return resp != nil && resp.IsError() && resp.RPCError().Code == protocol.CodeUnavailable
}

// Notify drops what a modern client tells outside of any request: the protocol
// has nothing there that a server could use, and who cancels has been heard by
// the transport.
func (d requests) Notify(context.Context, *dragoman.Message) error { return nil }

// answered returns what a call came to, in which an era that has changed is a server
// that is not there.
func answered(ctx context.Context, req, resp *dragoman.Message, err error) (*dragoman.Message, error) {
	if errors.Is(err, errEra) {
		return unavailable(ctx, req, err)
	}
	return resp, err
}

// unavailable answers a request that cannot reach the server.
func unavailable(ctx context.Context, req *dragoman.Message, err error) (*dragoman.Message, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return req.Fail(protocol.Unavailable(err)), nil
}

// begin begins the session of a legacy client. A server of both eras, or of an era that
// is not known yet, is asked in the client's; it crosses over if that is refused.
func (s *Server) begin(ctx context.Context, c *frontConn, caller *dragoman.Caller) (dragoman.Peer, error) {
	if s.Isolation == PerSession && !s.isModernOnly(ctx) {
		return newLegacySession(s, c, caller), nil
	}
	return s.front.cross(ctx, c, caller)
}

// isModern reports whether the server is known to speak the modern era.
func (s *Server) isModern() bool {
	era, known := s.found.Peek()
	return known && era == protocol.Modern
}
