// Package target makes a dialer of a command or a URL, and knows how to detect the era of that
// server. The client, the commands, the inspectors and the upstreams use it.
package target

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"net/url"
	"os/exec"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// CommandProbeTimeout is how long a server that is a command may take over the first
// request before a handshake is tried, too: some cannot bear a method that they do
// not know.
const CommandProbeTimeout = 5 * time.Second

// InstallProbeTimeout is the same for a command that may have to install the server
// first: a second process would install it once more, beside the first.
const InstallProbeTimeout = 30 * time.Second

// A Spec names a server: a Command or a URL.
type Spec struct {
	// Name is for people and logs. If empty, it is made from the command or the
	// URL.
	Name string

	// Command is the program and its arguments. No shell is used.
	Command []string

	// Dir is the directory in which it is started; empty means ours. Env is
	// added to its environment as NAME=value, and Inherit names variables of
	// ours that are passed on beside the usual few; "*" passes all.
	Dir          string
	Env, Inherit []string

	// User is who the command runs as, Limits what its processes may use, and Sandbox
	// what they can reach. Vet may refuse it. See [stdio.Command].
	User    string
	Limits  stdio.ResourceLimits
	Sandbox *stdio.Sandbox
	Vet     func(*exec.Cmd) error

	// URL is where the server is: http, https, ws, wss, tcp:HOST:PORT,
	// unix:PATH for messages alone, unix:///PATH:/path or http+unix:PATH for
	// HTTP on a Unix socket.
	URL string

	// Header is sent with every HTTP request and every WebSocket handshake.
	Header http.Header

	// Wrap, if not nil, returns what makes HTTP requests and WebSocket handshakes in
	// place of the given, which it uses.
	Wrap func(http.RoundTripper) http.RoundTripper

	// TLS configures connections to https and wss URLs, and Proxy says through which proxy
	// HTTP requests and WebSocket handshakes go. If Proxy is nil, the environment does.
	TLS   *tls.Config
	Proxy func(*http.Request) (*url.URL, error)

	// Transport is how the server is spoken to: "stdio" for a command; "http"
	// (Streamable HTTP), "sse", "ws", "tcp" or "unix" for a URL; or one of
	// [Orders] for http and https. "" and "auto" find out.
	Transport string

	// Framing is how messages are told apart on a stream.
	Framing stdio.Framing

	// MaxMessage is the largest message in bytes. Zero means
	// [dragoman.DefaultMaxMessage], negative no limit.
	MaxMessage int

	// DialTimeout bounds the Probe of a Target. Zero means
	// era.DefaultDialTimeout.
	DialTimeout time.Duration

	// OnStderr is given the lines that a command writes to its standard error,
	// as they are: they may hold secrets. If nil, they go to Logger at debug
	// level.
	OnStderr func(line string)

	// OnText is given the lines that a command writes to its standard output and that
	// are no messages. They may hold secrets. If nil, the first one goes to Logger as a
	// warning.
	OnText func(line string)

	// Logger receives what the transport has to say. If nil, nothing is logged.
	Logger *slog.Logger
}

// A Target is a server that can be dialled.
type Target struct {
	// Name is for people and logs, and How says how the server is reached, as
	// "command" or "https". Neither has secrets in it.
	Name, How string

	dragoman.Dialer

	// Probe finds out the server's era. If nil, a conversation does, within
	// ProbeTimeout; zero means era's default.
	Probe        func(context.Context) (protocol.Era, error)
	ProbeTimeout time.Duration

	// Process tells that dialling starts a process, and Stateless that in the modern
	// era each request stands by itself, so that a conversation holds nothing.
	Process, Stateless bool
}

// A SpecError says what is wrong with a Spec. It repeats no URL, header or
// variable, which may hold a secret.
type SpecError struct {
	Field  string // of the Spec
	Reason string // what is wrong, and what to do
}

// Error implements error.
func (e *SpecError) Error() string { return "target: " + e.Reason }

// New makes the server that s names. Nothing is dialled.
func New(s *Spec) (*Target, error) {
	switch {
	case len(s.Command) > 0 && s.URL != "":
		return nil, &SpecError{"URL", "a URL and a command are named; name one server"}
	case len(s.Command) > 0:
		return newCommand(s)
	case s.URL != "":
		return newURL(s)
	}
	return nil, &SpecError{"Command", "no server is named; give a command or a URL"}
}
