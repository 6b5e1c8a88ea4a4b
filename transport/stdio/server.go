package stdio

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/backoff"
	"github.com/dragoman-mcp/dragoman/internal/mux"
)

// DefaultMaxConns is how many clients a Server serves at once.
const DefaultMaxConns = 1024

// errTooMany is why a client is hung up on when there are enough.
var errTooMany = errors.New("stdio: too many conversations")

// A Server serves clients that connect to sockets, and those on other streams. On
// sockets it hangs up on those that speak HTTP, as web pages do.
type Server struct {
	// Acceptor is given every client. Required.
	Acceptor dragoman.Acceptor

	// Options is how each conversation behaves. It may be nil.
	Options *Options

	// MaxConns is how many clients are served at once; more are hung up on.
	// Zero means DefaultMaxConns.
	MaxConns int

	mu        sync.Mutex // guards what follows
	closed    bool
	listeners map[net.Listener]context.CancelFunc
	talks     map[*talk]struct{}
	serving   sync.WaitGroup // conversations
}

// ErrServerClosed is what Serve and ServeIO return after Shutdown or Close.
var ErrServerClosed = errors.New("stdio: server closed")

// acceptBackoff is how long Serve waits after accepts that failed.
var acceptBackoff = backoff.Backoff{Min: 5 * time.Millisecond, Max: time.Second}

// Serve accepts clients on l until Shutdown or Close. While the process is out of
// files it waits and tries again, as net/http does.
func (s *Server) Serve(l net.Listener) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if !s.track(l, cancel) {
		_ = l.Close()
		return ErrServerClosed
	}
	defer s.untrack(l)
	for failures := 0; ; {
		nc, err := l.Accept()
		switch {
		case err == nil:
			failures = 0
			s.open(nc)
		case ctx.Err() != nil:
			return ErrServerClosed
		case !isTemporary(err):
			return err
		default:
			if failures++; failures == 1 && s.Options != nil && s.Options.Logger != nil {
				s.Options.Logger.Warn("cannot accept clients; trying again", "error", err)
			}
			_ = backoff.Sleep(ctx, acceptBackoff.Wait(failures)) // Accept fails at once then
		}
	}
}

// isTemporary reports whether an error of Accept may pass, such as that the process
// has too many files open. It is what net/http goes by.
func isTemporary(err error) bool {
	t, ok := errors.AsType[interface {
		error
		Temporary() bool
	}](err)
	return ok && t.Temporary()
}

// open serves one client on a goroutine of its own, which ends with the
// conversation.
func (s *Server) open(nc net.Conn) {
	o := s.Options.orDefault()
	opts := o.server()
	opts.Stall = socketStall
	t := newTalk(calledBy(nc.RemoteAddr()), mux.New(newStream(&noHTTP{Conn: nc}, nc, o.Framing, o.limits(), o.Logger, nc.Close), opts))
	limit := s.MaxConns
	if limit == 0 {
		limit = DefaultMaxConns
	}
	if err := s.admit(t, limit); err != nil {
		_ = nc.Close()
		t.close()
		if o.Logger != nil {
			o.Logger.Warn("client refused", "reason", err, "limit", limit)
		}
		return
	}
	go func() {
		if err := s.serve(t); err != nil && o.Logger != nil {
			o.Logger.Debug("conversation ended", "error", err)
		}
	}()
}

// calledBy returns the context of a client at an address.
func calledBy(a net.Addr) context.Context {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		host = a.Network() // a Unix socket
	}
	return dragoman.WithCaller(context.Background(), &dragoman.Caller{Address: host})
}

// admit takes a client in, unless there are limit already, if that is not zero.
// serve must follow.
func (s *Server) admit(t *talk, limit int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return ErrServerClosed
	case limit > 0 && len(s.talks) >= limit:
		return errTooMany
	}
	if s.talks == nil {
		s.talks = make(map[*talk]struct{})
	}
	s.talks[t] = struct{}{}
	s.serving.Add(1)
	return nil
}

// serve answers a client that has been admitted, until the conversation is over.
func (s *Server) serve(t *talk) error {
	defer s.serving.Done()
	err := t.serve(s.Acceptor)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.talks, t)
	return err
}

// track notes a listener, and what ends the wait of its Serve.
func (s *Server) track(l net.Listener, cancel context.CancelFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.listeners == nil {
		s.listeners = make(map[net.Listener]context.CancelFunc)
	}
	s.listeners[l] = cancel
	return true
}

func (s *Server) untrack(l net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}
