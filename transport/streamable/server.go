package streamable

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/eventlog"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
	"github.com/dragoman-mcp/dragoman/internal/wire/sessions"
	"github.com/dragoman-mcp/dragoman/internal/wire/sse"
	"github.com/dragoman-mcp/dragoman/internal/wire/toollist"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Defaults of a Server.
const (
	DefaultMaxSessions   = 16384
	DefaultMaxRequests   = 1024
	DefaultMaxConcurrent = 32768
	DefaultIdleTimeout   = 30 * time.Minute
	DefaultBodyTimeout   = httpserver.DefaultBodyTimeout
	DefaultRetry         = time.Second
)

// A Server answers clients of all revisions on one URL. It must not be changed
// once it is in use.
type Server struct {
	// Sessions is given every client of the legacy era. If nil, they are told
	// which revisions are served.
	Sessions dragoman.Acceptor

	// Requests answers the requests of the modern era. If nil, they are told
	// which revisions are served.
	Requests dragoman.Peer

	// Hosts and Origins are accepted in the headers of these names beside those
	// of this machine, such as "mcp.example.com" and "https://app.example.com".
	// Others get 403. "*" accepts any, and gives up the protection of servers on
	// this machine against pages in its browser. Trusted says that a server in
	// front has checked both.
	Hosts, Origins []string
	Trusted        bool

	// Caller tells who makes a request. A session belongs to the caller who
	// opened it; to others it does not exist. If nil, callers are told apart by
	// their address, and a session is open to all.
	Caller func(*http.Request) (*dragoman.Caller, error)

	// Log keeps the events of the legacy era's streams, so that clients can
	// resume them. If nil, it is in memory.
	Log eventlog.Log

	// Store keeps a record of each session, by its id, beyond the life of this Server, so that the Server
	// that comes after it continues them. It has those of one endpoint: a session that was opened at another
	// must not be found in it. Streams can be resumed then if Log outlives the Server too. If nil, sessions
	// end with the Server.
	Store eventlog.Records

	// MaxMessage is the largest body, in bytes. Zero means
	// dragoman.DefaultMaxMessage; negative means no limit.
	MaxMessage int

	// MaxSessions is how many sessions there may be, MaxRequests how many
	// requests of one session may be in flight, and MaxConcurrent how many HTTP
	// requests in all, open streams among them. Zero means the defaults; negative
	// means no limit.
	MaxSessions, MaxRequests, MaxConcurrent int

	// IdleTimeout ends sessions that nobody has used for so long. BodyTimeout is
	// how long the body of a request may take, WriteTimeout how long a client
	// may take to read what is written to it, KeepAlive how long a stream stays
	// silent, Retry how long a client should wait before it connects again. Zero
	// means the defaults; negative means no limit, no keep-alive, no advice.
	IdleTimeout, BodyTimeout, WriteTimeout, KeepAlive, Retry time.Duration

	// Logger receives faults. If nil, nothing is logged.
	Logger *slog.Logger

	once          sync.Once
	opts          serverOptions
	base          *httpserver.Base
	tools         toollist.Cache
	draining      context.Context // ends with Shutdown
	startDraining context.CancelFunc
	quiet         *httpframe.Timeouts         // of answers that are no stream yet, see postAnswer.Expired
	records       *sessions.Records[*session] // nil without a Store

	mu       sync.Mutex
	sessions map[string]*session
	opening  int // sessions that count but are not in the table yet, see reserve
}

// serverOptions are the fields of a Server with their defaults filled in.
type serverOptions struct {
	limits                   dragoman.Limits
	maxSessions, maxRequests int
	idle, keepAlive, retry   time.Duration
	log                      eventlog.Log
	logger                   *slog.Logger
	legacy, modern           bool
}

func (s *Server) baseOptions() *httpserver.BaseOptions {
	return &httpserver.BaseOptions{
		Hosts: s.Hosts, Origins: s.Origins, Trusted: s.Trusted, Caller: s.Caller,
		MaxRequests: httpframe.Limit(s.MaxConcurrent, DefaultMaxConcurrent), MaxMessage: s.MaxMessage,
		BodyTimeout: s.BodyTimeout, WriteTimeout: s.WriteTimeout, Logger: s.Logger,
	}
}

func (s *Server) prepare() {
	s.base = httpserver.NewBase(s.baseOptions())
	s.opts = serverOptions{
		limits:      s.base.Limits,
		maxSessions: httpframe.Limit(s.MaxSessions, DefaultMaxSessions),
		maxRequests: httpframe.Limit(s.MaxRequests, DefaultMaxRequests),
		idle:        httpframe.Duration(s.IdleTimeout, DefaultIdleTimeout),
		keepAlive:   httpframe.Duration(s.KeepAlive, sse.KeepAlive),
		retry:       max(cmp.Or(s.Retry, DefaultRetry), 0),
		log:         s.Log,
		logger:      s.base.Log,
		legacy:      s.Sessions != nil,
		modern:      s.Requests != nil,
	}
	if s.opts.log == nil {
		s.opts.log = eventlog.NewMemory(nil)
	}
	s.tools = toollist.Cache{Lister: toollist.ListerOf(s.Requests), MaxList: s.opts.limits.Message(), FailedFor: listFailedFor}
	s.quiet = httpframe.NewTimeouts(s.opts.keepAlive)
	s.sessions = make(map[string]*session)
	s.draining, s.startDraining = context.WithCancel(context.Background())
	context.AfterFunc(s.base.Aborted(), s.endSessions)
	if s.Store != nil {
		s.records = sessions.NewRecords[*session](s.Store, s.opts.idle, s.opts.logger)
	}
}

// ServeHTTP implements http.Handler. It does not look at the path, so it works
// wherever it is mounted.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.once.Do(s.prepare)
	s.base.Serve(w, r, s.serve)
}

func (s *Server) serve(x *httpserver.Exchange) error {
	switch method := x.R.Method; {
	case method == http.MethodPost:
		return s.post(x)
	case method == http.MethodGet && s.opts.legacy:
		return s.get(x)
	case method == http.MethodDelete && s.opts.legacy:
		return s.delete(x)
	}
	allow := "POST"
	if s.opts.legacy {
		allow = "GET, POST, DELETE"
	}
	refusal := httpserver.NotAllowed(x.R, allow)
	refusal.Code = protocol.CodeServer
	return refusal
}

// Shutdown refuses new requests, ends the streams that have no end, waits for
// requests in flight until ctx ends, and then cancels the rest, whose callers learn that
// they were lost, and ends all sessions. With a Store they end here alone. It
// returns half a second after ctx at the latest, whatever still runs.
func (s *Server) Shutdown(ctx context.Context) error {
	s.once.Do(s.prepare)
	s.startDraining()
	err := s.base.Shutdown(ctx)
	s.endSessions()
	if s.records != nil {
		s.records.Close()
	}
	return err
}

// Close is Shutdown that does not wait for requests in flight to be done.
func (s *Server) Close() error {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(dragoman.ErrClosed)
	_ = s.Shutdown(ctx) // what it cut was to be cut
	return nil
}

// endSessions ends all sessions, here alone if there is a Store.
func (s *Server) endSessions() {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.sessions))
	s.mu.Unlock()
	for _, ss := range all {
		ss.endHere(dragoman.ErrClosed, s.Store == nil)
	}
}

// post takes a POST: it reads the body and finds out by which era's rules to serve it.
func (s *Server) post(x *httpserver.Exchange) error {
	if !httpserver.Accepts(x.R, "application/json", sse.ContentType) {
		return refuse(http.StatusNotAcceptable, protocol.CodeServer, "Accept must list application/json and text/event-stream")
	}
	body, err := x.Body()
	if err != nil {
		return err
	}
	m, err := s.opts.limits.Parse(body)
	if err != nil {
		return s.batch(x, body, err)
	}
	header, _, err := httpserver.Single(x.R, protocol.HeaderVersion)
	if err != nil {
		return refuseMessage(m, http.StatusBadRequest, protocol.CodeHeaderMismatch, err.Error())
	}
	isModern := m.Kind() != dragoman.Response && protocol.IsModern(m)
	modernHeader := header != "" && protocol.EraOf(header) == protocol.Modern
	switch {
	case m.Kind() == dragoman.Response && (modernHeader || !s.opts.legacy):
		return refuse(http.StatusBadRequest, protocol.CodeInvalidRequest, "Invalid request: a client of this era sends no responses")
	case m.Kind() == dragoman.Notification && (isModern || modernHeader):
		return s.modernNotification(x, m)
	case isModern:
		return s.modern(x, m, header)
	case m.Method() == protocol.MethodInitialize && modernHeader:
		return refuseMessage(m, http.StatusBadRequest, protocol.CodeHeaderMismatch, protocol.HeaderVersion+" names a revision that has no initialize")
	case modernHeader, !s.opts.legacy && m.Method() != protocol.MethodInitialize:
		return refuseMessage(m, http.StatusBadRequest, protocol.CodeInvalidParams, "params._meta lacks "+protocol.MetaProtocolVersion)
	}
	return s.legacy(x, m)
}
