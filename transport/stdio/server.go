package stdio

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/retry"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
)

// DefaultLinger is how long requests may still be served after the client has
// closed our standard input.
const DefaultLinger = 30 * time.Second

// Options configures the server side and the sockets. The zero value is ready
// to use.
type Options struct {
	// Framing is how messages are written. Auto answers in kind.
	Framing Framing

	// MaxMessage is the largest message accepted, in bytes. Zero means
	// dragoman.DefaultMaxMessage; negative means no limit.
	MaxMessage int

	// Linger is how long requests in flight may still be served after the
	// client has closed its end of the stream. Zero means DefaultLinger for
	// Serve and ServeIO, and not at all for sockets, where a client that closes
	// its end is gone. Negative means not at all, nor after the end of the context
	// of Serve and ServeIO.
	Linger time.Duration

	// Logger receives what is skipped, and at debug level every step. If nil,
	// nothing is logged.
	Logger *slog.Logger
}

func (o *Options) orDefault() Options {
	var full Options
	if o != nil {
		full = *o
	}
	full.Logger = cmp.Or(full.Logger, slog.New(slog.DiscardHandler))
	return full
}

func (o *Options) limits() dragoman.Limits { return dragoman.Limits{MaxMessage: o.MaxMessage} }

// server returns how the server side of a conversation is to behave.
func (o *Options) server() *jsonrpc.Options {
	return &jsonrpc.Options{Limits: o.limits(), Server: true, Linger: o.Linger, Logger: o.Logger}
}

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
	// Zero means DefaultMaxConns; negative means no limit.
	MaxConns int

	// Caller returns who is on the other side of a socket, or why that one is hung up
	// on. If nil, callers are told apart by their address.
	Caller func(net.Conn) (*dragoman.Caller, error)

	mu        sync.Mutex // guards what follows
	closed    bool
	listeners map[net.Listener]context.CancelFunc
	conns     map[*serverConn]struct{}
	serving   sync.WaitGroup // conversations
}

// ErrServerClosed is what Serve and ServeIO return after Shutdown or Close.
var ErrServerClosed = errors.New("stdio: server closed")

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
	err := retry.Accept(ctx, l, s.open, s.Options.orDefault().Logger)
	if ctx.Err() != nil {
		return ErrServerClosed
	}
	return err
}

// open serves one client on a goroutine of its own, which ends with the
// conversation.
func (s *Server) open(nc net.Conn) {
	o := s.Options.orDefault()
	opts := o.server()
	opts.Stall = writeTimeout
	who := s.Caller
	if who == nil {
		who = byAddress
	}
	caller, err := who(nc)
	if err != nil {
		_ = nc.Close()
		o.Logger.Warn("client refused", "reason", err)
		return
	}
	ctx := dragoman.WithCaller(context.Background(), caller)
	c := newServerConn(ctx, jsonrpc.New(newStream(&noHTTP{Conn: nc}, nc, o.Framing, o.limits(), o.Logger, nc.Close), opts))
	limit := cmp.Or(s.MaxConns, DefaultMaxConns)
	if err := s.admit(c, limit); err != nil {
		_ = nc.Close()
		c.close()
		o.Logger.Warn("client refused", "reason", err, "limit", limit)
		return
	}
	go func() {
		if err := s.serve(c); err != nil {
			o.Logger.Debug("conversation ended", "error", err)
		}
	}()
}

// byAddress returns the caller at the address of a socket.
func byAddress(c net.Conn) (*dragoman.Caller, error) {
	host, _, err := net.SplitHostPort(c.RemoteAddr().String())
	if err != nil {
		host = c.RemoteAddr().Network() // a Unix socket
	}
	return &dragoman.Caller{Address: host, Transport: c.RemoteAddr().Network()}, nil
}

// admit takes a client in, unless there are limit already, if that is positive.
// serve must follow.
func (s *Server) admit(c *serverConn, limit int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return ErrServerClosed
	case limit > 0 && len(s.conns) >= limit:
		return errTooMany
	}
	if s.conns == nil {
		s.conns = make(map[*serverConn]struct{})
	}
	s.conns[c] = struct{}{}
	s.serving.Add(1)
	return nil
}

// serve answers a client that has been admitted, until the conversation is over.
func (s *Server) serve(c *serverConn) error {
	defer s.serving.Done()
	err := c.serve(s.Acceptor)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
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

// abortWait is how long an Acceptor is waited for whose conversation is over.
const abortWait = 500 * time.Millisecond

// A serverConn is the conversation with one client of a Server.
type serverConn struct {
	conn   *jsonrpc.Conn
	ctx    context.Context // of Accept; ends with the conversation
	cancel context.CancelCauseFunc
}

func newServerConn(ctx context.Context, conn *jsonrpc.Conn) *serverConn {
	c := &serverConn{conn: conn}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	return c
}

// serve answers the client until the conversation is over. An end in good order is
// no error.
func (c *serverConn) serve(a dragoman.Acceptor) error {
	defer c.close()
	peer, err := c.accept(a)
	if err != nil {
		return err
	}
	c.conn.Start(peer)
	<-c.conn.Done()
	if err := c.conn.Err(); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// accept calls Accept. When the conversation ends first, an Acceptor that does not
// return soon is left behind.
func (c *serverConn) accept(a dragoman.Acceptor) (dragoman.Peer, error) {
	type outcome struct {
		peer dragoman.Peer
		err  error
	}
	accepted := make(chan outcome, 1)
	go func() { // ends with Accept, whose context ends with the conversation
		peer, err := a.Accept(c.ctx, c.conn)
		accepted <- outcome{peer, err}
	}()
	over := c.conn.Done()
	var late <-chan time.Time
	for {
		select {
		case o := <-accepted:
			return o.peer, o.err
		case <-over:
			over, late = nil, time.After(abortWait)
		case <-late:
			return nil, c.conn.Err()
		}
	}
}

// shutdown takes no new requests, lets those in flight end until ctx does, notifies the
// rest that they are lost, and closes. It returns the error of ctx if there was a
// rest.
func (c *serverConn) shutdown(ctx context.Context) error {
	defer c.close()
	return c.conn.Finish(ctx)
}

// close ends the conversation, and waits for its goroutines.
func (c *serverConn) close() {
	c.cancel(ErrServerClosed)
	_ = c.conn.Close() // it never fails
}

// Shutdown stops listening, refuses new requests of the clients that are there, and
// ends each conversation when what was in flight on it is answered. When ctx ends,
// it cancels the rest, which is answered as lost, and returns the context's error.
func (s *Server) Shutdown(ctx context.Context) error {
	var cut atomic.Bool
	s.end(func(c *serverConn) {
		if c.shutdown(ctx) != nil {
			cut.Store(true)
		}
	})
	if cut.Load() {
		return context.Cause(ctx)
	}
	return nil
}

// Close stops listening, ends all conversations and waits for them.
func (s *Server) Close() error {
	s.end((*serverConn).close)
	return nil
}

// end takes no more clients, ends the conversation with each of those that are there
// by how, all at once, and waits for them.
func (s *Server) end(how func(*serverConn)) {
	var ending sync.WaitGroup
	s.mu.Lock()
	s.closed = true
	for l, cancel := range s.listeners {
		cancel()
		_ = l.Close()
	}
	for c := range s.conns {
		// Ends with the conversation.
		ending.Go(func() { how(c) })
	}
	s.mu.Unlock()
	ending.Wait()
	s.serving.Wait()
}

// signalGrace is how long requests in flight may still be served after the context
// of Serve has ended. Hosts that end us by a signal give us two seconds.
const signalGrace = time.Second

// Serve serves one client on our own standard input and output, until the
// client closes its end or ctx ends. Requests in flight are answered first: for
// as long as the options say, or a second if ctx ends. Nothing else may write to
// standard output meanwhile.
func Serve(ctx context.Context, a dragoman.Acceptor, opts *Options) error {
	return ServeIO(ctx, a, os.Stdin, os.Stdout, opts)
}

// ServeIO is Serve on other streams. It closes w if that can be closed, except
// our own standard streams, and makes reads from r return.
func ServeIO(ctx context.Context, a dragoman.Acceptor, r io.Reader, w io.Writer, opts *Options) error {
	s := &Server{Acceptor: a, Options: opts}
	wait := signalGrace
	if opts != nil && opts.Linger < 0 {
		wait = 0
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), wait)
		defer cancel()
		_ = s.Shutdown(limit) // clients that were cut have been told
	})
	err := s.serveIO(context.WithoutCancel(ctx), r, w)
	if !stop() {
		<-stopped
		return context.Cause(ctx)
	}
	return err
}

// ServeIO serves one client on streams that are no socket, such as our own standard
// input and output, until it closes its end. After Shutdown or Close it returns
// ErrServerClosed. It closes w if that can be closed, except our own standard
// streams, and makes reads from r return.
func (s *Server) ServeIO(r io.Reader, w io.Writer) error {
	return s.serveIO(context.Background(), r, w)
}

func (s *Server) serveIO(ctx context.Context, r io.Reader, w io.Writer) error {
	o := s.Options.orDefault()
	if o.Linger == 0 {
		o.Linger = DefaultLinger
	}
	stop := interrupt(r)
	line := newStream(r, w, o.Framing, o.limits(), o.Logger, func() error {
		if stop != nil {
			stop()
		}
		if c, ok := w.(io.Closer); ok && w != os.Stdout && w != os.Stderr {
			return c.Close()
		}
		return nil
	})
	m := o.server()
	m.Abandon = stop == nil
	c := newServerConn(ctx, jsonrpc.New(line, m))
	if err := s.admit(c, 0); err != nil {
		c.close()
		return err
	}
	err := s.serve(c)
	if err != nil && s.isClosed() {
		return ErrServerClosed
	}
	return err
}

// interrupt returns what makes a read from r return, or nil if nothing does: a
// read from standard input blocks until something comes.
func interrupt(r io.Reader) func() {
	if d, ok := r.(interface{ SetReadDeadline(time.Time) error }); ok && d.SetReadDeadline(time.Time{}) == nil {
		return func() { _ = d.SetReadDeadline(time.Unix(1, 0)) }
	}
	if c, ok := r.(io.Closer); ok {
		if _, file := r.(*os.File); !file {
			return func() { _ = c.Close() }
		}
	}
	return nil
}

// writeTimeout is how long the other side of a socket may take to read.
const writeTimeout = 30 * time.Second

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

// errHTTP ends the conversation with a client that speaks HTTP.
var errHTTP = errors.New("stdio: the client speaks HTTP; this socket takes lines of JSON")

// A noHTTP is a client's end of a socket that hangs up on HTTP. A web page can
// post lines of JSON to a port of this machine, and a server that skips lines it
// cannot read would come to them. No message begins like a request line.
type noHTTP struct {
	net.Conn
	settled bool // it is no HTTP
	letters bool // so far there are capital letters alone
}

// Read implements io.Reader. What it returns before it is settled is less than a
// line, so nobody takes that for a message.
func (c *noHTTP) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	for i := 0; i < n && !c.settled; i++ {
		switch b := p[i]; {
		case b >= 'A' && b <= 'Z':
			c.letters = true
		case b == ' ' && c.letters:
			_ = c.Conn.Close() // before anything is answered
			return 0, errHTTP
		default:
			c.settled = true
		}
	}
	return n, err
}
