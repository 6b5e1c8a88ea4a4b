package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/gateway"
)

// healthPath says that we are there.
const healthPath = gateway.HealthPath

// A served is a server that clients are let to.
type served struct {
	name string
	gateway.Served
}

// newDoors returns what answers over HTTP: every transport on a path of its own.
func newDoors(s *settings, v *served, hosts []string, log *slog.Logger) (http.Handler, *gateway.Doors, error) {
	hosts, origins, prefix, err := s.accepted(hosts)
	if err != nil {
		return nil, nil, err
	}
	opts := &gateway.DoorOptions{Hosts: hosts, Origins: origins, MaxMessage: s.maxMessage, IdleTimeout: s.idle, Logger: log}
	if s.ssePath != "" || s.messagePath != "" { // clients are told the one that the user knows
		opts.MessagesPath = prefix + gateway.MessagesPath
		if s.messagePath != "" {
			opts.MessagesPath = prefix + s.messagePath
		}
	}
	doors := gateway.NewDoors(&v.Served, opts)
	p := paths{at: map[string]http.Handler{healthPath: http.HandlerFunc(healthz)}}
	for _, path := range []string{gateway.MCPPath, gateway.SSEPath, gateway.MessagesPath, gateway.WSPath, gateway.CallPath, gateway.CallPath + "/"} {
		p.at[path] = doors
	}
	p.also(s.mcpPath, gateway.MCPPath, doors)
	p.also(s.ssePath, gateway.SSEPath, doors)
	p.also(s.messagePath, gateway.MessagesPath, doors)
	p.also(s.healthPath, healthPath, doors)
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
func (p *paths) also(path, as string, doors *gateway.Doors) {
	_, taken := p.at[path]
	switch {
	case path == "" || path == as || p.err != nil:
	case !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "{} ?#"):
		p.err = fmt.Errorf("the path %q does not begin with a slash, or has characters that it may not have", path)
	case taken || strings.HasPrefix(path, gateway.CallPath+"/"):
		p.err = fmt.Errorf("the path %s is taken; choose another", path)
	default:
		if p.at[path], _ = doors.At(as); p.at[path] == nil {
			p.at[path] = p.at[as]
		}
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

const (
	// headerTimeout is how long a client may take over the headers of a
	// request, idleTimeout how long a connection may stay unused, maxHeader how
	// large the headers may be.
	headerTimeout = 5 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 16 << 10
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
