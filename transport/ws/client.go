package ws

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/coder/websocket"
	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpclient"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
)

// A Client is a server at a URL. It is a Dialer.
type Client struct {
	// URL is that of the server: ws or wss, or http or https, which mean the
	// same.
	URL string

	// HTTP opens the connection. Its Timeout bounds the handshake alone. If nil, each
	// conversation has a connection of its own, which TLS configures. Redirects to
	// another origin are not followed unless HTTP says otherwise.
	HTTP *http.Client
	TLS  *tls.Config

	// Proxy says through which proxy connections go if HTTP is nil. If it is nil, too, the
	// environment does.
	Proxy func(*http.Request) (*url.URL, error)

	// Wrap, if not nil, returns what makes the handshake in place of the given, which
	// it uses: it may add to the request, and repeat it. See package oauth.
	Wrap func(http.RoundTripper) http.RoundTripper

	// Header is sent with the handshake.
	Header http.Header

	// Tools makes the conversation speak tool frames instead of JSON-RPC. Then
	// tools/call is all that can be asked; other requests are refused on this
	// side. Notifications are dropped, cancels too, and the server cannot ask or
	// tell anything.
	Tools bool

	// MaxMessage is the largest message accepted, in bytes, after it has been
	// inflated. Zero means dragoman.DefaultMaxMessage; negative means no limit.
	// A larger one ends the conversation.
	MaxMessage int

	// PingInterval is how often the server is pinged. WriteTimeout is how long it
	// may be silent after that, and how long it may take to read what is written
	// to it, before the conversation is ended. Zero means the defaults;
	// negative means no pings, and as long as it likes.
	PingInterval, WriteTimeout time.Duration

	// Compression offers the server to deflate messages.
	Compression bool

	// Logger receives what is skipped and dropped. If nil, nothing is logged.
	Logger *slog.Logger
}

var _ dragoman.Dialer = (*Client)(nil)

// Dial opens the socket and the conversation.
func (c *Client) Dial(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error) {
	limits := dragoman.Limits{MaxMessage: c.MaxMessage}
	w := new(wire)
	socket, err := c.open(ctx, w)
	if err != nil {
		return nil, err
	}
	s := newSocket(socket, w, limits, c.PingInterval, c.WriteTimeout)
	o := &jsonrpc.Options{Limits: limits, Stall: s.pings.timeout, Logger: c.Logger}
	if c.Tools {
		conn := jsonrpc.New(toolSink{s}, o)
		s.conn = conn
		conn.Start(nil)
		return toolConn{conn}, nil
	}
	conn := jsonrpc.New(s, o)
	s.conn = conn
	conn.Start(local)
	return conn, nil
}

// open makes the handshake.
func (c *Client) open(ctx context.Context, w *wire) (*websocket.Conn, error) {
	h, err := httpclient.NewClient("ws", &httpclient.ClientOptions{
		URL: c.URL, Schemes: []string{"ws", "wss", "http", "https"}, HTTP: c.HTTP, TLS: c.TLS, Proxy: c.Proxy, Wrap: c.Wrap,
	})
	if err != nil {
		return nil, err
	}
	h.Acquire()
	defer h.Release() // of a handshake that was refused
	if h.HTTP.Transport == nil {
		h.HTTP.Transport = http.DefaultTransport
	}
	h.HTTP.Transport = &tapTransport{h.HTTP.Transport, w}
	o := &websocket.DialOptions{HTTPClient: h.HTTP, HTTPHeader: c.Header.Clone(), Host: c.Header.Get("Host")}
	if !c.Tools {
		o.Subprotocols = []string{subprotocol}
	}
	if c.Compression {
		o.CompressionMode = websocket.CompressionNoContextTakeover
	}
	socket, resp, err := websocket.Dial(ctx, h.URL.String(), o) //nolint:bodyclose // the library does
	switch {
	case err == nil:
		return socket, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case resp != nil && resp.StatusCode != http.StatusSwitchingProtocols:
		return nil, fmt.Errorf("ws: no socket is opened: %w", httpclient.ReadStatus(resp))
	}
	return nil, fmt.Errorf("ws: cannot open the socket: %w", h.Explained(err, h.URL))
}
