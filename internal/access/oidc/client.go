package oidc

import (
	"bytes"
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
)

const (
	maxDocument  = 1 << 20 // bytes of an answer, decompressed
	maxString    = 8 << 10 // bytes of a string in a document
	maxToken     = 64 << 10
	maxHeader    = 64 << 10
	maxRedirects = 3 // of one GET
	requestTime  = 5 * time.Second

	// postTime is longer: a server that takes its time over a refresh has rotated the token,
	// and who does not wait for the new one has lost both.
	postTime = 30 * time.Second
)

// Options configures a Client.
type Options struct {
	// Server is the URL of the MCP server, as the user named it.
	Server *url.URL

	// TLS is used for every connection. If nil, the system's roots are.
	TLS *tls.Config

	// Proxy says through which proxy a request goes. If nil, the environment does.
	Proxy func(*http.Request) (*url.URL, error)

	// Trusted are hosts that the user has named ("login.example.com" or
	// "login.example.com:8443"). Their addresses are not judged.
	Trusted []string

	// Resolve returns the addresses of a name, and Dial connects to an address that may be
	// used, or to a proxy. If nil, the system does both.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	Dial    func(ctx context.Context, network, address string) (net.Conn, error)
}

// A Client asks servers on behalf of one MCP server. Any number of goroutines may use it.
type Client struct {
	server    *url.URL // http or https
	trusted   map[string]bool
	proxy     func(*http.Request) (*url.URL, error)
	resolve   func(ctx context.Context, host string) ([]netip.Addr, error)
	dial      func(ctx context.Context, network, address string) (net.Conn, error)
	transport *http.Transport
	http      *http.Client

	getTime, postTime time.Duration // of a request, and of one that posts
}

// New returns a client, which the caller closes.
func New(o *Options) *Client {
	server := *o.Server
	switch server.Scheme {
	case "ws":
		server.Scheme = "http"
	case "wss":
		server.Scheme = "https"
	}
	c := &Client{server: &server, trusted: make(map[string]bool), proxy: o.Proxy, resolve: o.Resolve, dial: o.Dial, getTime: requestTime, postTime: postTime}
	for _, host := range o.Trusted {
		c.trusted[strings.ToLower(host)] = true
	}
	if c.proxy == nil {
		c.proxy = http.ProxyFromEnvironment
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
		Proxy:                  func(r *http.Request) (*url.URL, error) { return proxyOf(r.Context()), nil },
		DialContext:            c.dialAllowed,
		TLSClientConfig:        o.TLS.Clone(),
		TLSHandshakeTimeout:    requestTime,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    2,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: maxHeader,
	}
	c.http = &http.Client{Transport: c.transport, CheckRedirect: checkRedirect}
	return c
}

// Close closes the connections that nobody uses. Requests under way are not disturbed.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// checkRedirect lets a GET go on within its origin. Any other redirect is the answer.
func checkRedirect(next *http.Request, via []*http.Request) error {
	first := via[0]
	if first.Method != http.MethodGet || len(via) > maxRedirects || !sameOrigin(next.URL, first.URL) || next.URL.User != nil {
		return http.ErrUseLastResponse
	}
	return nil
}

// proxyKey is the key of the proxy that a request goes through, a *url.URL. It is chosen before
// the request is made, so that the dialer knows that it dials a proxy.
type proxyKey struct{}

func proxyOf(ctx context.Context) *url.URL {
	u, _ := ctx.Value(proxyKey{}).(*url.URL)
	return u
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

// do makes a request. Its error holds none of the secrets.
func (c *Client) do(ctx context.Context, req *http.Request, hide secrets) (*answer, error) {
	limit := c.getTime
	if req.Method == http.MethodPost {
		limit = c.postTime
	}
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
	res, err := c.http.Do(req.WithContext(context.WithValue(ctx, proxyKey{}, proxy)))
	if err != nil {
		return nil, requestError(ctx, req.URL, err, hide)
	}
	defer res.Body.Close()
	a := &answer{status: res.StatusCode}
	a.kind, _, _ = mime.ParseMediaType(res.Header.Get("Content-Type"))
	a.body, err = io.ReadAll(io.LimitReader(res.Body, maxDocument+1))
	switch {
	case len(a.body) > maxDocument:
		return nil, fmt.Errorf("%s: the answer has more than %d bytes", place(req.URL), maxDocument)
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
