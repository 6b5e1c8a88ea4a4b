package ws

import (
	"context"
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
	door *httpx.Door
}

func (s *Server) prepare() {
	s.door = httpx.NewDoor(&httpx.DoorOptions{
		Hosts: s.Hosts, Origins: s.Origins, Trusted: s.Trusted, Caller: s.Caller,
		MaxRequests: httpx.Limit(s.MaxConns, DefaultMaxConns), MaxMessage: s.MaxMessage, WriteTimeout: s.WriteTimeout, Logger: s.Logger,
	})
}

// ServeHTTP makes a request a conversation. It returns as soon as that has begun.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.once.Do(s.prepare)
	s.door.Serve(w, r, s.serve)
}

// serve checks a request before the upgrade.
func (s *Server) serve(x *httpx.Exchange) error {
	r, h := x.R, x.W.Header()
	switch {
	case r.Method != http.MethodGet:
		return httpx.NotAllowed(r, http.MethodGet)
	case r.ProtoMajor != 1 || !hasToken(r.Header, "Connection", "upgrade") || !hasToken(r.Header, "Upgrade", "websocket"):
		if r.ProtoMajor == 1 {
			h.Set("Connection", "Upgrade")
			h.Set("Upgrade", "websocket")
		}
		return httpx.Refuse(http.StatusUpgradeRequired, "this is a WebSocket; open it by GET over HTTP/1.1 with Upgrade: websocket")
	case !canHijack(x.W):
		return &httpx.Refusal{
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
func (s *Server) upgrade(x *httpx.Exchange) {
	o := websocket.AcceptOptions{InsecureSkipVerify: true} // the door checks the origin
	if s.Acceptor != nil {
		o.Subprotocols = []string{subprotocol}
	}
	if s.Compression {
		o.CompressionMode = websocket.CompressionNoContextTakeover
	}
	var w wire
	c, err := websocket.Accept(&hijackTap{x.W, &w}, x.R, &o)
	if err != nil {
		s.door.Log.Debug("client refused", "error", err)
		return
	}
	t := &conn{server: s, release: x.Detach()}
	// The request's own context ends when ServeHTTP returns.
	t.ctx, t.cancel = context.WithCancelCause(context.WithoutCancel(x.R.Context()))
	t.socket = newSocket(c, &w, s.door.Limits, s.PingInterval, s.WriteTimeout)
	t.socket.closed = t.closed
	x.OnShutdown(t.shutdown)
	// Ends when the conversation has begun, or cannot.
	go t.start()
}

// Shutdown refuses new clients and requests, and closes each socket with code 1001
// when what was under way on it is answered. When ctx ends, it cancels the rest,
// which is answered as lost, and returns the context's error: half a second later at
// the latest.
func (s *Server) Shutdown(ctx context.Context) error {
	s.once.Do(s.prepare)
	return s.door.Shutdown(ctx)
}

// Close is Shutdown that does not wait for requests under way to be done.
func (s *Server) Close() error {
	s.once.Do(s.prepare)
	return s.door.Close()
}
