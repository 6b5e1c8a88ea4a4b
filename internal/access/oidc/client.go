package oidc

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/wire/httpclient"
)

const (
	maxDocument  = 1 << 20 // bytes of a response, decompressed
	maxString    = 8 << 10 // bytes of a string in a document
	maxToken     = 64 << 10
	maxHeader    = 64 << 10
	maxRedirects = 3  // of one GET
	maxIdle      = 64 // connections to one host

	// RequestTime is how long a request may take, and tokenTime one for tokens: a server
	// that is slow to refresh a token has rotated it, and a client that does not wait for the
	// new one has lost both.
	RequestTime = 5 * time.Second
	tokenTime   = 30 * time.Second
)

// A Network is how servers are reached. The zero value is the system's network.
type Network struct {
	// TLS is used for every connection. If nil, the system's roots are.
	TLS *tls.Config

	// Proxy returns the proxy of a request. If nil, the environment names it.
	Proxy func(*http.Request) (*url.URL, error)

	// Resolve returns the addresses of a name, and Dial connects to an address that has been
	// judged, or to a proxy. If nil, the system does both.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	Dial    func(ctx context.Context, network, address string) (net.Conn, error)
}

// Options configures a Client.
type Options struct {
	Network

	// Server is the URL that the user has configured, of an MCP server or an issuer. Its own
	// addresses are not judged, and those of all others by where it is. If nil, only public
	// addresses are used, and no proxy of the environment.
	Server *url.URL

	// Trusted are other hosts that the user has configured ("login.example.com" or
	// "login.example.com:8443"). Their addresses are not judged.
	Trusted []string

	// OpenID has metadata looked for first where OpenID Connect has it.
	OpenID bool

	// MaxBody is how many bytes a response may have. Zero means 1 MiB.
	MaxBody int
}

// A Client makes requests on behalf of one server. Any number of goroutines may use it.
type Client struct {
	server    *url.URL // http or https, or empty
	openID    bool
	maxBody   int
	trusted   map[string]bool
	proxy     func(*http.Request) (*url.URL, error)
	resolve   func(ctx context.Context, host string) ([]netip.Addr, error)
	dial      func(ctx context.Context, network, address string) (net.Conn, error)
	transport *http.Transport
	http      *http.Client

	requestTime, tokenTime time.Duration
}

// New returns a client, which the caller closes.
func New(o *Options) *Client {
	server := url.URL{}
	if o.Server != nil {
		server = *o.Server
	}
	switch server.Scheme {
	case "ws":
		server.Scheme = "http"
	case "wss":
		server.Scheme = "https"
	}
	c := &Client{server: &server, trusted: make(map[string]bool), proxy: o.Proxy, resolve: o.Resolve, dial: o.Dial, openID: o.OpenID, maxBody: cmp.Or(o.MaxBody, maxDocument), requestTime: RequestTime, tokenTime: tokenTime}
	for _, host := range o.Trusted {
		c.trusted[strings.ToLower(host)] = true
	}
	if c.proxy == nil {
		c.proxy = http.ProxyFromEnvironment
		if o.Server == nil { // a proxy would resolve the names itself
			c.proxy = http.ProxyURL(nil)
		}
	}
	if c.resolve == nil {
		c.resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if c.dial == nil {
		c.dial = (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext
	}
	c.transport = &http.Transport{
		Proxy:                  func(r *http.Request) (*url.URL, error) { return routeOf(r.Context()).proxy, nil },
		DialContext:            c.dialAllowed,
		TLSClientConfig:        o.TLS.Clone(),
		TLSHandshakeTimeout:    RequestTime,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    maxIdle,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: maxHeader,
	}
	c.http = &http.Client{Transport: c.transport, CheckRedirect: checkRedirect}
	return c
}

// Close closes idle connections. Requests in flight continue.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// checkRedirect has a GET for a document follow redirects within its origin. Any other redirect is
// returned as the response.
func checkRedirect(next *http.Request, via []*http.Request) error {
	first := via[0]
	if !routeOf(next.Context()).follow || len(via) > maxRedirects || !httpclient.SameOrigin(next.URL, first.URL) || next.URL.User != nil {
		return http.ErrUseLastResponse
	}
	return nil
}

// A route is how a request is made. It is in the request's context, so that the dialer knows
// whether it dials a proxy.
type route struct {
	proxy  *url.URL // nil means a direct connection
	follow bool     // redirects within the origin
}

type routeKey struct{}

func routeOf(ctx context.Context) route {
	r, _ := ctx.Value(routeKey{}).(route)
	return r
}

// An answer is a response that has been read.
type answer struct {
	status int
	kind   string // its media type
	body   []byte
}

// object reports whether the body is meant to be a JSON object.
func (a *answer) object() bool {
	return bytes.HasPrefix(bytes.TrimLeft(a.body, " \t\r\n"), []byte("{"))
}

// Ask makes a request, with a form if that is not nil, and returns the response's status and
// body. A redirect, a status of 429 and those from 500 are errors. The error holds nothing of
// what was sent in secret.
func (c *Client) Ask(ctx context.Context, method, at string, form url.Values, header http.Header) (status int, body []byte, err error) {
	req, err := http.NewRequest(method, at, strings.NewReader(form.Encode()))
	if err != nil {
		return 0, nil, fmt.Errorf("%q is not a URL", short(at))
	}
	if header != nil {
		req.Header = header.Clone()
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	a, err := c.do(ctx, req, secretsOf(form, nil, header), c.requestTime, false)
	switch {
	case err != nil:
		return 0, nil, err
	case a.status/100 == 3:
		return 0, nil, fmt.Errorf("%s redirects, which is not followed", place(req.URL))
	case a.unavailable():
		return 0, nil, fmt.Errorf("%s answered %d", place(req.URL), a.status)
	}
	return a.status, a.body, nil
}

// unavailable reports whether the server may answer the same request otherwise later.
func (a *answer) unavailable() bool {
	return a.status >= 500 || a.status == http.StatusTooManyRequests
}

// do makes a request, which may take so long. Its error holds none of the secrets.
func (c *Client) do(ctx context.Context, req *http.Request, hide secrets, limit time.Duration, follow bool) (*answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v", limit))
	defer cancel()
	proxy, err := c.proxy(req)
	if err != nil {
		return nil, fmt.Errorf("%s: the proxy's URL cannot be read", place(req.URL)) // it may hold a password
	}
	if err := c.allow(ctx, req.URL, proxy != nil); err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "dragoman")
	res, err := c.http.Do(req.WithContext(context.WithValue(ctx, routeKey{}, route{proxy, follow})))
	if err != nil {
		return nil, requestError(ctx, req.URL, err, hide)
	}
	defer res.Body.Close()
	a := &answer{status: res.StatusCode}
	a.kind, _, _ = mime.ParseMediaType(res.Header.Get("Content-Type"))
	a.body, err = io.ReadAll(io.LimitReader(res.Body, int64(c.maxBody)+1))
	switch {
	case len(a.body) > c.maxBody:
		return nil, fmt.Errorf("%s: the response has more than %d bytes", place(req.URL), c.maxBody)
	case err != nil:
		return nil, requestError(ctx, req.URL, err, hide)
	}
	return a, nil
}

// requestError says why there is no answer. What the server has sent may be in err, and in there
// what we have sent.
func requestError(ctx context.Context, at *url.URL, err error, hide secrets) error {
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	switch {
	case errors.Is(err, ErrAddress):
		return fmt.Errorf("%s: %w", place(at), err)
	case ctx.Err() != nil:
		return noAnswer{fmt.Errorf("%s: %w", place(at), context.Cause(ctx))}
	}
	text := fmt.Errorf("%s: %s", place(at), hide.clean(err.Error()))
	if refusedTLS(err) {
		return text
	}
	return noAnswer{text}
}

// refusedTLS reports whether one side does not want the other, or has no TLS: that does not
// pass. crypto/tls gives an alert no other type than that of its operation.
func refusedTLS(err error) bool {
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	op, _ := errors.AsType[*net.OpError](err)
	return untrusted || errors.Is(err, http.ErrSchemeMismatch) || op != nil && (op.Op == "remote error" || op.Op == "local error")
}

// place names a URL in an error, without its query.
func place(u *url.URL) string { return short(u.Scheme + "://" + u.Host + u.EscapedPath()) }
