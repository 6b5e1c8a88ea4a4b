// Package credential authenticates to servers that need no sign-in: by a token from a file, or
// headers that a command prints. It also has the client certificates, CAs and the proxy that a
// server is reached with. Package upstream wraps the transports of a server with it.
//
// A token file is checked for changes before each request; while it is empty the old token is
// used, for a second at most. The command runs once for all requests that wait for it, 10 s at
// most. A 401 makes either read once more.
package credential

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/util/lazy"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpclient"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// maxText is how long a token file, or what a command prints, may be.
const maxText = 64 << 10

// Config says where credentials come from: a TokenFile or a Command.
type Config struct {
	// Server is the URL of the server. Credentials go to its origin alone.
	Server string

	// TokenFile holds a bearer token. It is read again when it has changed, and when the
	// server refuses the token.
	TokenFile string

	// Command prints a token or headers. No shell is used.
	Command []string

	// Vet, if not nil, is shown the command before every run, and may refuse it.
	Vet func(*exec.Cmd) error

	// Logger is told what the command says on standard error, at debug level. If nil,
	// nobody is.
	Logger *slog.Logger
}

// A Source has the credentials for one server. Any number of goroutines may use it.
type Source struct {
	server *url.URL
	from   getter
}

// A getter gets credentials.
type getter interface {
	// current returns the credentials to send.
	current(ctx context.Context) (*value, error)

	// renew returns credentials in place of some that the server has refused, or the same
	// if there are no others.
	renew(ctx context.Context, refused *value) (*value, error)

	// peek returns the credentials that were used last, or nil.
	peek() *value

	close()
}

// A value is the credentials at some time. It is never changed.
type value struct {
	header http.Header
	stale  time.Time // when others are to be had; zero means never
}

// New returns a source, which its caller closes. Nothing is read or run yet.
func New(c *Config) (*Source, error) {
	server, err := originOf(c.Server)
	if err != nil {
		return nil, err
	}
	log := c.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.TokenFile != "" && len(c.Command) > 0:
		return nil, errors.New("a token file and a command for tokens are configured; remove one of them")
	case c.TokenFile != "":
		return &Source{server, &tokenFile{path: c.TokenFile}}, nil
	case len(c.Command) > 0 && c.Command[0] != "":
		return &Source{server, newHelper(c.Command, c.Vet, log)}, nil
	}
	return nil, errors.New("no token file and no command for tokens is configured")
}

// originOf returns the origin of a server as its requests have it.
func originOf(server string) (*url.URL, error) {
	if strings.HasPrefix(server, "unix://") || strings.HasPrefix(server, "http+unix:") {
		return &url.URL{Scheme: "http", Host: "localhost"}, nil
	}
	u, err := url.Parse(server)
	if err != nil || u.Host == "" || !slices.Contains([]string{"http", "https", "ws", "wss"}, u.Scheme) {
		return nil, errors.New("a token file and a command for tokens are for servers that are reached by HTTP or WebSocket")
	}
	return &url.URL{Scheme: strings.Replace(u.Scheme, "ws", "http", 1), Host: u.Host}, nil
}

// Close ends a command that is running.
func (s *Source) Close() { s.from.close() }

// Secrets returns what must not be shown of the credentials that were used last.
func (s *Source) Secrets() []string {
	v := s.from.peek()
	if v == nil {
		return nil
	}
	var list []string
	for _, values := range v.header {
		list = append(list, values[0])
		if _, token, ok := strings.Cut(values[0], " "); ok {
			list = append(list, token) // without Bearer
		}
	}
	return list
}

// Transport returns a round tripper that sends the credentials with every request to the
// server. If they are refused by status 401 and there are others, a request whose body can
// be had again is repeated once.
func (s *Source) Transport(base http.RoundTripper) http.RoundTripper { return &transport{s, base} }

type transport struct {
	source *Source
	base   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if !httpclient.SameOrigin(req.URL, t.source.server) {
		return t.base.RoundTrip(req) // they are for nobody else
	}
	v, err := t.source.from.current(req.Context())
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // as a RoundTripper must
		}
		return nil, err
	}
	resp, err := t.send(req, req.Body, v)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	next, failed := t.source.from.renew(req.Context(), v)
	if failed != nil {
		discard(resp)
		return nil, failed
	}
	body := req.Body
	switch {
	case next.same(v), body != nil && body != http.NoBody && req.GetBody == nil:
		return resp, nil
	case req.GetBody != nil:
		if body, err = req.GetBody(); err != nil {
			return resp, nil //nolint:nilerr // the refusal is the answer
		}
	}
	discard(resp)
	return t.send(req, body, next)
}

// send sends a request with credentials.
func (t *transport) send(req *http.Request, body io.ReadCloser, v *value) (*http.Response, error) {
	clone := *req
	clone.Body, clone.Header = body, req.Header.Clone()
	maps.Copy(clone.Header, v.header)
	return t.base.RoundTrip(&clone)
}

func discard(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, httpclient.MaxErrorBody) // the connection is used again, or not
	_ = resp.Body.Close()
}

func (v *value) same(other *value) bool {
	return maps.EqualFunc(v.header, other.header, slices.Equal[[]string])
}

// token is what can be sent as a bearer token.
var token = lazy.Regexp(`^[!-~]+$`)

// bearer returns the value of a token.
func bearer(text string) (*value, error) {
	if !token().MatchString(text) {
		return nil, errors.New("it must be one token without white space")
	}
	return &value{header: http.Header{"Authorization": {"Bearer " + text}}}, nil
}

// A fault says why there are no credentials. It has none in it.
type fault struct {
	text string
	err  error // may be nil
}

// Error implements error.
func (f *fault) Error() string { return f.text }

// Outcome implements [protocol.Fault]: the request was not sent.
func (f *fault) Outcome() string { return protocol.OutcomeNotSent }

// Unwrap returns the reason.
func (f *fault) Unwrap() error { return f.err }
