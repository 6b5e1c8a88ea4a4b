package sse

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/internal/mux"
	"github.com/dragoman-mcp/dragoman/internal/sse"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Defaults of a Client.
const (
	DefaultEndpointTimeout = 10 * time.Second
	DefaultPostTimeout     = 30 * time.Second
)

// A Client is a server at a URL. It is a Dialer.
type Client struct {
	// URL is that of the event stream. If the server has none there, the same
	// URL with /sse behind it is tried.
	URL string

	// HTTP makes the requests. Its Timeout is not used. If nil, each conversation
	// has connections of its own, which TLS configures. Redirects to another origin,
	// or which turn a POST into a GET, are not followed unless HTTP says otherwise.
	HTTP *http.Client
	TLS  *tls.Config

	// Header is sent with every request.
	Header http.Header

	// EndpointTimeout is how long Dial waits for the endpoint, PostTimeout how
	// long the server may take to answer the POST of a message. Zero means the
	// defaults.
	EndpointTimeout, PostTimeout time.Duration

	// Sync speaks the variant without sessions to a server that names no
	// endpoint: messages are posted to URL/messages, and answers come in the
	// response.
	Sync bool

	// MaxMessage is the largest message accepted, in bytes. Zero means
	// dragoman.DefaultMaxMessage; negative means no limit. A larger one is
	// skipped, and one of eight times the limit ends the conversation.
	MaxMessage int

	// Logger receives what is skipped. If nil, nothing is logged.
	Logger *slog.Logger
}

var _ dragoman.Dialer = (*Client)(nil)

// Dial opens the event stream and waits for the endpoint that it names. A
// server that says no gives a *[protocol.StatusError].
//
// A message that the server does not take fails its call and nothing else. The
// conversation ends with the event stream, and when the server does not know
// the session any more; then calls fail with an error that is
// [dragoman.ErrClosed] and says why.
func (c *Client) Dial(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error) {
	client, err := httpx.NewClient("sse", &httpx.ClientOptions{URL: c.URL, HTTP: c.HTTP, TLS: c.TLS, Header: c.Header})
	if err != nil {
		return nil, err
	}
	client.HTTP.Timeout = 0 // it would end the stream
	l := newClientStream(c, client)
	if err := l.connect(ctx, client.URL, cmp.Or(c.EndpointTimeout, DefaultEndpointTimeout)); err != nil {
		_ = l.Close()
		return nil, err
	}
	conn := mux.New(l, &mux.Options{Limits: l.limits, Queued: true, Logger: c.Logger})
	conn.Start(local)
	return conn, nil
}

// errNoEndpoint says that a server is silent, or not one of this transport.
var errNoEndpoint = errors.New("sse: the server named no endpoint in time")

// connect opens the event stream and finds out where messages go.
func (l *clientStream) connect(ctx context.Context, base *url.URL, timeout time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errNoEndpoint)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { l.end(context.Cause(ctx)) })
	resp, err := l.open(base)
	if !stop() {
		<-l.ctx.Done()
		err = context.Cause(l.ctx)
	}
	if err != nil {
		if resp != nil {
			_ = resp.Body.Close()
		}
		if status, ok := errors.AsType[*protocol.StatusError](err); ok && l.allowSync && noStream(status.Status) {
			l.endpoint, l.sync = syncEndpoint(base), true // there are no notifications, but calls work
			return nil
		}
		return err
	}
	l.running.Add(1)
	go l.readEvents(resp.Body) // ends with the stream
	var first *sse.Event
	select {
	case first = <-l.first:
	case <-l.ctx.Done():
		return context.Cause(l.ctx)
	case <-ctx.Done():
		if err := context.Cause(ctx); !l.allowSync || !errors.Is(err, errNoEndpoint) {
			return err
		}
	}
	return l.setEndpoint(base, resp.Request.URL, first)
}

// setEndpoint sets where messages are posted, by the first event of the stream at that
// URL, or by its absence.
func (l *clientStream) setEndpoint(base, at *url.URL, first *sse.Event) error {
	if first == nil || first.Name != eventEndpoint {
		if !l.allowSync {
			return errors.New("sse: the event stream does not begin with an endpoint")
		}
		l.endpoint, l.sync = syncEndpoint(base), true
		return nil
	}
	endpoint, err := at.Parse(strings.TrimSpace(string(first.Data)))
	if err != nil {
		return errors.New("sse: the endpoint that the server names is no URL")
	}
	if !httpx.SameOrigin(endpoint, at) {
		return fmt.Errorf("sse: the endpoint that the server names is at another origin, %s://%s", endpoint.Scheme, endpoint.Host)
	}
	endpoint.Fragment, endpoint.User = "", at.User
	l.endpoint = endpoint
	return nil
}

// open gets the event stream: at base, or behind it.
func (l *clientStream) open(base *url.URL) (*http.Response, error) {
	resp, err := l.get(base)
	status, said := errors.AsType[*protocol.StatusError](err)
	if !said || strings.HasSuffix(base.Path, "/sse") || status.Status != http.StatusNotFound && !l.allowSync {
		return resp, err
	}
	again, err := l.get(base.JoinPath("sse"))
	if _, said := errors.AsType[*protocol.StatusError](err); said {
		return nil, status // about the URL that was configured
	}
	return again, err
}

// get opens the event stream at a URL.
func (l *clientStream) get(at *url.URL) (*http.Response, error) {
	resp, err := l.http.Do(l.ctx, http.MethodGet, at, nil, func(h http.Header) {
		h.Set("Accept", sse.ContentType)
		h.Set("Accept-Encoding", "identity") // compressed streams get stuck in buffers
		h.Set("Cache-Control", "no-cache")
	})
	if err != nil {
		return nil, fmt.Errorf("sse: cannot reach the server: %w", err)
	}
	if resp.StatusCode == http.StatusOK && httpx.MediaType(resp.Header) == sse.ContentType {
		return resp, nil
	}
	defer resp.Body.Close()
	status := httpx.ReadStatus(resp)
	if status.Status == http.StatusOK {
		status.Text = "that is no event stream"
	}
	return nil, status
}

// syncEndpoint returns where the variant without sessions takes messages.
func syncEndpoint(base *url.URL) *url.URL {
	u := *base
	u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/sse"), ""
	return u.JoinPath("messages")
}
