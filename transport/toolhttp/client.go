package toolhttp

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpclient"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Limits of a Client.
const (
	// DefaultTimeout is how long a call may take where no other limit is set.
	DefaultTimeout = 30 * time.Second

	// MaxCalls is how many calls of one conversation may be in flight. One more
	// fails with [dragoman.ErrOverloaded].
	MaxCalls = 1024
)

// A Client calls the tools of a server that takes each call as a POST. It is a
// Dialer. All fields but URL may be left out, and none may be changed once it is
// in use.
//
// Of the requests of a conversation, tools/call becomes a POST and tools/list a
// GET of the same URL. There are no others: they get "method not found", and
// notifications are ignored. A call that is cancelled is one whose HTTP request
// ends.
//
// Whatever keeps a call from being answered becomes an error response that says
// so, with data.source "gateway" and data.outcome: an HTTP error without a
// JSON-RPC body, an answer that cannot be read, a stream that ends early, and
// the end of Timeout. A Go error is left for the end of the caller's context or
// of the conversation, and for what was not sent because of a limit of ours.
type Client struct {
	// URL is where calls are posted: http:// or https://.
	URL string

	// HTTP makes the requests. If nil, a client of its own does, which keeps
	// connections alive, verifies certificates by the system's roots and uses
	// the environment's proxy. Either way redirects to another origin, or which
	// turn a POST into a GET, are not followed unless HTTP says otherwise.
	HTTP *http.Client

	// TLS configures the connections of the client of its own.
	TLS *tls.Config

	// Header is sent with every request.
	Header http.Header

	// Timeout is how long a call may take. Zero means DefaultTimeout; negative
	// means no limit.
	Timeout time.Duration

	// Stream asks for answers as event streams. Servers may answer either way.
	Stream bool

	// MaxMessage is the largest message in either direction, in bytes. Zero
	// means dragoman.DefaultMaxMessage; negative means no limit.
	MaxMessage int

	// Logger receives what goes wrong. If nil, nothing is logged.
	Logger *slog.Logger

	once   sync.Once
	err    error // why the fields make no client
	http   *httpclient.Client
	limits dragoman.Limits
	log    *slog.Logger
}

var _ dragoman.Dialer = (*Client)(nil)

func (c *Client) prepare() {
	c.limits = dragoman.Limits{MaxMessage: c.MaxMessage}
	c.log = httpserver.Logger(c.Logger)
	// Compressed streams would wait for blocks to fill.
	c.http, c.err = httpclient.NewClient("toolhttp", &httpclient.ClientOptions{URL: c.URL, HTTP: c.HTTP, TLS: c.TLS, Header: c.Header, Plain: true})
}

// Dial opens a conversation. It has no state on the server, so nothing is sent.
// Nothing comes from the server by itself, so local is never used.
func (c *Client) Dial(ctx context.Context, _ dragoman.Peer) (dragoman.Conn, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if c.once.Do(c.prepare); c.err != nil {
		return nil, c.err
	}
	c.http.Acquire()
	return newConn(c), nil
}

// A conn is a conversation without a connection: each call is an HTTP request,
// made by its caller's goroutine.
type conn struct {
	client *Client
	ctx    context.Context // ends with the conversation
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	ended   bool
	calls   int            // in flight
	busy    sync.WaitGroup // the same; none is added after the end
	release sync.Once      // releases the client's connections
}

var _ dragoman.Conn = (*conn)(nil)

func newConn(client *Client) *conn {
	c := &conn{client: client}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	return c
}

// enter counts a call, or refuses it.
func (c *conn) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ended:
		return dragoman.ErrClosed
	case c.calls >= MaxCalls:
		return dragoman.ErrOverloaded
	}
	c.calls++
	c.busy.Add(1)
	return nil
}

func (c *conn) leave() {
	c.mu.Lock()
	c.calls--
	c.mu.Unlock()
	c.busy.Done()
}

// Call implements dragoman.Peer.
func (c *conn) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.leave()
	switch req.Method() {
	case protocol.MethodCallTool:
		return c.callTool(ctx, req, from)
	case protocol.MethodListTools:
		return c.listTools(ctx, req)
	}
	return dragoman.NoPeer.Call(ctx, req, from)
}

// Notify implements dragoman.Peer. A server without
// conversations takes no notifications.
func (c *conn) Notify(context.Context, *dragoman.Message) error { return c.Err() }

// Close implements dragoman.Conn.
func (c *conn) Close() error {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.cancel(dragoman.ErrClosed)
	c.busy.Wait()
	c.release.Do(c.client.http.Release)
	return nil
}

// Done implements dragoman.Conn.
func (c *conn) Done() <-chan struct{} { return c.ctx.Done() }

// Err implements dragoman.Conn.
func (c *conn) Err() error { return context.Cause(c.ctx) }
