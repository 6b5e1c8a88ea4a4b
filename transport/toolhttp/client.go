package toolhttp

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
)

// Limits of a Client.
const (
	// DefaultTimeout is how long a call may take where no other limit is set.
	DefaultTimeout = 30 * time.Second

	// MaxCalls is how many calls of one conversation may be under way. One more
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
	http   *httpx.Client
	limits dragoman.Limits
	log    *slog.Logger
}

var _ dragoman.Dialer = (*Client)(nil)

func (c *Client) prepare() {
	c.limits = dragoman.Limits{MaxMessage: c.MaxMessage}
	c.log = httpx.Logger(c.Logger)
	// Compressed streams would wait for blocks to fill.
	c.http, c.err = httpx.NewClient("toolhttp", &httpx.ClientOptions{URL: c.URL, HTTP: c.HTTP, TLS: c.TLS, Header: c.Header, Plain: true})
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
