package ws

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// DefaultMaxConns is how many clients a Server serves at once.
const DefaultMaxConns = 16384

// abortWait is how long requests that were told to stop are waited for, so that
// their clients hear that they were lost.
const abortWait = 500 * time.Millisecond

// subprotocol is what says that JSON-RPC is spoken.
const subprotocol = "mcp"

// A Server is an http.Handler that answers clients by WebSocket. It must not be
// changed once it is in use. Servers of net/http do not end its conversations
// when they shut down: Shutdown does.
type Server struct {
	// Acceptor is given every client that speaks JSON-RPC, of either era. If
	// nil, their requests are refused.
	Acceptor dragoman.Acceptor

	// Requests answers tool frames: it is asked for tools/call, in the newest
	// revision, and given no caller to ask or tell. If nil, they are refused.
	Requests dragoman.Peer

	// Hosts and Origins are accepted in the headers of these names beside those
	// of this machine, such as "mcp.example.com" and "https://app.example.com".
	// Others get 403. "*" accepts any, and gives up the protection of servers on
	// this machine against pages in its browser.
	Hosts, Origins []string

	// Caller tells who opens a conversation, for those who answer it. If nil,
	// callers are told apart by their address.
	Caller func(*http.Request) (*dragoman.Caller, error)

	// MaxMessage is the largest message accepted, in bytes, after it has been
	// inflated. Zero means dragoman.DefaultMaxMessage; negative means no limit.
	// A larger one ends the conversation.
	MaxMessage int

	// MaxConns is how many clients are served at once; more get 503. Zero means
	// DefaultMaxConns.
	MaxConns int

	// PingInterval is how often a client is pinged. WriteTimeout is how long it
	// may be silent after that, and how long it may take to read what is written
	// to it, before it is cut. Zero means the defaults; a negative PingInterval
	// means no pings.
	PingInterval, WriteTimeout time.Duration

	// Compression lets clients have messages deflated, and send them so.
	Compression bool

	// Logger receives faults. If nil, nothing is logged.
	Logger *slog.Logger

	serving sync.WaitGroup // conversations, from before the upgrade to the end of the socket

	mu       sync.Mutex // guards what follows
	stopping bool
	taken    int // of MaxConns
	open     map[*talk]struct{}
}

// ServeHTTP makes a request a conversation. It returns as soon as that has begun.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	refusal := s.check(w, r)
	if refusal == nil {
		r, refusal = httpx.Named(r, s.Caller)
	}
	if refusal == nil {
		refusal = s.admit()
	}
	if refusal != nil {
		s.logger().Debug("client refused", "status", refusal.Status, "reason", refusal.Message)
		refusal.Write(w)
		return
	}
	t, err := s.upgrade(w, r)
	if err != nil {
		s.logger().Debug("client refused", "error", err)
		s.release()
		return
	}
	// Ends when the conversation has begun, or cannot.
	go t.begin()
}

// check looks at all that is to be known before the upgrade, at Host and Origin
// first.
func (s *Server) check(w http.ResponseWriter, r *http.Request) *httpx.Refusal {
	gate := httpx.Gate{Hosts: s.Hosts, Origins: s.Origins}
	if err := gate.Check(r); err != nil {
		var refusal *httpx.Refusal
		if !errors.As(err, &refusal) {
			refusal = httpx.Refuse(http.StatusForbidden, "not allowed")
		}
		return refusal
	}
	switch {
	case r.Method != http.MethodGet:
		refusal := httpx.Refuse(http.StatusMethodNotAllowed, "only GET is served here, to open a WebSocket")
		refusal.Allow = http.MethodGet
		return refusal
	case r.ProtoMajor != 1 || !hasToken(r.Header, "Connection", "upgrade") || !hasToken(r.Header, "Upgrade", "websocket"):
		if r.ProtoMajor == 1 {
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", "websocket")
		}
		return httpx.Refuse(http.StatusUpgradeRequired, "this is a WebSocket; open it by GET over HTTP/1.1 with Upgrade: websocket")
	case !canHijack(w):
		return &httpx.Refusal{
			Status: http.StatusNotImplemented, Code: protocol.CodeInternal,
			Message: "the connection cannot be upgraded: something around the server hides it",
		}
	}
	return nil
}

// hasToken tells whether a header lists a token.
func hasToken(h http.Header, name, token string) bool {
	for _, v := range h.Values(name) {
		for t := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(t), token) {
				return true
			}
		}
	}
	return false
}

// admit takes one of MaxConns, if there is one.
func (s *Server) admit() *httpx.Refusal {
	limit := s.MaxConns
	if limit == 0 {
		limit = DefaultMaxConns
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return httpx.Unavailable(protocol.Draining())
	}
	if s.taken >= limit {
		return httpx.Unavailable(protocol.Overloaded("there are too many clients; try again later"))
	}
	s.taken++
	s.serving.Add(1)
	return nil
}

// release gives back what admit took.
func (s *Server) release() {
	s.mu.Lock()
	s.taken--
	s.mu.Unlock()
	s.serving.Done()
}

// upgrade makes the request a socket. If that fails, it has been answered.
func (s *Server) upgrade(w http.ResponseWriter, r *http.Request) (*talk, error) {
	o := websocket.AcceptOptions{InsecureSkipVerify: true} // the gate has looked
	if s.Acceptor != nil {
		o.Subprotocols = []string{subprotocol}
	}
	if s.Compression {
		o.CompressionMode = websocket.CompressionNoContextTakeover
	}
	var line wire
	c, err := websocket.Accept(&tap{w, &line}, r, &o)
	if err != nil {
		return nil, err
	}
	t := &talk{server: s}
	// The request's own context ends when ServeHTTP returns.
	t.ctx, t.cancel = context.WithCancelCause(context.WithoutCancel(r.Context()))
	t.socket = newSocket(c, &line, dragoman.Limits{MaxMessage: s.MaxMessage}, cmp.Or(s.PingInterval, DefaultPingInterval), s.writeTimeout())
	t.socket.closed = t.over
	s.mu.Lock()
	if s.open == nil {
		s.open = make(map[*talk]struct{})
	}
	s.open[t] = struct{}{}
	stopping := s.stopping
	s.mu.Unlock()
	if stopping {
		t.socket.drain()
	}
	return t, nil
}

// Shutdown refuses new clients, takes nothing more from those that are there,
// and closes each socket with code 1001 when what was under way on it is
// answered. When ctx ends, it cancels the rest, which is answered as lost, and
// returns the context's error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	for _, t := range s.talks() {
		t.socket.drain()
	}
	done := make(chan struct{})
	// Ends when all conversations have, which the cut sees to at the latest.
	go func() {
		defer close(done)
		s.serving.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	for _, t := range s.talks() {
		t.abort()
	}
	limit := time.NewTimer(abortWait)
	defer limit.Stop()
	select {
	case <-done:
	case <-limit.C: // somebody does not stop when told to, or read when written to
		for _, t := range s.talks() {
			// Ends within the time that a close may take.
			go t.cut()
		}
		<-done
	}
	return context.Cause(ctx)
}

func (s *Server) talks() []*talk {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*talk, 0, len(s.open))
	for t := range s.open {
		all = append(all, t)
	}
	return all
}

func (s *Server) logger() *slog.Logger { return orSilent(s.Logger) }

func (s *Server) writeTimeout() time.Duration { return cmp.Or(s.WriteTimeout, DefaultWriteTimeout) }

func orSilent(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l
}
