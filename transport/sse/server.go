package sse

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Defaults of a Server.
const (
	DefaultMaxSessions  = 1024
	DefaultMaxRequests  = httpserver.DefaultMaxRequests
	DefaultMessagesPath = "messages"
	DefaultBodyTimeout  = httpserver.DefaultBodyTimeout
	DefaultIdleTimeout  = 5 * time.Minute
)

// A Server answers clients on two URLs, whose handlers are Stream and Messages.
// It must not be changed once it is in use.
type Server struct {
	// Acceptor is given every client, with its first message. Required.
	Acceptor dragoman.Acceptor

	// Hosts and Origins are accepted in the headers of these names beside those
	// of this machine, such as "mcp.example.com" and "https://app.example.com".
	// Others get 403. "*" accepts any, and gives up the protection of servers on
	// this machine against pages in its browser. Trusted says that both have
	// been checked already.
	Hosts, Origins []string
	Trusted        bool

	// Caller returns who makes a request. A session belongs to the caller who
	// opened it; to others it does not exist. If nil, callers are distinguished by
	// their address, and a session is open to all.
	Caller func(*http.Request) (*dragoman.Caller, error)

	// MessagesPath is where clients find Messages, as a reference relative to
	// the URL of Stream. Zero means DefaultMessagesPath: beside it, also if that URL
	// ends with a slash.
	MessagesPath string

	// NoSync refuses messages without a session, which are otherwise answered
	// in the body of the response. All that one caller sends so belongs to one
	// conversation.
	NoSync bool

	// MaxMessage is the largest message accepted, in bytes. Zero means
	// dragoman.DefaultMaxMessage; negative means no limit.
	MaxMessage int

	// MaxSessions is how many conversations there may be, and MaxRequests how many
	// requests are served at once, event streams included; more get 503. Zero means
	// the defaults; negative means no limit.
	MaxSessions, MaxRequests int

	// BodyTimeout is how long the body of a request may take, WriteTimeout how
	// long a client may take to read what is written to it, KeepAlive how long
	// a stream stays silent. IdleTimeout ends the conversation of a caller
	// without a session who has posted nothing for so long. Zero means the
	// defaults, which for WriteTimeout and KeepAlive are 30 and 15 seconds;
	// negative means forever.
	BodyTimeout, WriteTimeout, KeepAlive, IdleTimeout time.Duration

	// Logger receives faults. If nil, nothing is logged.
	Logger *slog.Logger

	once sync.Once
	base *httpserver.Base

	mu        sync.Mutex // guards what follows
	sessions  map[string]*session
	syncConns map[*syncConn]struct{}
	current   map[string]*syncConn // by caller
}

func (s *Server) prepare() {
	s.base = httpserver.NewBase(&httpserver.BaseOptions{
		Hosts: s.Hosts, Origins: s.Origins, Trusted: s.Trusted, Caller: s.Caller,
		MaxRequests: s.MaxRequests, MaxMessage: s.MaxMessage, BodyTimeout: s.BodyTimeout, WriteTimeout: s.WriteTimeout,
		Belongs: s.belongs, Logger: s.Logger,
	})
	s.sessions, s.syncConns, s.current = make(map[string]*session), make(map[*syncConn]struct{}), make(map[string]*syncConn)
}

// Stream returns the handler for GET, which opens a session.
func (s *Server) Stream() http.Handler { return s.handler(http.MethodGet, s.serveStream) }

// Messages returns the handler for POST, which takes a client's messages.
func (s *Server) Messages() http.Handler { return s.handler(http.MethodPost, s.serveMessage) }

func (s *Server) handler(method string, serve func(*httpserver.Exchange) error) http.Handler {
	checked := func(x *httpserver.Exchange) error {
		if x.R.Method != method {
			return httpserver.NotAllowed(x.R, method)
		}
		return serve(x)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.once.Do(s.prepare)
		s.base.Serve(w, r, checked)
	})
}

// belongs reports whether a request is for a session that there is.
func (s *Server) belongs(r *http.Request) bool {
	id, _, err := sessionOf(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	return err == nil && s.sessions[id] != nil
}

// admit reports whether there may be one more conversation. s.mu is locked.
func (s *Server) admit() error {
	if len(s.sessions)+len(s.syncConns) >= httpframe.Limit(s.MaxSessions, DefaultMaxSessions) {
		return httpserver.Unavailable(protocol.Overloaded("there are too many sessions; try again later"))
	}
	return nil
}

// Shutdown refuses new clients and requests, lets those in flight be answered,
// and ends each conversation when it has nothing left to answer. When ctx ends,
// it cancels the rest, which is answered as lost, and returns the context's error:
// half a second later at the latest.
func (s *Server) Shutdown(ctx context.Context) error {
	s.once.Do(s.prepare)
	defer s.endSyncConns()
	return s.base.Shutdown(ctx)
}

// Close is Shutdown that does not wait for requests in flight to be done.
func (s *Server) Close() error {
	s.once.Do(s.prepare)
	defer s.endSyncConns()
	return s.base.Close()
}

// errServerClosed is why conversations end at Shutdown.
var errServerClosed = errors.New("sse: the server was closed")
