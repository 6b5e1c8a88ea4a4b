package httpclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/lazy"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// maxRedirects is how many redirects are followed for one request.
const maxRedirects = 10

// ClientOptions configures a Client.
type ClientOptions struct {
	// URL is where the server is. Its scheme is one of Schemes, which are http and https
	// if there are none.
	URL     string
	Schemes []string

	// UnixPath lets the URL be unix://SOCKET or unix://SOCKET:PATH, and is the path if
	// that names none.
	UnixPath string

	// HTTP makes the requests. If nil, a client of its own does, with TLS, which keeps
	// connections alive and uses Proxy, or else the environment's. Either way a redirect is
	// followed only if it stays on its origin and keeps the method, unless HTTP says
	// otherwise: any other redirect is returned as the response.
	HTTP  *http.Client
	TLS   *tls.Config
	Proxy func(*http.Request) (*url.URL, error)

	// Wrap, if not nil, returns what makes the requests in place of the given, which it
	// uses.
	Wrap func(http.RoundTripper) http.RoundTripper

	// Header is sent with every request.
	Header http.Header

	// Plain asks for answers that are not compressed.
	Plain bool
}

// A Client makes requests to one server. Any number of goroutines may use it.
type Client struct {
	URL  *url.URL
	HTTP *http.Client

	header    http.Header
	own       *http.Transport // nil if HTTP was given
	certified bool            // the server is shown a certificate if it wants one

	mu   sync.Mutex
	open int // users of its connections
}

// NewClient returns a client, for the package that is named in errors. The error does not
// repeat the URL: it may hold a password.
func NewClient(pkg string, o *ClientOptions) (*Client, error) {
	c := &Client{header: make(http.Header, len(o.Header))}
	for name, values := range o.Header {
		name = http.CanonicalHeaderKey(name)
		c.header[name] = append(c.header[name], values...)
	}
	socket, err := c.locate(o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", pkg, err)
	}
	c.certified = o.TLS != nil && (o.TLS.GetClientCertificate != nil || len(o.TLS.Certificates) > 0)
	if o.HTTP != nil {
		given := *o.HTTP
		c.HTTP = &given
	} else {
		c.own = newTransport(o, c.URL.Scheme, socket)
		c.HTTP = &http.Client{Transport: c.own}
	}
	if o.Wrap != nil {
		base := c.HTTP.Transport
		if base == nil {
			base = http.DefaultTransport
		}
		c.HTTP.Transport = o.Wrap(base)
	}
	if c.HTTP.CheckRedirect == nil {
		c.HTTP.CheckRedirect = checkRedirect
	}
	return c, nil
}

// locate reads the URL, and returns the path of the socket if it names one.
func (c *Client) locate(o *ClientOptions) (socket string, err error) {
	at, schemes := o.URL, o.Schemes
	if len(schemes) == 0 {
		schemes = []string{"http", "https"}
	}
	if rest, ok := strings.CutPrefix(at, "unix://"); ok && o.UnixPath != "" {
		path := o.UnixPath
		socket = rest
		if i := strings.LastIndex(rest, ":/"); i >= 0 {
			socket, path = rest[:i], rest[i+1:]
		}
		switch {
		case !strings.HasPrefix(socket, "/"):
			return "", fmt.Errorf("%q has no absolute path of a socket", at)
		case o.HTTP != nil:
			return "", errors.New("a Unix socket needs the client's own HTTP client")
		}
		at = "http://localhost" + path
	}
	c.URL, err = url.Parse(at)
	switch {
	case err != nil:
		return "", errors.New("the URL cannot be read")
	case !slices.Contains(schemes, c.URL.Scheme):
		return "", fmt.Errorf("the URL's scheme is %q; it must be %s", c.URL.Scheme, anyOf(schemes, o.UnixPath != ""))
	case c.URL.Host == "":
		return "", errors.New("the URL names no host")
	}
	c.URL.Fragment = ""
	return socket, nil
}

func anyOf(schemes []string, unix bool) string {
	if unix {
		schemes = append(slices.Clone(schemes), "unix")
	}
	last := len(schemes) - 1
	return strings.Join(schemes[:last], ", ") + " or " + schemes[last]
}

// How long a connection is kept that nobody uses. Servers of Node and Uvicorn close theirs
// after 5 s, and a request that is in flight just then is lost: it is unknown whether it was
// read, so it is not sent again. A new connection without TLS costs little. Before servers
// with TLS there is mostly a proxy, which waits for longer.
const (
	plainIdle  = 4 * time.Second
	secureIdle = 90 * time.Second
)

func newTransport(o *ClientOptions, scheme, socket string) *http.Transport {
	d := &net.Dialer{Timeout: connectTimeout, KeepAlive: 15 * time.Second}
	t := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           d.DialContext,
		TLSClientConfig:       o.TLS.Clone(),
		TLSHandshakeTimeout:   connectTimeout,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          256,
		MaxIdleConnsPerHost:   256,
		IdleConnTimeout:       secureIdle,
		ExpectContinueTimeout: time.Second,
		DisableCompression:    o.Plain,
	}
	if scheme == "http" {
		t.IdleConnTimeout = plainIdle
	}
	if o.Proxy != nil {
		t.Proxy = o.Proxy
	}
	if socket != "" {
		t.Proxy = nil
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return d.DialContext(ctx, "unix", socket)
		}
	}
	return t
}

func checkRedirect(req *http.Request, via []*http.Request) error {
	if first := via[0]; len(via) >= maxRedirects || req.Method != first.Method || !SameOrigin(req.URL, first.URL) {
		return http.ErrUseLastResponse
	}
	return nil
}

// SameOrigin reports whether two URLs are of one server.
func SameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && httpframe.EffectivePort(a.Scheme, a.Port()) == httpframe.EffectivePort(b.Scheme, b.Port())
}

// jsonType is shared by all requests, which nobody changes.
var jsonType = []string{"application/json"}

// Do makes a request to a URL of the server, with the configured headers, and then those
// that set gives it. If body is not nil, it is JSON. The error does not name the URL.
func (c *Client) Do(ctx context.Context, method string, at *url.URL, body []byte, set func(http.Header)) (*http.Response, error) {
	var r io.Reader
	if body != nil {
		r = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, at.String(), r)
	if err != nil {
		return nil, WithoutURL(err)
	}
	for name, values := range c.header {
		req.Header[name] = values
	}
	if host := c.header.Get("Host"); host != "" {
		req.Host = host
	}
	if id := httpframe.RequestID(ctx); id != "" {
		req.Header[httpframe.HeaderRequestID] = []string{id}
	}
	if body != nil {
		req.Header["Content-Type"] = jsonType
	}
	if set != nil {
		set(req.Header)
	}
	resp, err := c.HTTP.Do(req)
	return resp, c.Explained(err, at)
}

// Acquire says that somebody uses the client's connections, until Release. Those that are
// idle are closed with the last.
func (c *Client) Acquire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open++
}

// Release undoes Acquire.
func (c *Client) Release() {
	c.mu.Lock()
	c.open--
	last := c.open == 0
	c.mu.Unlock()
	if last && c.own != nil {
		c.own.CloseIdleConnections()
	}
}

// WithoutURL returns an error of net/http without the URL, which may hold secrets.
func WithoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// ReadAll returns the body of an answer, which may have limit bytes.
func ReadAll(resp *http.Response, limit int) ([]byte, error) {
	if resp.ContentLength > int64(limit) {
		return nil, dragoman.ErrTooLarge
	}
	return httpframe.ReadAll(resp.Body, resp.ContentLength, limit)
}

// A requestError is that of a request that got no response.
type requestError struct {
	error
	outcome string
}

// NoResponse returns the error of a request that got no response, as a
// [protocol.Fault]. The server cannot have seen it if there was no connection, or
// the TLS handshake failed, or the error says so itself.
func NoResponse(err error) error {
	outcome := protocol.OutcomeUnknown
	if fault, ok := errors.AsType[protocol.Fault](err); ok {
		outcome = fault.Outcome()
	} else if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" || isTLS(err) {
		outcome = protocol.OutcomeNotSent
	}
	return &requestError{err, outcome}
}

// isTLS reports whether the handshake of TLS failed.
func isTLS(err error) bool {
	var (
		certificate *tls.CertificateVerificationError
		authority   x509.UnknownAuthorityError
		hostname    x509.HostnameError
		invalid     x509.CertificateInvalidError
		record      tls.RecordHeaderError
		alert       tls.AlertError
	)
	return errors.As(err, &certificate) || errors.As(err, &authority) || errors.As(err, &hostname) ||
		errors.As(err, &invalid) || errors.As(err, &record) || errors.As(err, &alert)
}

// UnknownOutcome returns the error of a request that the server may have seen, as a
// [protocol.Fault].
func UnknownOutcome(err error) error { return &requestError{err, protocol.OutcomeUnknown} }

// Outcome implements protocol.Fault.
func (e *requestError) Outcome() string { return e.outcome }

// Unwrap returns the reason.
func (e *requestError) Unwrap() error { return e.error }

// RetryAfter returns how long an answer asks to wait, a day at most. Zero means that
// it does not.
func RetryAfter(h http.Header) time.Duration {
	after := h.Get("Retry-After")
	if n, err := strconv.Atoi(after); err == nil {
		return time.Duration(max(0, min(n, 24*60*60))) * time.Second
	}
	if at, err := http.ParseTime(after); err == nil {
		return min(max(0, time.Until(at)), 24*time.Hour)
	}
	return 0
}

const (
	// MaxErrorBody is how much of the body of a refusal, or of one that nobody wants, is
	// read; maxErrorText is how much of it is repeated in an error.
	MaxErrorBody = 64 << 10
	maxErrorText = 256
)

// ReadStatus reads a response whose status is not a success.
func ReadStatus(resp *http.Response) *protocol.StatusError {
	e := &protocol.StatusError{
		Status:     resp.StatusCode,
		Challenges: resp.Header.Values("WWW-Authenticate"),
		AuthServer: resp.Header.Get(protocol.HeaderAuthServer),
		RetryAfter: RetryAfter(resp.Header),
	}
	if resp.Body != nil {
		// A partial body is better than none.
		e.Body, _ = io.ReadAll(io.LimitReader(resp.Body, MaxErrorBody))
	}
	kind := httpframe.MediaType(resp.Header)
	if m := e.Response(dragoman.Limits{}); m != nil {
		e.Text = oneLine(m.RPCError().Message)
	} else if kind == "text/plain" || kind == "application/json" {
		e.Text = oneLine(string(e.Body[:min(len(e.Body), 4*maxErrorText)]))
	}
	if e.Text == "" {
		e.Text = oneLine(told(e.Challenges))
	}
	if at, err := resp.Location(); err == nil && e.Status/100 == 3 {
		e.Text = "it redirects to " + placeOf(at) + ", which is not followed; use that URL if it is the server's"
	}
	if e.Status == http.StatusBadRequest && resp.TLS == nil && wantedTLS(e.Body) && resp.Request != nil {
		tls := speaksTLS(resp.Request.URL)
		e.Text = tls.Reason + "; " + tls.Advice
	}
	return e
}

// longSegment is how long a part of a path may be that is no secret.
const longSegment = 20

// placeOf returns a URL without what may be a secret: the user, the query, and parts of the
// path that are long.
func placeOf(u *url.URL) string {
	parts := strings.Split(u.EscapedPath(), "/")
	for i, part := range parts {
		if len(part) > longSegment {
			parts[i] = "…"
		}
	}
	return u.Scheme + "://" + u.Host + strings.Join(parts, "/")
}

// wantedTLS reports whether the body of a refusal is that of a server which was asked by plain
// HTTP where it speaks TLS: Go's, or nginx's.
func wantedTLS(body []byte) bool {
	return bytes.Contains(body, []byte("HTTP request to an HTTPS server")) || bytes.Contains(body, []byte("HTTP request was sent to HTTPS port"))
}

// oneLine returns the beginning of a text that a person can read, on one line and without secrets.
func oneLine(text string) string {
	return redact.Cut(redact.Text(strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")), maxErrorText)
}

// title finds that of a web page.
var title = lazy.Regexp(`(?is)<title[^>]*>([^<]+)`)

// Describe says what a body is that holds no message, with its first words.
func Describe(h http.Header, body []byte) string {
	if httpframe.MediaType(h) != "text/html" {
		return "no message: " + oneLine(redact.Line(string(body[:min(len(body), 4*maxErrorText)])))
	}
	if found := title().FindSubmatch(body); found != nil {
		return fmt.Sprintf("a web page (%s), and no message", oneLine(string(found[1])))
	}
	return "a web page, and no message"
}

// challengePart finds what a challenge says to people.
var challengePart = lazy.Regexp(`\b(error_description|scope)="([^"]*)"`)

// told returns what challenges say in plain words, if they do.
func told(challenges []string) string {
	var list []string
	for _, c := range challenges {
		for _, part := range challengePart().FindAllStringSubmatch(c, -1) {
			switch {
			case part[1] != "scope":
				list = append(list, part[2])
			case strings.Contains(c, httpframe.InsufficientScope):
				list = append(list, "the scope "+part[2]+" is needed")
			}
		}
	}
	return strings.Join(list, "; ")
}
