package streamable

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpclient"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
	"github.com/dragoman-mcp/dragoman/internal/wire/toollist"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Defaults of a Client.
const (
	DefaultCallTimeout    = 30 * time.Second
	DefaultMaxCallTimeout = 5 * time.Minute
)

// A Client reaches a server over Streamable HTTP. It is a Dialer. All fields but
// URL may be left out, and none may be changed once it is in use.
//
// Its conversations carry both eras, message by message: what has an envelope goes out
// by the rules of the modern era, all else belongs to the session that initialize opens.
// A conversation ends with its session. A request that the server refuses because it has
// ended the session fails with an error that is [ErrSessionGone], [dragoman.ErrClosed]
// and a [protocol.Fault] which says that it was not carried out; others in progress fail
// with [dragoman.ErrClosed]. To continue, dial again, as package era does.
//
// At the limit of 1,024 calls in flight a call fails with [dragoman.ErrOverloaded].
//
// Notifications go out in the background, one after the other. When 1,024 of
// them or 4 MiB wait, progress keeps the newest, log messages are dropped, and
// others fail with [dragoman.ErrOverloaded].
type Client struct {
	// URL is the server's endpoint: http://, https://, or unix:// followed by
	// the path of a socket, a colon and the path of the endpoint, as in
	// unix:///run/server.sock:/mcp. Without the latter it is /mcp.
	URL string

	// HTTP makes the requests. If nil, a client of its own does, which keeps
	// connections alive, verifies certificates and uses the environment's proxy.
	// Either way redirects to another origin, or which turn a POST into a GET,
	// are not followed, unless HTTP has a CheckRedirect. It should have no
	// Timeout, because that would cut streams.
	HTTP *http.Client

	// Header is sent with every request.
	Header http.Header

	// TLS configures connections if HTTP is nil, and Proxy says through which proxy they
	// go. If Proxy is nil, the environment does.
	TLS   *tls.Config
	Proxy func(*http.Request) (*url.URL, error)

	// Wrap, if not nil, returns what makes the requests in place of the given, which
	// it uses: it may add to each request, and repeat one. See package oauth.
	Wrap func(http.RoundTripper) http.RoundTripper

	// Timeout is how long a request may take, and MaxTimeout how long if there
	// is progress, or a question of the server in flight. A request that takes
	// longer fails with a *[dragoman.TimeoutError]. Zero means DefaultCallTimeout and
	// DefaultMaxCallTimeout; negative means no limit. Listens have none.
	Timeout, MaxTimeout time.Duration

	// MaxMessage is the largest message in either direction, in bytes. Zero
	// means dragoman.DefaultMaxMessage; negative means no limit.
	MaxMessage int

	// Fallback opens the conversation if the server turns out to speak HTTP+SSE.
	// If nil, such a server cannot be reached.
	Fallback dragoman.Dialer

	// Retry is how streams that break are opened again, and what may be lost with
	// its link is sent again. It may be nil.
	Retry *Retry

	// NoToolList keeps the client from asking for the list of tools by itself.
	// It does so before the first call of a tool that it has seen no schema of,
	// in the modern era, because a schema may want headers.
	NoToolList bool

	// Logger receives what goes wrong. If nil, nothing is logged.
	Logger *slog.Logger

	once sync.Once
	opts clientOptions
	bad  error // why the fields make no client

	tools toollist.Cache

	mu    sync.Mutex
	known *Protocol
}

// unixPath is the endpoint on a Unix socket if the URL names none.
const unixPath = "/mcp"

// A Retry is how streams that break are opened again: after Min, then after twice
// as long, and so on up to Max, each time less a random part of up to a fifth.
// After Attempts failures in a row the stream is given up. A time to wait that the
// server asks for takes precedence. Zero means 250 milliseconds, 10 seconds
// and 5; negative Attempts mean none.
//
// In the same way the answer to a question of the server is sent again when the
// link breaks before the server has confirmed it, for a minute at most and as long
// as the call that it belongs to is in flight. So is the notification that a request is
// cancelled. A server that gets one of them twice ignores the second.
type Retry struct {
	Min, Max time.Duration
	Attempts int
}

var _ dragoman.Dialer = (*Client)(nil)

// clientOptions are the fields of a Client with their defaults filled in.
type clientOptions struct {
	http          *httpclient.Client
	timeout       time.Duration // zero: none
	maxTimeout    time.Duration // zero: none
	limits        dragoman.Limits
	retry         Retry
	log           *slog.Logger
	oneWayTimeout time.Duration // for what nobody waits for: like timeout, but always there
}

func (c *Client) prepare() error {
	c.once.Do(func() {
		o := &c.opts
		o.timeout = httpframe.Duration(c.Timeout, DefaultCallTimeout)
		o.maxTimeout = max(httpframe.Duration(c.MaxTimeout, DefaultMaxCallTimeout), o.timeout)
		o.oneWayTimeout = min(o.timeout, DefaultCallTimeout)
		for _, d := range []*time.Duration{&o.timeout, &o.maxTimeout} {
			if *d == httpframe.Forever {
				*d = 0
			}
		}
		o.limits = dragoman.Limits{MaxMessage: c.MaxMessage}
		c.tools = toollist.Cache{Detached: true, MaxList: o.limits.Message(), Fresh: toolsFresh, FailedFor: toolsFailed, LostFor: toolsFailed}
		o.log = httpserver.Logger(c.Logger)
		o.retry = Retry{Min: 250 * time.Millisecond, Max: 10 * time.Second, Attempts: 5}
		if r := c.Retry; r != nil {
			o.retry.Min = httpframe.Duration(r.Min, o.retry.Min)
			o.retry.Max = max(httpframe.Duration(r.Max, o.retry.Max), o.retry.Min)
			if r.Attempts != 0 {
				o.retry.Attempts = max(r.Attempts, 0)
			}
		}
		o.http, c.bad = httpclient.NewClient("streamable", &httpclient.ClientOptions{
			URL: c.URL, UnixPath: unixPath, HTTP: c.HTTP, TLS: c.TLS, Proxy: c.Proxy, Wrap: c.Wrap, Header: c.Header,
		})
	})
	return c.bad
}

// Dial opens a conversation. Nothing is sent before the first message, unless
// the server is known to speak HTTP+SSE.
func (c *Client) Dial(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := c.prepare(); err != nil {
		return nil, err
	}
	if v := c.remembered(); v != nil && v.SSE && c.Fallback != nil {
		conn, err := c.Fallback.Dial(ctx, local)
		if err != nil {
			c.forget() // the server may speak something else now
		}
		return conn, err
	}
	return newClientConn(c, local), nil
}

var (
	// ErrNoResponse says that a stream ended before the answer came and cannot
	// be resumed. Whether the request was carried out is not known.
	ErrNoResponse = errors.New("streamable: no response received for request")

	// ErrSessionGone says that the server has ended the session, and so the
	// conversation.
	ErrSessionGone = errors.New("streamable: the server has ended the session")
)

// A refusedError is the error of a request that the server has refused because it
// has ended the session. It is a [protocol.Fault]: the request was not carried out.
type refusedError struct{ error }

// Outcome implements protocol.Fault.
func (refusedError) Outcome() string { return protocol.OutcomeNotSent }

// Unwrap returns why the conversation is over.
func (e refusedError) Unwrap() error { return e.error }
