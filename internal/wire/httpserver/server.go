package httpserver

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/util/limit"
	"github.com/dragoman-mcp/dragoman/internal/util/retry"
	"github.com/dragoman-mcp/dragoman/internal/wire/fastpost"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
)

// Limits of a connection.
const (
	HeaderTimeout = 5 * time.Second // over the handshake of TLS, and over the headers of a request from their first byte on
	IdleTimeout   = 2 * time.Minute // unused
	MaxHeader     = 16 << 10        // bytes of the headers of a request
)

// A Server answers clients over HTTP.
type Server struct {
	room        *room            // of the connections
	direct      *fastpost.Server // HTTP/1.1,
	one, two    *http.Server     // what it leaves, HTTP/2
	onlyNetHTTP bool             // direct leaves all
	cert        *Certificate     // nil without TLS
	log         *slog.Logger

	mu     sync.Mutex
	closed bool                                // guarded by mu
	open   map[net.Listener]context.CancelFunc // of Serve; guarded by mu
}

// Options configures a Server.
type Options struct {
	Certificate *Certificate // if nil, it speaks plain HTTP

	// ConnContext, if not nil, returns the context of the requests of a connection, as in
	// net/http. Who wants to know the connection below finds it by NetConn.
	ConnContext func(context.Context, net.Conn) context.Context

	// MaxConns is how many connections may be open at once, whoever answers on them. Zero
	// means DefaultMaxConns.
	MaxConns int

	// OnlyNetHTTP has net/http answer all requests, and internal/wire/fastpost none.
	OnlyNetHTTP bool

	// Room, if not nil, bounds what connections of HTTP/1.1 hold of large requests before a
	// handler is called.
	Room *limit.Bytes

	Logger *slog.Logger // required
}

// New returns a server.
func New(h http.Handler, o *Options) *Server {
	s := &Server{cert: o.Certificate, log: o.Logger, open: make(map[net.Listener]context.CancelFunc)}
	s.one, s.two = s.newServer(h), s.newServer(withState(h))
	s.one.Protocols.SetHTTP1(true)
	s.two.Protocols.SetUnencryptedHTTP2(true) // the connections that it is given are decrypted
	s.one.ConnContext = o.ConnContext
	s.direct = &fastpost.Server{HTTP: s.one, Handler: h, ConnContext: o.ConnContext, Header: HeaderTimeout, Idle: IdleTimeout, Room: o.Room, Log: o.Logger}
	s.onlyNetHTTP = o.OnlyNetHTTP
	s.room = newRoom(cmp.Or(o.MaxConns, DefaultMaxConns), s.direct, o.Logger)
	s.one.ConnState, s.two.ConnState = s.room.note, s.room.note
	s.two.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		ctx = withConnState(ctx, c)
		if o.ConnContext != nil {
			ctx = o.ConnContext(ctx, c)
		}
		return ctx
	}
	s.two.HTTP2 = http2Limits()
	return s
}

func (s *Server) newServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: HeaderTimeout,
		IdleTimeout:       IdleTimeout,
		MaxHeaderBytes:    MaxHeader,
		Protocols:         new(http.Protocols),
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// Serve accepts clients until Shutdown or Close, and then returns http.ErrServerClosed.
// It closes l.
func (s *Server) Serve(l net.Listener) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer l.Close()
	if !s.track(l, cancel) {
		return http.ErrServerClosed
	}
	defer s.untrack(l)
	one, two := newHandoff(l.Addr()), newHandoff(l.Addr())
	var running sync.WaitGroup
	running.Go(func() { _ = s.one.Serve(one) }) // ends with the handoff
	running.Go(func() { _ = s.two.Serve(two) }) // ends with the handoff
	err := retry.Accept(ctx, l, func(c net.Conn) {
		c = s.room.admit(c)
		if s.room.isDueToClear() {
			running.Go(s.room.clear) // ends when some connections are closed
		}
		if c == nil {
			return
		}
		if s.cert == nil {
			go s.serveOne(ctx, c, one) // ends with the connection, or when it is queued
			return
		}
		// Ends when the connection is secured, after HeaderTimeout, or with ctx.
		running.Go(func() { s.secure(ctx, c, one, two) })
	}, s.log)
	if ctx.Err() != nil {
		err = http.ErrServerClosed
	}
	cancel()
	_, _ = one.Close(), two.Close() // never fail
	running.Wait()
	return err
}

// secure makes the handshake, and queues the connection for who speaks its protocol.
func (s *Server) secure(ctx context.Context, raw net.Conn, one, two *handoff) {
	c := tls.Server(raw, s.cert.server())
	limit, cancel := context.WithTimeout(ctx, HeaderTimeout)
	defer cancel()
	if err := c.HandshakeContext(limit); err != nil {
		s.log.Debug("handshake failed", "client", raw.RemoteAddr().String(), "error", err)
		answerPlain(err)
		_ = raw.Close() // or closed by the handshake
		return
	}
	if c.ConnectionState().NegotiatedProtocol == protocolHTTP2 {
		two.add(ctx, newFramed(c, raw, s.log))
		return
	}
	go s.serveOne(ctx, c, one) // ends with the connection, or when it is queued
}

// serveOne answers what comes by HTTP/1.1, and queues the connection when it leaves that to
// net/http.
func (s *Server) serveOne(ctx context.Context, c net.Conn, one *handoff) {
	in := httpframe.New(c, &httpframe.Options{Idle: IdleTimeout, Header: HeaderTimeout})
	if s.onlyNetHTTP || s.direct.ServeConn(in) {
		one.add(ctx, in)
	}
}

// answerPlain tells a client that speaks HTTP without TLS what to do.
func answerPlain(err error) {
	e, ok := errors.AsType[tls.RecordHeaderError](err)
	if !ok || e.Conn == nil {
		return
	}
	switch string(e.RecordHeader[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET":
		e.Conn.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = io.WriteString(e.Conn, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nthis is served over TLS; use https:// or wss://\n") // it may be gone
	}
}

// track notes how to end a Serve. It reports false if that is over.
func (s *Server) track(l net.Listener, cancel context.CancelFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.open[l] = cancel
	return true
}

func (s *Server) untrack(l net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, l)
}

// stop ends all handshakes, and takes no more connections.
func (s *Server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for l, cancel := range s.open {
		cancel()
		_ = l.Close() // Serve reports what matters
	}
}

// Shutdown takes no more connections and waits for the requests in flight, until ctx
// ends. It returns the error of ctx if some are left.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop()
	var (
		all  sync.WaitGroup // end with ctx at the latest
		errs [3]error
	)
	for i, shutdown := range []func(context.Context) error{s.direct.Shutdown, s.one.Shutdown, s.two.Shutdown} {
		all.Go(func() { errs[i] = shutdown(ctx) })
	}
	all.Wait()
	return errors.Join(errs[:]...)
}

// Close ends all connections.
func (s *Server) Close() error {
	s.stop()
	return errors.Join(s.direct.Close(), s.one.Close(), s.two.Close())
}

// A handoff is a listener whose connections have been accepted elsewhere. It holds none
// of them.
type handoff struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
	addr   net.Addr
}

func newHandoff(addr net.Addr) *handoff {
	return &handoff{conns: make(chan net.Conn), closed: make(chan struct{}), addr: addr}
}

// add has a connection accepted, or closes it.
func (h *handoff) add(ctx context.Context, c net.Conn) {
	select {
	case h.conns <- c:
	case <-h.closed:
		_ = c.Close() // nobody has used it
	case <-ctx.Done():
		_ = c.Close() // nobody has used it
	}
}

func (h *handoff) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

func (h *handoff) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

func (h *handoff) Addr() net.Addr { return h.addr }
