package sse

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/internal/sse"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Defaults of a Server.
const (
	DefaultMaxSessions  = 1024
	DefaultMessagesPath = "messages"
	DefaultBodyTimeout  = 10 * time.Second
	DefaultIdleTimeout  = 5 * time.Minute
)

// abortWait is how long requests that were told to stop are waited for, so that
// their clients hear that they were lost.
const abortWait = 500 * time.Millisecond

// A Server answers clients on two URLs, whose handlers are Stream and Messages.
// It must not be changed once it is in use.
type Server struct {
	// Acceptor is given every client, with its first message. Required.
	Acceptor dragoman.Acceptor

	// Hosts and Origins are accepted in the headers of these names beside those
	// of this machine, such as "mcp.example.com" and "https://app.example.com".
	// Others get 403. "*" accepts any, and gives up the protection of servers on
	// this machine against pages in its browser.
	Hosts, Origins []string

	// Caller tells who makes a request. A session belongs to the caller who
	// opened it; to others it does not exist. If nil, callers are told apart by
	// their address, and a session is open to all.
	Caller func(*http.Request) (*dragoman.Caller, error)

	// MessagesPath is where clients find Messages, as a reference relative to
	// the URL of Stream. Zero means DefaultMessagesPath: beside it.
	MessagesPath string

	// NoSync refuses messages without a session, which are otherwise answered
	// in the body of the response. All that one caller sends so belongs to one
	// conversation.
	NoSync bool

	// MaxMessage is the largest message accepted, in bytes. Zero means
	// dragoman.DefaultMaxMessage; negative means no limit.
	MaxMessage int

	// MaxSessions is how many conversations there may be; more are refused.
	// Zero means DefaultMaxSessions.
	MaxSessions int

	// BodyTimeout is how long the body of a request may take, WriteTimeout how
	// long a client may take to read what is written to it, KeepAlive how long
	// a stream stays silent. IdleTimeout ends the conversation of a caller
	// without a session who has posted nothing for so long. Zero means the
	// defaults, which for WriteTimeout and KeepAlive are 30 and 15 seconds.
	BodyTimeout, WriteTimeout, KeepAlive, IdleTimeout time.Duration

	// Logger receives faults. If nil, nothing is logged.
	Logger *slog.Logger

	serving sync.WaitGroup // handlers with a conversation

	mu       sync.Mutex // guards what follows
	stopping bool
	sessions map[string]*session
	desks    map[*desk]struct{}
	current  map[string]*desk // by caller
}

// Stream returns the handler for GET, which opens a session.
func (s *Server) Stream() http.Handler { return s.door(http.MethodGet, s.serveStream) }

// Messages returns the handler for POST, which takes a client's messages.
func (s *Server) Messages() http.Handler { return s.door(http.MethodPost, s.serveMessage) }

// door does what both handlers begin with. Nothing else of a request is looked
// at before its Host and Origin.
func (s *Server) door(method string, serve func(http.ResponseWriter, *http.Request) *httpx.Refusal) http.Handler {
	gate := httpx.Gate{Hosts: s.Hosts, Origins: s.Origins}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var refusal *httpx.Refusal
		switch err := gate.Check(r); {
		case err != nil:
			refusal = refusalOf(err)
		case gate.CORS(w, r):
		case r.Method != method:
			refusal = httpx.Refuse(http.StatusMethodNotAllowed, "only %s is served here", method)
			refusal.Allow = method
		default:
			if r, refusal = httpx.Named(r, s.Caller); refusal == nil {
				refusal = serve(w, r)
			}
		}
		if refusal == nil {
			return
		}
		s.logger().Debug("request refused", "status", refusal.Status, "reason", refusal.Message)
		refusal.Write(w)
	})
}

// refusalOf returns an error of package httpx as what it is.
func refusalOf(err error) *httpx.Refusal {
	var r *httpx.Refusal
	if errors.As(err, &r) {
		return r
	}
	return &httpx.Refusal{Status: http.StatusInternalServerError, Code: protocol.CodeInternal, Message: "Internal error"}
}

// admit tells whether there may be one more conversation. s.mu is locked.
func (s *Server) admit() *httpx.Refusal {
	limit := s.MaxSessions
	if limit == 0 {
		limit = DefaultMaxSessions
	}
	switch {
	case s.stopping:
		return draining()
	case len(s.sessions)+len(s.desks) >= limit:
		return httpx.Unavailable(protocol.Overloaded("there are too many sessions; try again later"))
	}
	return nil
}

func draining() *httpx.Refusal {
	return httpx.Unavailable(protocol.Draining())
}

// Shutdown refuses new clients and requests, lets those under way be answered,
// and ends each conversation when it has nothing left to answer. When ctx ends,
// it cancels the rest, which is answered as lost, and returns the context's error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.stopping = true
	for _, c := range s.sessions {
		c.drain()
	}
	for d := range s.desks {
		s.retire(d)
	}
	s.mu.Unlock()
	done := make(chan struct{})
	// Ends when all conversations have, which Close sees to at the latest.
	go func() {
		defer close(done)
		s.serving.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	s.abort()
	t := time.NewTimer(abortWait)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C: // somebody does not stop when told to, or read when written to
		_ = s.Close()
		<-done
	}
	return context.Cause(ctx)
}

// abort cancels all requests under way.
func (s *Server) abort() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.sessions {
		c.conn.Abort()
	}
	for d := range s.desks {
		d.end(dragoman.Closed(errServerClosed))
	}
}

// errServerClosed is why conversations end at Close.
var errServerClosed = errors.New("sse: the server was closed")

// Close ends all conversations and waits for them.
func (s *Server) Close() error {
	s.mu.Lock()
	s.stopping = true
	for _, c := range s.sessions {
		c.end(errServerClosed)
	}
	for d := range s.desks {
		s.retire(d)
		d.end(dragoman.Closed(errServerClosed))
	}
	s.mu.Unlock()
	s.serving.Wait()
	return nil
}

func (s *Server) logger() *slog.Logger {
	if s.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Logger
}

func (s *Server) limits() dragoman.Limits { return dragoman.Limits{MaxMessage: s.MaxMessage} }

func (s *Server) keepAlive() time.Duration { return cmp.Or(s.KeepAlive, sse.KeepAlive) }
