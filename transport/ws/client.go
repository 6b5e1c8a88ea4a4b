package ws

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/internal/mux"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A Client is a server at a URL. It is a Dialer.
type Client struct {
	// URL is that of the server: ws or wss, or http or https, which mean the
	// same.
	URL string

	// HTTP opens the connection. Its Timeout bounds the handshake alone, and
	// redirects to other origins are not followed. If nil, each conversation has
	// a connection of its own.
	HTTP *http.Client

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
	line := new(wire)
	socket, err := c.open(ctx, line)
	if err != nil {
		return nil, err
	}
	s := newSocket(socket, line, limits, c.PingInterval, c.WriteTimeout)
	o := &mux.Options{Limits: limits, Stall: s.pings.within, Logger: c.Logger}
	if c.Tools {
		conn := mux.New(toolSink{s}, o)
		s.conn = conn
		conn.Start(nil)
		return toolConn{conn}, nil
	}
	conn := mux.New(s, o)
	s.conn = conn
	conn.Start(local)
	return conn, nil
}

// open makes the handshake.
func (c *Client) open(ctx context.Context, line *wire) (*websocket.Conn, error) {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil:
		return nil, errors.New("ws: the URL cannot be read") // it may hold a password
	case u.Scheme != "ws" && u.Scheme != "wss" && u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("ws: the URL's scheme is %q; it must be ws, wss, http or https", u.Scheme)
	case u.Host == "":
		return nil, errors.New("ws: the URL names no host")
	}
	u.Fragment = ""
	client, own := c.http(line)
	if own != nil {
		defer own.CloseIdleConnections() // of a handshake that was refused
	}
	o := &websocket.DialOptions{HTTPClient: client, HTTPHeader: c.Header.Clone(), Host: c.Header.Get("Host")}
	if !c.Tools {
		o.Subprotocols = []string{subprotocol}
	}
	if c.Compression {
		o.CompressionMode = websocket.CompressionNoContextTakeover
	}
	socket, resp, err := websocket.Dial(ctx, u.String(), o) //nolint:bodyclose // the library does
	switch {
	case err == nil:
		return socket, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case resp != nil && resp.StatusCode != http.StatusSwitchingProtocols:
		return nil, statusError(resp)
	}
	var failed *url.Error
	if errors.As(err, &failed) {
		err = failed.Err // the URL may hold secrets
	}
	return nil, fmt.Errorf("ws: cannot open the socket: %w", err)
}

// http returns what opens the connection, and its transport if that is for this
// conversation alone.
func (c *Client) http(line *wire) (*http.Client, *http.Transport) {
	var client http.Client
	var own *http.Transport
	if c.HTTP != nil {
		client = *c.HTTP
	}
	base := client.Transport
	if c.HTTP == nil {
		own = &http.Transport{Proxy: http.ProxyFromEnvironment}
		if standard, ok := http.DefaultTransport.(*http.Transport); ok {
			own = standard.Clone()
		}
		base = own
	}
	if base == nil {
		base = http.DefaultTransport
	}
	client.Transport = &tapTransport{base, line}
	theirs := client.CheckRedirect
	client.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		first := via[0].URL
		switch {
		case req.URL.Scheme != first.Scheme || !strings.EqualFold(req.URL.Host, first.Host):
			return fmt.Errorf("the server redirects to another origin, %s://%s", req.URL.Scheme, req.URL.Host)
		case theirs != nil:
			return theirs(req, via)
		case len(via) >= 10:
			return errors.New("the server redirects again and again")
		}
		return nil
	}
	return &client, own
}

// A StatusError is an HTTP status by which a server refuses the handshake. It is
// [dragoman.ErrOverloaded] where the status means that.
type StatusError struct {
	Status int    // 403, say
	Text   string // the beginning of the body, if it is text

	// Challenge and AuthServer are the headers WWW-Authenticate and
	// Mcp-Auth-Server, which say how to be let in.
	Challenge, AuthServer string

	// RetryAfter is how long the server asks to wait. Zero means that it does
	// not.
	RetryAfter time.Duration
}

// Error implements error.
func (e *StatusError) Error() string {
	s := fmt.Sprintf("ws: the server opens no socket, but answers with status %d %s", e.Status, http.StatusText(e.Status))
	if e.Text != "" {
		s += ": " + e.Text
	}
	return s
}

// Unwrap returns what the status means to a caller, or nil.
func (e *StatusError) Unwrap() error {
	if e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable {
		return dragoman.ErrOverloaded
	}
	return nil
}

// statusError reads what the library has kept of a response.
func statusError(resp *http.Response) *StatusError {
	e := &StatusError{
		Status:     resp.StatusCode,
		Challenge:  resp.Header.Get("WWW-Authenticate"),
		AuthServer: resp.Header.Get(protocol.HeaderAuthServer),
		RetryAfter: httpx.RetryAfter(resp.Header),
	}
	if resp.Body == nil {
		return e
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if m, err := dragoman.Parse(body); err == nil && m.IsError() {
		e.Text = m.RPCError().Message
	} else if kind := resp.Header.Get("Content-Type"); strings.HasPrefix(kind, "text/plain") || strings.HasPrefix(kind, "application/json") {
		e.Text = strings.TrimSpace(strings.ToValidUTF8(string(body[:min(len(body), 256)]), ""))
	}
	return e
}
