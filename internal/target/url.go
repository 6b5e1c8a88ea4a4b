package target

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/dragoman-mcp/dragoman/transport/ws"
)

// IsURL reports whether an argument is a URL and not the name of a program.
func IsURL(arg string) bool {
	scheme, _, ok := strings.Cut(arg, "://")
	if ok && scheme != "" && !strings.ContainsAny(scheme, `/\ `) {
		return true
	}
	_, ok = cutAny(arg, "unix:", "tcp:", "http+unix:")
	return ok
}

// Reaches reports whether a URL is of a kind that leads to a server.
func Reaches(at string) bool {
	return slices.Contains([]string{"http", "https", "ws", "wss", "unix", "tcp", "http+unix"}, Scheme(at))
}

// Scheme returns the scheme of what IsURL, in lower case.
func Scheme(at string) string {
	scheme, _, _ := strings.Cut(at, ":")
	return strings.ToLower(scheme)
}

// IsLines reports whether a URL means a socket that carries messages alone.
func IsLines(at string) bool {
	switch Scheme(at) {
	case "tcp":
		return true
	case "unix":
		return !strings.HasPrefix(at, "unix://")
	}
	return false
}

// IsHTTP reports whether a URL is an http or https one.
func IsHTTP(at string) bool { return slices.Contains([]string{"http", "https"}, Scheme(at)) }

func newURL(s *Spec) (*Target, error) {
	if err := s.checkURL(); err != nil {
		return nil, err
	}
	t := &Target{Name: s.Name, How: Scheme(s.URL)}
	if t.Name == "" {
		t.Name = NameOfURL(s.URL)
	}
	var err error
	switch scheme := Scheme(s.URL); {
	case IsLines(s.URL):
		t.Dialer, err = newSocket(s)
	case scheme == "unix", scheme == "http+unix":
		err = t.reachUnix(s)
	case scheme == "ws", scheme == "wss", s.Transport == "ws":
		err = t.reachWebSocket(s)
	case scheme == "http", scheme == "https":
		err = t.reachHTTP(s)
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// transports are the names of transports that fit each scheme, besides none.
var transports = map[string][]string{
	"http":      slices.Concat([]string{"http", "sse", "ws"}, Orders),
	"https":     slices.Concat([]string{"http", "sse", "ws"}, Orders),
	"ws":        {"ws"},
	"wss":       {"ws"},
	"tcp":       {"tcp"},
	"unix":      {"unix"},
	"http+unix": {"http"},
}

// checkURL refuses what does not go together.
func (s *Spec) checkURL() error {
	scheme := Scheme(s.URL)
	fit, known := transports[scheme]
	if strings.HasPrefix(s.URL, "unix://") {
		fit = transports["http+unix"]
	}
	switch {
	case !known && !IsURL(s.URL):
		return errUnread
	case !known:
		return &SpecError{"URL", fmt.Sprintf("unknown scheme %q: use http, https, ws, wss, unix or tcp", scheme)}
	case len(s.Env) > 0 || len(s.Inherit) > 0:
		return &SpecError{"Env", "variables are for commands, and the server is a URL; to send it a secret use a header"}
	case s.Dir != "":
		return &SpecError{"Dir", "a directory is for commands, and the server is a URL"}
	case s.User != "" || s.Limits != stdio.ResourceLimits{}:
		return &SpecError{"User", "a user and limits are for commands, and the server is a URL"}
	case IsLines(s.URL) && len(s.Header) > 0:
		return &SpecError{"Header", "headers are for HTTP and WebSocket; " + scheme + ": carries messages alone"}
	case s.Transport != "" && s.Transport != "auto" && !slices.Contains(fit, s.Transport):
		if !slices.Contains(transports["http"], s.Transport) && !slices.Contains([]string{"stdio", "tcp", "unix"}, s.Transport) {
			fit = Orders // of all names, those that are for choice
			return &SpecError{"Transport", fmt.Sprintf("unknown transport %q: use %s", s.Transport, strings.Join(fit, ", "))}
		}
		return &SpecError{"Transport", fmt.Sprintf("transport %q does not fit a URL that begins with %s:; leave it out or use %s", s.Transport, scheme, strings.Join(fit, ", "))}
	}
	return nil
}

// errUnread is about a URL that cannot be dialled. It does not repeat it.
var errUnread = &SpecError{"URL", "the URL of the server cannot be read; it looks like https://host/mcp"}

func checkHost(text string) error {
	if u, err := url.Parse(text); err != nil || u.Hostname() == "" {
		return errUnread
	}
	return nil
}

func newSocket(s *Spec) (dragoman.Dialer, error) {
	a := &stdio.Address{Options: &stdio.Options{Framing: s.Framing, MaxMessage: s.MaxMessage, Logger: s.Logger}}
	if path, ok := strings.CutPrefix(s.URL, "unix:"); ok {
		if path == "" {
			return nil, &SpecError{"URL", "unix: needs the path of a socket, as in unix:/run/server.sock"}
		}
		a.Network, a.Address = "unix", path
		return a, nil
	}
	_, rest, _ := strings.Cut(s.URL, ":")
	a.Network, a.Address = "tcp", strings.TrimPrefix(rest, "//")
	if _, port, err := net.SplitHostPort(a.Address); err != nil || port == "" {
		return nil, &SpecError{"URL", "tcp: needs a host and a port, as in tcp:127.0.0.1:9000"}
	}
	return a, nil
}

func (t *Target) reachWebSocket(s *Spec) error {
	t.Dialer = &ws.Client{URL: s.URL, Header: s.Header, Wrap: s.Wrap, TLS: s.TLS, Proxy: s.Proxy, MaxMessage: s.MaxMessage, Logger: s.Logger}
	return checkHost(s.URL)
}

// reachUnix makes a server behind HTTP on a Unix socket.
func (t *Target) reachUnix(s *Spec) error {
	at := s.URL
	if path, ok := strings.CutPrefix(at, "http+unix:"); ok {
		abs, err := filepath.Abs(path)
		if err != nil || path == "" {
			return &SpecError{"URL", "http+unix: needs the path of a socket, as in http+unix:/run/server.sock"}
		}
		at = "unix://" + abs
	}
	if !strings.HasPrefix(at, "unix:///") {
		return &SpecError{"URL", "unix:// needs an absolute path, as in unix:///run/server.sock:/mcp; without // messages go over the socket as lines"}
	}
	t.How = "http on a Unix socket"
	client := newStreamable(s, at)
	t.Dialer, t.Probe, t.Stateless = client, s.bounded(probeOf(client)), true
	return nil
}
