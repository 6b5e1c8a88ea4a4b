package stdio

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/mux"
)

const (
	// DefaultMaxConns is how many clients a Server serves at once.
	DefaultMaxConns = 1024

	// socketStall is how long the other side of a socket may take to read.
	socketStall = 30 * time.Second
)

// An Address is a server that listens on a socket. It is a Dialer.
type Address struct {
	Network string // "tcp" or "unix"
	Address string
	Options *Options
}

var _ dragoman.Dialer = (*Address)(nil)

// Dial connects and opens the conversation.
func (a *Address) Dial(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, a.Network, a.Address)
	if err != nil {
		return nil, fmt.Errorf("stdio: cannot reach the server: %w", err)
	}
	o := a.Options.orDefault()
	framing := o.Framing
	if framing == Auto {
		framing = Lines
	}
	s := newStream(nc, nc, framing, o.limits(), o.Logger, nc.Close)
	conn := mux.New(s, &mux.Options{Limits: o.limits(), Stall: socketStall, Logger: o.Logger})
	conn.Start(local)
	return conn, nil
}

// Listen listens on a socket. A Unix socket is open to its owner alone, and
// takes the place of one that nobody listens on any more.
func Listen(ctx context.Context, network, address string) (net.Listener, error) {
	var lc net.ListenConfig
	if network == "unix" {
		if err := removeStale(ctx, address); err != nil {
			return nil, err
		}
	}
	l, err := lc.Listen(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("stdio: cannot listen: %w", err)
	}
	if network == "unix" {
		if err := os.Chmod(address, 0o600); err != nil {
			_ = l.Close()
			return nil, fmt.Errorf("stdio: cannot protect the socket: %w", err)
		}
	}
	return l, nil
}

// removeStale removes a socket that a dead process left behind.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode()&fs.ModeSocket == 0 {
		return nil // nothing there, or nothing of ours: Listen says so
	}
	var d net.Dialer
	if nc, err := d.DialContext(ctx, "unix", path); err == nil {
		_ = nc.Close()
		return fmt.Errorf("stdio: somebody listens on %s already", path)
	}
	return os.Remove(path)
}

// A Server serves clients that connect to sockets. It hangs up on those that
// speak HTTP, as web pages do.
type Server struct {
	// Acceptor is given every client. Required.
	Acceptor dragoman.Acceptor

	// Options is how each conversation behaves. It may be nil.
	Options *Options

	// MaxConns is how many clients are served at once; more are hung up on.
	// Zero means DefaultMaxConns.
	MaxConns int

	mu        sync.Mutex
	closed    bool
	listeners map[net.Listener]struct{}
	clients   map[*mux.Conn]struct{}
	serving   sync.WaitGroup
}

// ErrServerClosed is what Serve returns after Close.
var ErrServerClosed = errors.New("stdio: server closed")

// Serve accepts clients on l until Close.
func (s *Server) Serve(l net.Listener) error {
	if !s.track(l) {
		_ = l.Close()
		return ErrServerClosed
	}
	defer s.untrack(l)
	for {
		nc, err := l.Accept()
		if err != nil {
			if s.isClosed() {
				return ErrServerClosed
			}
			if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
				continue
			}
			return err
		}
		s.open(nc)
	}
}

// open serves one client on a goroutine of its own, which ends with the
// conversation.
func (s *Server) open(nc net.Conn) {
	o := s.Options.orDefault()
	opts := o.server()
	opts.Stall = socketStall
	conn := mux.New(newStream(&noHTTP{Conn: nc}, nc, o.Framing, o.limits(), o.Logger, nc.Close), opts)
	limit := s.MaxConns
	if limit == 0 {
		limit = DefaultMaxConns
	}
	s.mu.Lock()
	refused := s.closed || len(s.clients) >= limit
	if !refused {
		if s.clients == nil {
			s.clients = make(map[*mux.Conn]struct{})
		}
		s.clients[conn] = struct{}{}
		s.serving.Add(1)
	}
	s.mu.Unlock()
	if refused {
		_ = nc.Close()
		_ = conn.Close()
		if o.Logger != nil {
			o.Logger.Warn("client refused: too many conversations", "limit", limit)
		}
		return
	}
	go func() {
		defer s.serving.Done()
		err := serve(context.Background(), s.Acceptor, conn)
		s.mu.Lock()
		delete(s.clients, conn)
		s.mu.Unlock()
		if err != nil && o.Logger != nil {
			o.Logger.Debug("conversation ended", "error", err)
		}
	}()
}

// Close stops listening, ends all conversations and waits for them.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	for l := range s.listeners {
		_ = l.Close()
	}
	clients := make([]*mux.Conn, 0, len(s.clients))
	for c := range s.clients {
		clients = append(clients, c)
	}
	s.mu.Unlock()
	var closing sync.WaitGroup
	for _, c := range clients {
		closing.Go(func() { _ = c.Close() })
	}
	closing.Wait()
	s.serving.Wait()
	return nil
}

func (s *Server) track(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.listeners == nil {
		s.listeners = make(map[net.Listener]struct{})
	}
	s.listeners[l] = struct{}{}
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
