package toolhttp

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
	"github.com/dragoman-mcp/dragoman/internal/wire/sse"
	"github.com/dragoman-mcp/dragoman/internal/wire/toollist"
)

// Defaults of a Server.
const (
	// DefaultBodyTimeout is how long the body of a request may take to arrive.
	DefaultBodyTimeout = httpserver.DefaultBodyTimeout

	// DefaultMaxRequests is how many requests are served at once.
	DefaultMaxRequests = httpserver.DefaultMaxRequests
)

// A Server answers tool calls. It must not be changed once it is in use.
type Server struct {
	// Requests answers tools/call and tools/list of the newest revision. Each
	// request stands for itself. Required.
	Requests dragoman.Peer

	// Check reports whether arguments fit a tool's inputSchema. Both are JSON
	// text; arguments are nil if there are none. The text of its error goes to
	// the caller. If the error has the methods Path() string and
	// Reason() string, so does what they return. If nil, nothing is checked.
	Check func(schema, arguments json.RawMessage) error

	// Hosts and Origins are accepted in the headers of these names beside those
	// of this machine, such as "mcp.example.com" and "https://app.example.com".
	// Others get 403. "*" accepts any, and gives up the protection of servers on
	// this machine against pages in its browser. Trusted says that both have
	// been checked already.
	Hosts, Origins []string
	Trusted        bool

	// Caller returns who makes a request. Private lists of tools are cached for
	// each caller. If nil, callers are distinguished by their address.
	Caller func(*http.Request) (*dragoman.Caller, error)

	// MaxMessage is the largest body, and the largest list of tools, in bytes.
	// Zero means dragoman.DefaultMaxMessage; negative means no limit.
	MaxMessage int

	// MaxRequests is how many requests are served at once; more get 503. Zero means
	// DefaultMaxRequests; negative means no limit.
	MaxRequests int

	// BodyTimeout is how long the body of a request may take, WriteTimeout how
	// long a caller may take to read what is written to it, KeepAlive how long a
	// stream stays silent. Zero means the defaults: DefaultBodyTimeout, and 30
	// and 15 seconds; negative means forever.
	BodyTimeout, WriteTimeout, KeepAlive time.Duration

	// CallTimeout is how long a call may take. Zero or less means as long as its
	// caller waits.
	CallTimeout time.Duration

	// Logger receives faults. If nil, nothing is logged.
	Logger *slog.Logger

	once      sync.Once
	base      *httpserver.Base
	keepAlive time.Duration
	tools     toollist.Cache
	lastID    atomic.Int64 // of requests and progress tokens that are ours
}

func (s *Server) prepare() {
	s.keepAlive = httpframe.Duration(s.KeepAlive, sse.KeepAlive)
	s.base = httpserver.NewBase(&httpserver.BaseOptions{
		Hosts: s.Hosts, Origins: s.Origins, Trusted: s.Trusted, Caller: s.Caller,
		MaxRequests: s.MaxRequests, MaxMessage: s.MaxMessage,
		BodyTimeout: s.BodyTimeout, WriteTimeout: s.WriteTimeout, Logger: s.Logger,
	})
	s.tools = toollist.Cache{Lister: toollist.ListerOf(s.Requests), MaxList: s.base.Limits.Message(), FailedFor: listFailed, LostFor: listFailed}
}

// ServeHTTP implements http.Handler. The path must begin at the server's base;
// see the package's comment.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.once.Do(s.prepare)
	s.base.Serve(w, r, s.serve)
}

func (s *Server) serve(x *httpserver.Exchange) error {
	tool, err := toolOf(x.R.URL)
	if err != nil {
		return err
	}
	switch method := x.R.Method; {
	case method == http.MethodPost && tool != "":
		return s.postTool(x, tool)
	case method == http.MethodPost:
		return s.postRequest(x)
	case method == http.MethodGet && tool == "":
		return s.getTools(x)
	case tool == "":
		return httpserver.NotAllowed(x.R, "GET, POST")
	}
	return httpserver.NotAllowed(x.R, "POST")
}

// Shutdown refuses new requests and waits for those in flight. When ctx ends, it
// cancels the rest, which is answered as lost, and returns the context's error: half
// a second later at the latest.
func (s *Server) Shutdown(ctx context.Context) error {
	s.once.Do(s.prepare)
	return s.base.Shutdown(ctx)
}

// Close is Shutdown that does not wait for requests in flight to be done.
func (s *Server) Close() error {
	s.once.Do(s.prepare)
	return s.base.Close()
}
