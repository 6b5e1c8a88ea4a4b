package toolhttp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/internal/sse"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	// DefaultBodyTimeout is how long the body of a request may take to arrive.
	DefaultBodyTimeout = 10 * time.Second

	// abortWait is how long calls that were told to stop are waited for.
	abortWait = 500 * time.Millisecond
)

// A Server answers tool calls. It must not be changed once it is in use.
type Server struct {
	// Requests answers tools/call and tools/list of the newest revision. Each
	// request stands for itself. Required.
	Requests dragoman.Peer

	// Check tells whether arguments fit a tool's inputSchema. Both are JSON
	// text; arguments are nil if there are none. The text of its error goes to
	// the caller. If the error has the methods Path() string and
	// Reason() string, so does what they return. If nil, nothing is checked.
	Check func(schema, arguments json.RawMessage) error

	// Hosts and Origins are accepted in the headers of these names beside those
	// of this machine, such as "mcp.example.com" and "https://app.example.com".
	// Others get 403. "*" accepts any, and gives up the protection of servers on
	// this machine against pages in its browser.
	Hosts, Origins []string

	// Caller tells who makes a request. Lists of tools that are not meant for
	// everybody are kept for each caller. If nil, callers are told apart by their
	// address.
	Caller func(*http.Request) (*dragoman.Caller, error)

	// MaxMessage is the largest body, and the largest list of tools, in bytes.
	// Zero means dragoman.DefaultMaxMessage; negative means no limit.
	MaxMessage int

	// BodyTimeout is how long the body of a request may take, WriteTimeout how
	// long a caller may take to read what is written to it, KeepAlive how long a
	// stream stays silent. Zero means the defaults: DefaultBodyTimeout, and 30
	// and 15 seconds.
	BodyTimeout, WriteTimeout, KeepAlive time.Duration

	// CallTimeout is how long a call may take. Zero means as long as its caller
	// waits.
	CallTimeout time.Duration

	// Logger receives faults. If nil, nothing is logged.
	Logger *slog.Logger

	once    sync.Once
	opts    settings
	gate    httpx.Gate
	reading *httpx.Watch // requests whose body comes
	tools   book
	lastID  atomic.Int64 // of requests and progress tokens that are ours
	abort   context.Context
	cut     context.CancelFunc // ends abort
	serving sync.WaitGroup     // requests

	mu      sync.Mutex
	stopped bool
}

// settings are the fields of a Server with their defaults filled in.
type settings struct {
	limits           dragoman.Limits
	write, keepAlive time.Duration
	logger           *slog.Logger
}

func (s *Server) prepare() {
	s.opts = settings{
		limits:    dragoman.Limits{MaxMessage: s.MaxMessage},
		write:     cmp.Or(s.WriteTimeout, sse.WriteTimeout),
		keepAlive: cmp.Or(s.KeepAlive, sse.KeepAlive),
		logger:    orDiscard(s.Logger),
	}
	s.reading = httpx.NewWatch(cmp.Or(s.BodyTimeout, DefaultBodyTimeout))
	s.gate = httpx.Gate{Hosts: s.Hosts, Origins: s.Origins}
	s.abort, s.cut = context.WithCancel(context.Background())
}

func orDiscard(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l
}

// ServeHTTP implements http.Handler. The path must begin at the server's base;
// see the package's comment.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.once.Do(s.prepare)
	err := s.serve(w, r)
	if err == nil {
		return
	}
	var refusal *httpx.Refusal
	if !errors.As(err, &refusal) {
		refusal = &httpx.Refusal{Status: http.StatusInternalServerError, Code: protocol.CodeInternal, Message: err.Error()}
	}
	s.opts.logger.Debug("request refused", "method", r.Method, "status", refusal.Status, "reason", refusal.Message)
	refusal.Write(w)
}

// retryAfter is how many seconds a caller is asked to wait.
const retryAfter = "1"

func (s *Server) serve(w http.ResponseWriter, r *http.Request) error {
	if err := s.gate.Check(r); err != nil {
		return err
	}
	if !s.enter() {
		return httpx.Unavailable(protocol.Draining())
	}
	defer s.serving.Done()
	if s.gate.CORS(w, r) {
		return nil
	}
	r, refusal := httpx.Named(r, s.Caller)
	if refusal != nil {
		return refusal
	}
	tool, err := target(r.URL)
	if err != nil {
		return err
	}
	switch {
	case r.Method == http.MethodPost && tool != "":
		return s.postTool(w, r, tool)
	case r.Method == http.MethodPost:
		return s.postRequest(w, r)
	case r.Method == http.MethodGet && tool == "":
		return s.getTools(w, r)
	}
	refusal = httpx.Refuse(http.StatusMethodNotAllowed, "")
	refusal.Allow = "POST"
	if tool == "" {
		refusal.Allow = "GET, POST"
	}
	refusal.Message = r.Method + " is not served here; use " + refusal.Allow
	return refusal
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

// Shutdown refuses new requests and waits for those under way. When ctx ends, it
// cancels the rest and returns the context's error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.once.Do(s.prepare)
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	done := make(chan struct{})
	// Ends when the last request does, which cancelling it brings about.
	go func() {
		s.serving.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	s.cut()
	t := time.NewTimer(abortWait)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C: // somebody does not stop when told to
	}
	return context.Cause(ctx)
}
