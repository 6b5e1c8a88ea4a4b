package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/schema"
	"github.com/dragoman-mcp/dragoman/transport/sse"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
	"github.com/dragoman-mcp/dragoman/transport/toolhttp"
	"github.com/dragoman-mcp/dragoman/transport/ws"
)

// The paths of the doors.
const (
	mcpPath      = "/mcp"
	ssePath      = "/sse"
	messagesPath = "/messages"
	wsPath       = "/ws"
	callPath     = "/call"
	healthPath   = "/healthz"
)

// A served is a server that clients are let to.
type served struct {
	name     string
	acceptor dragoman.Acceptor // takes conversations of either era
	sessions dragoman.Acceptor // takes sessions of the legacy era; nil if it is not served
	requests dragoman.Peer     // takes requests of the modern era; nil if it is not served
}

// A stopper is a door that ends what it has open before its listener does.
type stopper interface{ Shutdown(context.Context) error }

// newDoors returns what answers over HTTP: every transport on a path of its own.
func newDoors(s *settings, v *served, hosts []string, log *slog.Logger) (http.Handler, []stopper, error) {
	hosts, origins, prefix, err := s.accepted(hosts)
	if err != nil {
		return nil, nil, err
	}
	var caller func(*http.Request) string
	if s.isolation == "client" {
		caller = remoteHost
	}
	mcp := &streamable.Server{
		Sessions: v.sessions, Requests: v.requests, Hosts: hosts, Origins: origins, Caller: caller,
		MaxMessage: s.maxMessage, IdleTimeout: s.idle, Logger: log,
	}
	old := &sse.Server{Acceptor: v.acceptor, Hosts: hosts, Origins: origins, Caller: caller, MaxMessage: s.maxMessage, Logger: log}
	sockets := &ws.Server{
		Acceptor: v.acceptor, Requests: v.requests, Hosts: hosts, Origins: origins, Caller: caller, MaxMessage: s.maxMessage, Logger: log,
	}
	doors := []stopper{mcp, old, sockets}
	p := paths{at: map[string]http.Handler{
		mcpPath: mcp, ssePath: old.Stream(), messagesPath: old.Messages(), wsPath: sockets, healthPath: http.HandlerFunc(healthz),
	}}
	if v.requests != nil {
		call := &toolhttp.Server{
			Requests: v.requests, Check: new(schema.Checker).Check, Hosts: hosts, Origins: origins, Caller: caller,
			MaxMessage: s.maxMessage, Logger: log,
		}
		doors = append(doors, call)
		p.at[callPath] = http.StripPrefix(callPath, call)
		p.at[callPath+"/"] = p.at[callPath]
	}
	p.also(s.mcpPath, mcpPath)
	p.also(s.ssePath, ssePath)
	p.also(s.messagePath, messagesPath)
	p.also(s.healthPath, healthPath)
	if s.ssePath != "" || s.messagePath != "" { // clients are told the one that the user knows
		old.MessagesPath = prefix + messagesPath
		if s.messagePath != "" {
			old.MessagesPath = prefix + s.messagePath
		}
	}
	mux := http.NewServeMux()
	for path, h := range p.at {
		mux.Handle(path, h)
	}
	return mux, doors, p.err
}

// paths says who answers where.
type paths struct {
	at  map[string]http.Handler
	err error // the first path that cannot be had
}

// also mounts what answers at one path at another, too.
func (p *paths) also(path, as string) {
	_, taken := p.at[path]
	switch {
	case path == "" || path == as || p.err != nil:
	case !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "{} ?#"):
		p.err = fmt.Errorf("the path %q does not begin with a slash, or has characters that it may not have", path)
	case taken || strings.HasPrefix(path, callPath+"/"):
		p.err = fmt.Errorf("the path %s is taken; choose another", path)
	default:
		p.at[path] = p.at[as]
	}
}

// accepted returns what is accepted in Host and Origin, and the path of the
// public URL.
func (s *settings) accepted(hosts []string) (h, origins []string, prefix string, err error) {
	for _, o := range s.origins {
		if u, err := url.Parse(o); o != "*" && (err != nil || u.Scheme == "" || u.Host == "" || strings.Trim(u.Path, "/") != "") {
			return nil, nil, "", fmt.Errorf("--allow-origin %q is no origin: write it as https://app.example.com, without a path", o)
		}
	}
	if s.publicURL == "" {
		return hosts, s.origins, "", nil
	}
	u, err := url.Parse(s.publicURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" || u.User != nil {
		return nil, nil, "", errors.New("--public-url must look like https://host or https://host/path")
	}
	return append(hosts, u.Hostname()), append(s.origins, u.Scheme+"://"+u.Host), strings.TrimSuffix(u.Path, "/"), nil
}

// remoteHost tells clients apart by their address, as long as there is nothing
// better.
func remoteHost(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr // a Unix socket
	}
	return host
}

const (
	// headerTimeout is how long a client may take over the headers of a
	// request, idleTimeout how long a connection may stay unused, maxHeader how
	// large the headers may be, stopTimeout how long requests under way may take
	// when we stop.
	headerTimeout = 5 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 16 << 10
	stopTimeout   = 10 * time.Second
)

func newHTTPServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// healthz says that we are there.
func healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, "ok\n")
}
