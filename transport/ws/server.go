package ws

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/limit"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// DefaultMaxConns is how many clients a Server serves at once.
const DefaultMaxConns = 16384

// subprotocol is the name of the subprotocol that is JSON-RPC.
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
	// this machine against pages in its browser. Trusted says that both have
	// been checked already.
	Hosts, Origins []string
	Trusted        bool

	// Caller returns who opens a conversation. If nil, callers are distinguished by
	// their address.
	Caller func(*http.Request) (*dragoman.Caller, error)

	// MaxMessage is the largest message accepted, in bytes, after it has been
	// inflated. Zero means dragoman.DefaultMaxMessage; negative means no limit.
	// A larger one ends the conversation.
	MaxMessage int

	// MaxConns is how many clients are served at once; more get 503. Zero means
	// DefaultMaxConns; negative means no limit.
	MaxConns int

	// PingInterval is how often a client is pinged. WriteTimeout is how long it
	// may be silent after that, and how long it may take to read what is written
	// to it, before it is cut. Zero means the defaults; negative means no pings,
	// and as long as it likes.
	PingInterval, WriteTimeout time.Duration

	// Compression lets clients have messages deflated, and send them so.
	Compression bool

	// Logger receives faults. If nil, nothing is logged.
	Logger *slog.Logger

	once sync.Once
	base *httpserver.Base
}

func (s *Server) prepare() {
	s.base = httpserver.NewBase(&httpserver.BaseOptions{
		Hosts: s.Hosts, Origins: s.Origins, Trusted: s.Trusted, Caller: s.Caller,
		MaxRequests: httpframe.Limit(s.MaxConns, DefaultMaxConns), MaxMessage: s.MaxMessage, WriteTimeout: s.WriteTimeout, Logger: s.Logger,
	})
}

// ServeHTTP makes a request a conversation. It returns as soon as that has begun.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.once.Do(s.prepare)
	s.base.Serve(w, r, s.serve)
}

// serve checks a request before the upgrade.
func (s *Server) serve(x *httpserver.Exchange) error {
	r, h := x.R, x.W.Header()
	switch {
	case r.Method != http.MethodGet:
		return httpserver.NotAllowed(r, http.MethodGet)
	case r.ProtoMajor != 1 || !hasToken(r.Header, "Connection", "upgrade") || !hasToken(r.Header, "Upgrade", "websocket"):
		if r.ProtoMajor == 1 {
			h.Set("Connection", "Upgrade")
			h.Set("Upgrade", "websocket")
		}
		return httpserver.Refuse(http.StatusUpgradeRequired, "this is a WebSocket; open it by GET over HTTP/1.1 with Upgrade: websocket")
	case !canHijack(x.W):
		return &httpserver.Refusal{
			Status: http.StatusNotImplemented, Code: protocol.CodeInternal,
			Message: "the connection cannot be upgraded: the response writer does not support it",
		}
	}
	s.upgrade(x)
	return nil
}

// hasToken reports whether a header lists a token.
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

// upgrade makes the request a socket, and that a conversation. If it fails, the
// request has been answered.
func (s *Server) upgrade(x *httpserver.Exchange) {
	o := websocket.AcceptOptions{InsecureSkipVerify: true} // the endpoint checks the origin
	if s.Acceptor != nil {
		o.Subprotocols = []string{subprotocol}
	}
	if s.Compression {
		o.CompressionMode = websocket.CompressionNoContextTakeover
	}
	var w wire
	c, err := websocket.Accept(&hijackTap{x.W, &w}, x.R, &o)
	if err != nil {
		s.base.Log.Debug("client refused", "error", err)
		return
	}
	t := &conn{server: s, release: x.Detach()}
	// The request's own context ends when ServeHTTP returns.
	t.ctx, t.cancel = context.WithCancelCause(context.WithoutCancel(x.Context()))
	t.socket = newSocket(c, &w, s.base.Limits, s.PingInterval, s.WriteTimeout)
	t.socket.closed, t.socket.in.hold = t.closed, limit.HoldOf(x.R.Context())
	x.OnShutdown(t.shutdown)
	// Ends when the conversation has begun, or cannot.
	go t.start()
}

// Shutdown refuses new clients and requests, and closes each socket with code 1001
// when what was in flight on it is answered. When ctx ends, it cancels the rest,
// which is answered as lost, and returns the context's error: half a second later at
// the latest.
func (s *Server) Shutdown(ctx context.Context) error {
	s.once.Do(s.prepare)
	return s.base.Shutdown(ctx)
}

// Close is Shutdown that does not wait for requests in flight to be done.
func (s *Server) Close() error {
	s.once.Do(s.prepare)
	return s.base.Close()
}

// cutWait is how long a close may take when Shutdown has run out of time.
const cutWait = 50 * time.Millisecond

// errNotAccepted is why a socket ends whose client is not accepted.
var errNotAccepted = errors.New("ws: the client could not be served")

// A conn is one client of a Server. Its socket owns it: the conn is over when that is
// closed.
type conn struct {
	server  *Server
	socket  *socket
	release func()          // ends the exchange of the endpoint
	ctx     context.Context // of Accept
	cancel  context.CancelCauseFunc

	mu      sync.Mutex
	mux     *jsonrpc.Conn // nil before it is known what the client speaks
	closing bool          // no conversation may be opened any more
}

// start finds out what the client speaks and starts the conversation.
func (c *conn) start() {
	s := c.server
	defer func() {
		if p := recover(); p != nil {
			s.base.Log.Error("panic while accepting a client", "panic", p, "stack", string(debug.Stack()))
			c.refuse(nil)
		}
	}()
	tools := false
	if c.socket.ws.Subprotocol() == "" {
		first, err := c.socket.Read()
		if err != nil {
			_ = c.socket.Close()
			return
		}
		c.socket.first = first
		tools = isToolFrame(first)
	}
	o := jsonrpc.Options{
		Limits: s.base.Limits, Stall: c.socket.pings.timeout, Server: true, Logger: s.Logger,
	}
	var stream jsonrpc.Stream = c.socket
	if tools {
		stream = toolSource{c.socket}
		o.Limits.MaxMessage = -1 // the socket has checked it, and a request is larger than its frame
	}
	m := c.open(stream, &o)
	if m == nil {
		_ = c.socket.Close()
		return
	}
	peer, err := c.accept(m, tools)
	if err != nil {
		s.base.Log.Warn("client not accepted", "error", err)
		c.refuse(err)
		return
	}
	m.Start(peer)
}

// isToolFrame reports whether the first message of a client is a tool frame.
func isToolFrame(frame []byte) bool {
	m, err := asParams(frame)
	return err == nil && m.Get("name") != nil && m.Get("jsonrpc") == nil && m.Get("method") == nil
}

// open makes the conversation, unless that has been cut meanwhile.
func (c *conn) open(stream jsonrpc.Stream, o *jsonrpc.Options) *jsonrpc.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return nil
	}
	c.mux = jsonrpc.New(stream, o)
	c.socket.conn = c.mux
	return c.mux
}

// accept returns the peer that answers the client.
func (c *conn) accept(m *jsonrpc.Conn, tools bool) (dragoman.Peer, error) {
	s := c.server
	switch {
	case tools:
		return toolPeer{s.Requests, dragoman.CallerOf(c.ctx)}, nil
	case s.Acceptor == nil:
		return dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			return req.Fail(&dragoman.Error{Code: protocol.CodeMethodNotFound, Message: "JSON-RPC is not served here; " + frameShape}), nil
		}}, nil
	}
	peer, err := s.Acceptor.Accept(c.ctx, m)
	if err == nil && peer == nil {
		err = fmt.Errorf("ws: the acceptor returned neither a peer nor an error")
	}
	return peer, err
}

// refuse ends a conn that cannot begin. Of the error a client hears only what it can help: that
// there is no room for it.
func (c *conn) refuse(err error) {
	reason := closeReason{websocket.StatusInternalError, "the server cannot serve this client; its log says why", errNotAccepted}
	if e, ok := errors.AsType[*dragoman.Error](err); ok && e.Code == protocol.CodeOverloaded {
		reason.code, reason.text = websocket.StatusTryAgainLater, "the server has no room for this client; try again later"
	}
	_ = c.socket.setReason(reason)
	c.end()
}

// shutdown ends the conn when what is in flight is answered, or ctx ends: then what is
// not is answered as lost, and the connection of a client that does not read is cut.
func (c *conn) shutdown(ctx context.Context) {
	c.mu.Lock()
	m := c.mux
	c.mu.Unlock()
	if m != nil && m.Finish(ctx) != nil {
		defer time.AfterFunc(cutWait, c.socket.wire.cut).Stop()
	}
	c.cancel(errStopping)
	_ = c.socket.setReason(closeReason{websocket.StatusGoingAway, "the server is stopping", errStopping})
	c.end()
}

func (c *conn) end() {
	c.mu.Lock()
	m := c.mux
	c.closing = true
	c.mu.Unlock()
	if m != nil {
		_ = m.Close()
		return
	}
	_ = c.socket.Close()
}

// closed is called when the socket is.
func (c *conn) closed(reason error) {
	c.cancel(reason)
	c.server.base.Log.Debug("conversation ended", "reason", reason)
	c.release()
}
