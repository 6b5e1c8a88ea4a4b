package era

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/down"
	"github.com/dragoman-mcp/dragoman/era/internal/up"
	"github.com/dragoman-mcp/dragoman/internal/running"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Defaults of a Server.
const (
	DefaultProbeTimeout = 5 * time.Second
	DefaultDialTimeout  = 60 * time.Second
)

// An Isolation says which clients share a session with a server of the legacy
// era. A server of the modern era has none.
type Isolation uint8

// The isolations.
const (
	// PerSession gives each session of a legacy client one of its own. Requests
	// of modern clients, who have no sessions, share those of their caller.
	PerSession Isolation = iota

	// PerCaller lets all sessions and requests of one caller share.
	PerCaller

	// Shared lets everybody share. It is for servers that remember nothing.
	Shared

	// PerRequest opens a session for each request, and closes it behind it.
	PerRequest
)

// A Server is a server of one era or both, as clients of either era see it. Its
// fields must not be changed once it is in use.
type Server struct {
	// Dialer opens conversations with the server. Required. Those that are a
	// [dragoman.Correlator] need fewer sessions with a legacy server.
	Dialer dragoman.Dialer

	// Era is the era in which the server is spoken to. If nil, it is found out.
	Era *protocol.Era

	// Probe finds out the era, if that is known. If nil, it is done by asking on
	// a conversation, for ProbeTimeout at most, and if there is no answer by a
	// handshake on another.
	Probe func(context.Context) (protocol.Era, error)

	// ProbeTimeout is how long a server may take to answer what no legacy server
	// knows; DialTimeout how long a conversation may take to open. Zero means the
	// defaults.
	ProbeTimeout, DialTimeout time.Duration

	// Timeout is how long the server may take over a request, counted anew with
	// each progress it makes and not while it waits for an answer of the client.
	// Zero means for ever.
	Timeout time.Duration

	// Isolation says which clients share a session.
	Isolation Isolation

	// Warm is how many conversations with a legacy server are kept open for
	// those who come next.
	Warm int

	// MaxSessions is how many sessions modern clients may have with a legacy
	// server in all, IdleTimeout how long one stays open unused. SuspendTimeout is
	// how long a call waits for a modern client to come back with its input. Zero
	// means the defaults: 64, 5 minutes, 10 minutes.
	MaxSessions                 int
	IdleTimeout, SuspendTimeout time.Duration

	// Name and Version are what we call ourselves where a side does not say who
	// it is. If empty, they are "dragoman" and "0".
	Name, Version string

	// Logger receives what is dropped and what is dialled. If nil, nothing is
	// logged.
	Logger *slog.Logger

	once    sync.Once
	ctx     context.Context // ends with Close
	cancel  context.CancelCauseFunc
	busy    running.Group // our goroutines
	log     *slog.Logger
	found   flight[protocol.Era]
	silent  atomic.Bool  // the last probe had no answer, and nothing has been opened since
	repeats atomic.Int64 // for ids
	link    *link        // to a modern server
	spares  spares       // conversations with a legacy server that nobody uses yet
	up      *up.Server   // for legacy clients of a modern server
	down    *down.Server // for modern clients of a legacy server
	round   *up.Server   // for legacy clients that share sessions of a legacy server
}

func (s *Server) prepare() {
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.log = s.Logger
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	name, version := s.Name, s.Version
	if name == "" {
		name, version = "dragoman", "0"
	}
	s.link = &link{server: s}
	s.spares.server = s
	opts := &up.Options{Name: name, Version: version, Logger: s.log}
	s.up = up.New(s.link, opts)
	s.down = down.New(s.dial, &down.Options{
		Name: name, Version: version,
		Revisions:   protocol.Revisions(),
		Caller:      s.caller,
		PerRequest:  s.Isolation == PerRequest,
		MaxSessions: s.MaxSessions, IdleTimeout: s.IdleTimeout, SuspendTimeout: s.SuspendTimeout,
		Logger: s.log,
	})
	s.round = up.New(s.down, opts)
}

// caller returns whose sessions a request may use.
func (s *Server) caller(ctx context.Context) string {
	switch s.Isolation {
	case Shared:
		return ""
	case PerSession:
		if session := dragoman.SessionOf(ctx); session != "" {
			return dragoman.CallerOf(ctx) + "\x00" + session
		}
	}
	return dragoman.CallerOf(ctx)
}

// Start finds out the server's era and opens what is to be kept open, so that
// the first client need not wait and a server that does not come up is noticed.
// It may be left out.
func (s *Server) Start(ctx context.Context) (protocol.Era, error) {
	s.once.Do(s.prepare)
	era, err := s.era(ctx)
	if err != nil || era == protocol.Modern {
		return era, err
	}
	s.spares.fill()
	return era, nil
}

// try finds out whether a server that has said nothing so far is there at all.
// One that is not may yet turn out to be of either era.
func (s *Server) try(ctx context.Context) error {
	req, err := discoverRequest()
	if err != nil {
		return err
	}
	resp, err := s.down.Call(ctx, req, nil)
	if err == nil && resp.IsError() {
		err = resp.RPCError()
	}
	return err
}

// Accept begins a conversation with a client of either era. It is the door for
// sessions, and for transports whose conversations carry both eras.
func (s *Server) Accept(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
	s.once.Do(s.prepare)
	if s.ctx.Err() != nil {
		return nil, dragoman.ErrClosed
	}
	return &conversation{server: s, client: client, opened: dragoman.As(context.Background(), ctx)}, nil
}

// Requests is the door for requests of the modern era.
func (s *Server) Requests() dragoman.Peer {
	s.once.Do(s.prepare)
	return requests{s}
}

// Close ends all conversations with the server and waits for our goroutines.
func (s *Server) Close() error {
	s.once.Do(s.prepare)
	s.cancel(dragoman.ErrClosed)
	err := errors.Join(s.up.Close(), s.round.Close(), s.down.Close())
	s.busy.Wait()
	s.spares.close()
	return errors.Join(err, s.link.close())
}

// dial opens a conversation with the server, or takes one that is open.
func (s *Server) dial(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error) {
	if conn := s.spares.take(local); conn != nil {
		return conn, nil
	}
	return s.open(ctx, local)
}

// open opens a conversation with the server.
func (s *Server) open(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error) {
	if s.ctx.Err() != nil {
		return nil, dragoman.ErrClosed
	}
	ctx, cancel := context.WithTimeoutCause(ctx, orDefault(s.DialTimeout, DefaultDialTimeout), errDial)
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

var errDial = errors.New("era: the server cannot be reached in time")

func orDefault[T int | time.Duration](v, d T) T {
	if v == 0 {
		return d
	}
	return v
}

// requests is the door for requests of the modern era.
type requests struct{ server *Server }

func (d requests) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	s := d.server
	era, err := s.era(ctx)
	switch {
	case err != nil:
		return unavailable(ctx, req, err)
	case era == protocol.Modern:
		switch req.Method() {
		case protocol.MethodDiscover:
			return s.discover(ctx, req, from)
		case protocol.MethodListen:
			return s.link.listen(ctx, req, from)
		}
		return s.link.Call(ctx, req, from)
	}
	return s.down.Call(ctx, req, from)
}

// Notify drops what a modern client tells outside of any request: the protocol
// has nothing there that a server could use, and who cancels has been heard by
// the transport.
func (d requests) Notify(context.Context, *dragoman.Message) error { return nil }

// unavailable answers a request that cannot reach the server.
func unavailable(ctx context.Context, req *dragoman.Message, err error) (*dragoman.Message, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return req.Fail(protocol.Unavailable(err)), nil
}
