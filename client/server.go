package client

import (
	"cmp"
	"crypto/tls"
	"errors"
	"net/http"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// A Server is the server that Connect connects to: a Command, a URL, or whatever a
// Dialer of the caller's own reaches. Exactly one of the three is set.
type Server struct {
	// Name is for people and logs. If empty, it is made from the command or the
	// URL.
	Name string

	// Command is the program and its arguments. No shell is used.
	Command []string

	// Dir is the directory in which it is started; empty means ours. Env is
	// added to its environment as NAME=value, and InheritEnv names variables of
	// ours that are passed on beside the usual few; "*" passes all.
	Dir             string
	Env, InheritEnv []string

	// User is who the command runs as, and Limits what its processes may use,
	// see [stdio.Command].
	User   string
	Limits stdio.ResourceLimits

	// OnStderr is given the lines that the command writes to its standard error,
	// as they are: they may hold secrets. If nil, they are logged at debug level.
	OnStderr func(line string)

	// URL is where the server is: http, https, ws, wss, tcp:HOST:PORT, unix:PATH
	// for messages alone, unix:///PATH:/path or http+unix:PATH for HTTP on a Unix
	// socket.
	URL string

	// Header is sent with every HTTP request and every WebSocket handshake.
	Header http.Header

	// Wrap, if not nil, returns what makes HTTP requests and WebSocket handshakes in place
	// of the given, which it uses: the Transport of an oauth.Source signs in. TLS
	// configures connections to https and wss URLs.
	Wrap func(http.RoundTripper) http.RoundTripper
	TLS  *tls.Config

	// Transport is how the server is spoken to. If empty, that is found out. For
	// http and https it may be "http-only" (Streamable HTTP), "sse-only" (HTTP+SSE),
	// "http-first", "sse-first" or "ws".
	Transport string

	// Framing is how messages are separated on a stream of a command or a socket.
	Framing stdio.Framing

	// MaxMessage is the largest message in bytes. Zero means
	// [dragoman.DefaultMaxMessage], negative no limit. A Dialer has its own.
	MaxMessage int

	// Dialer opens conversations with the server. What else is said here about how
	// it is reached does not apply to it.
	Dialer dragoman.Dialer
}

// target returns the server as something that can be dialed.
func (s *Server) target(o *Options) (*target.Target, error) {
	if s.Dialer != nil {
		if len(s.Command) > 0 || s.URL != "" {
			return nil, errors.New("client: a Dialer and a command or a URL are named; name one server")
		}
		if t, ok := s.Dialer.(*target.Target); ok {
			return t, nil
		}
		return &target.Target{Name: cmp.Or(s.Name, "the server"), Dialer: s.Dialer}, nil
	}
	t, err := target.New(&target.Spec{
		Name: s.Name, Command: s.Command, Dir: s.Dir, Env: s.Env, Inherit: s.InheritEnv, User: s.User, Limits: s.Limits, OnStderr: s.OnStderr,
		URL: s.URL, Header: s.Header, Wrap: s.Wrap, TLS: s.TLS, Transport: s.Transport, Framing: s.Framing, MaxMessage: s.MaxMessage,
		DialTimeout: max(o.ConnectTimeout, 0), Logger: o.Logger,
	})
	if e, ok := errors.AsType[*target.SpecError](err); ok {
		return nil, errors.New("client: " + e.Reason)
	}
	return t, err
}
