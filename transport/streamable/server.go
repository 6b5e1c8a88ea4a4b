package streamable

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/eventlog"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/internal/toollist"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Defaults of a Server.
const (
	DefaultMaxSessions   = 16384
	DefaultMaxRequests   = 1024
	DefaultMaxConcurrent = 16384
	DefaultIdleTimeout   = 30 * time.Minute
	DefaultBodyTimeout   = 10 * time.Second
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
	// this machine against pages in its browser.
	Hosts, Origins []string

	// Caller tells who makes a request. A session belongs to the caller who
	// opened it; to others it does not exist. If nil, callers are told apart by
	// their address, and a session is open to all.
	Caller func(*http.Request) (*dragoman.Caller, error)

	// Log keeps the events of the legacy era's streams, so that clients can
	// resume them. If nil, it is in memory.
	Log eventlog.Log

	// Store remembers sessions beyond the life of this Server, so that one that
	// comes after it goes on with them as if
	// nothing had happened. Streams can then be resumed if Log outlives it too. If
	// nil, sessions end with the Server.
	Store SessionStore

	// Before is the Server whose place this one takes, and whose Store and Log
	// it has, while that is shut down: streams of calls that it finishes can be
	// resumed here, and be cancelled and answered. It may be nil.
	Before *Server

	// MaxMessage is the largest body, in bytes. Zero means
	// dragoman.DefaultMaxMessage; negative means no limit.
	MaxMessage int

	// MaxSessions is how many sessions there may be, MaxRequests how many
	// requests of one session may be under way, and MaxConcurrent how many of
	// the modern era. Zero means the defaults; negative means no limit.
	MaxSessions, MaxRequests, MaxConcurrent int

	// IdleTimeout ends sessions that nobody has used for so long. BodyTimeout is
	// how long the body of a request may take, WriteTimeout how long a client
	// may take to read what is written to it, KeepAlive how long a stream stays
	// silent, Retry how long a client should wait before it connects anew. Zero
	// means the defaults; negative means no limit, no keep-alive, no advice.
	IdleTimeout, BodyTimeout, WriteTimeout, KeepAlive, Retry time.Duration

	// Logger receives faults. If nil, nothing is logged.
	Logger *slog.Logger

	once    sync.Once
	opts    settings
	gate    httpx.Gate
	tools   toollist.Cache
	drain   context.Context // ends with Shutdown
	drained context.CancelFunc
	reading *httpx.Watch // requests whose body comes
	silent  *httpx.Watch // answers that are no stream yet
	serving sync.WaitGroup
	past    past

	mu       sync.Mutex
	sessions map[string]*session
	opening  int                       // sessions that have a place and are not there yet
	open     map[*callContext]struct{} // requests of the modern era
	stopped  bool
	cut      bool // those under way have had their time
}

// settings are the fields of a Server with their defaults filled in.
type settings struct {
	limits                              dragoman.Limits
	maxSessions, maxRequests, maxModern int
	idle, body, write, keepAlive, retry time.Duration
	log                                 eventlog.Log
	logger                              *slog.Logger
	legacy, modern                      bool
}

// limit returns a limit, its default if it is zero, or what stands for none if it
// is negative.
func limit[N int | time.Duration](n, standard, none N) N {
	switch {
	case n == 0:
		return standard
	case n < 0:
		return none
	}
	return n
}

func (s *Server) prepare() {
	s.opts = settings{
		limits:      dragoman.Limits{MaxMessage: s.MaxMessage},
		maxSessions: limit(s.MaxSessions, DefaultMaxSessions, math.MaxInt),
		maxRequests: limit(s.MaxRequests, DefaultMaxRequests, math.MaxInt),
		maxModern:   limit(s.MaxConcurrent, DefaultMaxConcurrent, math.MaxInt),
		idle:        limit(s.IdleTimeout, DefaultIdleTimeout, math.MaxInt64),
		body:        limit(s.BodyTimeout, DefaultBodyTimeout, math.MaxInt64),
		write:       limit(s.WriteTimeout, sseWriteTimeout, math.MaxInt64),
		keepAlive:   limit(s.KeepAlive, sseKeepAlive, math.MaxInt64),
		retry:       limit(s.Retry, DefaultRetry, 0),
		log:         s.Log,
		logger:      s.Logger,
		legacy:      s.Sessions != nil,
		modern:      s.Requests != nil,
	}
	if s.opts.log == nil {
		s.opts.log = eventlog.NewMemory(nil)
	}
	if s.opts.logger == nil {
		s.opts.logger = slog.New(slog.DiscardHandler)
	}
	s.tools = toollist.Cache{MaxList: s.opts.limits.Message(), FailedFor: listFailed}
	s.gate = httpx.Gate{Hosts: s.Hosts, Origins: s.Origins}
	s.reading, s.silent = httpx.NewWatch(s.opts.body), httpx.NewWatch(s.opts.keepAlive)
	s.sessions, s.open = make(map[string]*session), make(map[*callContext]struct{})
	s.drain, s.drained = context.WithCancel(context.Background())
	if s.Store != nil {
		s.past.before, s.Before = s.Before, nil
	}
}

// ServeHTTP implements http.Handler. It does not look at the path, so it works
// wherever it is mounted.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.once.Do(s.prepare)
	if err := s.serve(w, r); err != nil {
		var refusal *httpx.Refusal
		if !errors.As(err, &refusal) {
			refusal = refuse(http.StatusInternalServerError, protocol.CodeInternal, err.Error())
		}
		s.limitWrite(w)
		comeBack(w.Header(), refusal.Status)
		refusal.Write(w)
	}
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) error {
	if err := s.gate.Check(r); err != nil {
		return err
	}
	if !s.enter() {
		return draining()
	}
	defer s.serving.Done()
	if s.gate.CORS(w, r) {
		return nil
	}
	r, refusal := httpx.Named(r, s.Caller)
	switch {
	case refusal != nil:
		return refusal
	case r.Method == http.MethodPost:
		return s.post(w, r)
	case r.Method == http.MethodGet && s.opts.legacy:
		return s.get(w, r)
	case r.Method == http.MethodDelete && s.opts.legacy:
		return s.delete(w, r)
	}
	allow := "POST"
	if s.opts.legacy {
		allow = "GET, POST, DELETE"
	}
	return &httpx.Refusal{
		Status: http.StatusMethodNotAllowed, Code: protocol.CodeServer, Allow: allow,
		Message: r.Method + " is not served here; use " + allow,
	}
}

// enter counts a request in, unless the server is stopping.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	s.serving.Add(1)
	return true
}

func refuse(status, code int, message string) *httpx.Refusal {
	return &httpx.Refusal{Status: status, Code: code, Message: message}
}

// closeWait is how long Shutdown waits after its context for those who are told
// that they were cancelled.
const closeWait = 500 * time.Millisecond

// Shutdown refuses new requests, ends the streams that have no end, waits for
// requests under way until ctx ends, and then cancels the rest, who are told that
// they were lost, and ends all sessions. With a Store they end here alone. It
// returns within half a second after ctx: a client that reads nothing is left to
// the deadline of its write, and a peer that goes on to itself.
func (s *Server) Shutdown(ctx context.Context) error {
	s.once.Do(s.prepare)
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.drained()
	done := make(chan struct{})
	// Ends when the last request does, which cancelling it brings about, unless
	// a peer ignores that.
	go func() {
		s.serving.Wait()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = context.Cause(ctx)
		s.abort()
	}
	for _, v := range s.all() {
		v.over(dragoman.ErrClosed, s.Store == nil)
	}
	select {
	case <-done:
	case <-time.After(closeWait): // ctx has ended
		s.opts.logger.Warn("requests are still under way after the end of the server")
	}
	s.part()
	return err
}

// abort cancels the requests of the modern era.
func (s *Server) abort() {
	s.mu.Lock()
	s.cut = true
	open := slices.Collect(maps.Keys(s.open))
	s.mu.Unlock()
	for _, ctx := range open {
		ctx.cancel(dragoman.ErrClosed)
	}
}

func (s *Server) all() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*session, 0, len(s.sessions))
	for _, v := range s.sessions {
		list = append(list, v)
	}
	return list
}

// post takes a POST: it reads the body and finds the door that it means.
func (s *Server) post(w http.ResponseWriter, r *http.Request) error {
	if !httpx.Accepts(r, "application/json", sseContentType) {
		return refuse(http.StatusNotAcceptable, protocol.CodeServer, "Accept must list application/json and text/event-stream")
	}
	body, err := httpx.ReadBodyOn(s.reading, w, r, s.opts.limits.Message())
	if err != nil {
		return err
	}
	m, err := s.opts.limits.Parse(body)
	if err != nil {
		return s.notOne(w, r, body, err)
	}
	header, _, err := httpx.Single(r, protocol.HeaderVersion)
	if err != nil {
		return refused(m, http.StatusBadRequest, protocol.CodeHeaderMismatch, err.Error())
	}
	claimed := m.Kind() != dragoman.Response && protocol.IsModern(m)
	modernHeader := header != "" && protocol.EraOf(header) == protocol.Modern
	switch {
	case m.Kind() == dragoman.Response && (modernHeader || !s.opts.legacy):
		return refuse(http.StatusBadRequest, protocol.CodeInvalidRequest, "Invalid request: a client of this era sends no responses")
	case m.Kind() == dragoman.Notification && (claimed || modernHeader):
		return s.note(w, r, m)
	case claimed:
		return s.modern(w, r, m, header)
	case m.Method() == protocol.MethodInitialize && modernHeader:
		return refused(m, http.StatusBadRequest, protocol.CodeHeaderMismatch, protocol.HeaderVersion+" names a revision that has no initialize")
	case modernHeader, !s.opts.legacy && m.Method() != protocol.MethodInitialize:
		return refused(m, http.StatusBadRequest, protocol.CodeInvalidParams, "params._meta lacks "+protocol.MetaProtocolVersion)
	}
	return s.legacy(w, r, m, header)
}

// notOne takes a body that is not one message: a batch, or nothing.
func (s *Server) notOne(w http.ResponseWriter, r *http.Request, body []byte, err error) error {
	if parts, e := dragoman.Elements(body); e == nil && s.opts.legacy {
		if protocol.EraOf(r.Header.Get(protocol.HeaderVersion)) == protocol.Modern {
			return refuse(http.StatusBadRequest, protocol.CodeInvalidRequest, "Invalid request: this revision has no batches")
		}
		return s.batch(w, r, parts)
	}
	var p *dragoman.ParseError
	if !errors.As(err, &p) {
		return refuse(http.StatusRequestEntityTooLarge, protocol.CodeInvalidRequest, err.Error())
	}
	answer := p.Response()
	return &httpx.Refusal{Status: http.StatusBadRequest, Code: p.Code, ID: answer.ID(), Message: answer.RPCError().Message}
}

// refused refuses a request by its id.
func refused(m *dragoman.Message, status, code int, message string) *httpx.Refusal {
	r := refuse(status, code, message)
	if m.Kind() == dragoman.Request {
		r.ID = m.ID()
	}
	return r
}
