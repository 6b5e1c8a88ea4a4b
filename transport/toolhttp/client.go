package toolhttp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
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
	bad    error // why the fields make no client
	http   *http.Client
	limits dragoman.Limits
	log    *slog.Logger

	mu   sync.Mutex
	open int // conversations
}

var _ dragoman.Dialer = (*Client)(nil)

func (c *Client) prepare() {
	c.limits = dragoman.Limits{MaxMessage: c.MaxMessage}
	c.log = httpx.Logger(c.Logger)
	u, err := url.Parse(c.URL)
	switch {
	case err != nil:
		c.bad = errors.New("toolhttp: the URL cannot be read") // it may hold a password
	case u.Scheme != "http" && u.Scheme != "https":
		c.bad = fmt.Errorf("toolhttp: the URL's scheme is %q; it must be http or https", u.Scheme)
	case u.Host == "":
		c.bad = errors.New("toolhttp: the URL names no host")
	}
	if c.HTTP == nil {
		c.http = &http.Client{Transport: newTransport()}
	} else {
		own := *c.HTTP
		c.http = &own
	}
	if c.http.CheckRedirect == nil {
		c.http.CheckRedirect = sameOrigin
	}
}

func newTransport() *http.Transport {
	d := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           d.DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          256,
		MaxIdleConnsPerHost:   256,
		IdleConnTimeout:       90 * time.Second,
		ExpectContinueTimeout: time.Second,
		DisableCompression:    true, // streams would wait for blocks to fill
	}
}

// sameOrigin follows a redirect that stays on its origin and keeps the method.
// All others are answers, and no good ones.
func sameOrigin(req *http.Request, via []*http.Request) error {
	first := via[0]
	if len(via) >= 10 || req.Method != first.Method ||
		req.URL.Scheme != first.URL.Scheme || req.URL.Host != first.URL.Host {
		return http.ErrUseLastResponse
	}
	return nil
}

// Dial opens a conversation. It has no state on the server, so nothing is sent.
// Nothing comes from the server by itself, so local is never used.
func (c *Client) Dial(ctx context.Context, _ dragoman.Peer) (dragoman.Conn, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if c.once.Do(c.prepare); c.bad != nil {
		return nil, c.bad
	}
	c.mu.Lock()
	c.open++
	c.mu.Unlock()
	return newConn(c), nil
}

// release is called when a conversation is over. Connections are kept as long as
// there is one.
func (c *Client) release() {
	c.mu.Lock()
	c.open--
	last := c.open == 0
	c.mu.Unlock()
	if last && c.HTTP == nil {
		c.http.CloseIdleConnections()
	}
}
