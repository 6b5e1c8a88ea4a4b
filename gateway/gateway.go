// Package gateway embeds the whole of Dragoman in a Go program: it starts and reaches the
// servers of a configuration, restarts them, and serves each by itself and all of them as one,
// over every transport and in either era.
//
//	config, err := gateway.Load("dragoman.yaml")
//	g, err := gateway.New(config, nil)
//	defer g.Shutdown(ctx)
//	err = http.ListenAndServe("127.0.0.1:8808", g.Handler(nil, nil))
//
// Each server is at /servers/NAME, all of them together are at the root, and those of a group
// are at /groups/NAME. Below each of these are /mcp (Streamable HTTP), /sse with /messages
// (HTTP+SSE), /ws (WebSocket) and /call (tool calls over plain HTTP). /healthz, /readyz and
// /status report the health of the gateway.
//
// A [Gateway] opens no sockets. docs/config.md describes the files, docs/gateway.md what the
// gateway does with them.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman"
	core "github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/observe"
)

// A Config is what the files of a configuration say.
type Config struct {
	files    []string
	file     *config.File
	problems string
}

// Load reads the files of a configuration and merges them in their order: our own
// format, or that of another program that has MCP servers. Without a name it is
// dragoman.yaml, dragoman.yml, dragoman.json, .mcp.json or mcp.json of this directory.
//
// A server with errors is left out, see Problems; any other error fails Load. The error
// lists all of them with their places.
func Load(files ...string) (*Config, error) {
	if len(files) == 0 {
		found, ok := config.Find(".")
		if !ok {
			return nil, errors.New("gateway: there is no configuration in this directory; name a file")
		}
		files = []string{found}
	}
	paths := make([]string, len(files)) // they are read again, from wherever we are then
	for i, name := range files {
		path, err := filepath.Abs(name)
		if err != nil {
			return nil, err
		}
		paths[i] = path
	}
	file, report := config.Load(nil, paths...)
	if err := report.Refused(); err != nil {
		return nil, err
	}
	if len(file.Servers)+len(file.Broken) == 0 {
		return nil, fmt.Errorf("gateway: there is no server in %s", strings.Join(files, ", "))
	}
	return &Config{files: paths, file: file, problems: report.Error()}, nil
}

// Problems returns what is wrong with single servers and what looks like a mistake, for
// people to read. It is empty if there is nothing.
func (c *Config) Problems() string { return c.problems }

// Options configures a Gateway. The zero value is ready to use.
type Options struct {
	// Name and Version are how the gateway introduces itself. If Name is empty, they
	// are "dragoman" and "0".
	Name, Version string

	// State is the directory for what outlives the process: sessions, events, lists. If
	// empty, the configuration names it; if that does not either, nothing does.
	State string

	// OnStderr is given the lines that servers write to their standard error, as they
	// are: they may hold secrets. It must not block.
	OnStderr func(server, line string)

	// Observers are called after those that the configuration asks for, in their order.
	Observers []Observer

	// Logger receives what happens. If nil, nothing is logged.
	Logger *slog.Logger
}

// A Gateway serves the servers of a configuration. Any number of goroutines may use it
// at once.
type Gateway struct{ core *core.Gateway }

// New starts the servers of a configuration. It does not wait for them: requests for a
// server wait until it is there. opts may be nil. The caller calls Shutdown.
func New(c *Config, opts *Options) (*Gateway, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Name == "" {
		o.Name, o.Version = "dragoman", "0"
	}
	g, err := observe.NewGateway(&core.Options{
		Name: o.Name, Version: o.Version, State: o.State, Stderr: o.OnStderr, Logger: o.Logger, Observers: o.Observers,
		Load: func() (*config.File, *config.Report) { return config.Load(nil, c.files...) },
	}, c.file, slog.LevelInfo)
	if err != nil {
		return nil, err
	}
	return &Gateway{g}, nil
}

// Handler serves clients over HTTP. Requests must name one of hosts or this machine in
// their Host header, and one of origins or this machine in their Origin header, if they
// have one; "*" accepts any.
func (g *Gateway) Handler(hosts, origins []string) http.Handler {
	return g.core.Handler(&core.HandlerOptions{Hosts: hosts, Origins: origins})
}

// Acceptor takes conversations of either era with all servers as one, for transports that
// the caller serves, such as [github.com/dragoman-mcp/dragoman/transport/stdio.Serve].
func (g *Gateway) Acceptor() dragoman.Acceptor { return g.core.Backend().Acceptor }

// Shutdown takes no new work, waits for requests in flight until ctx ends, ends all
// streams in good order and stops the servers. own are the Shutdown functions of
// transports that use Acceptor; they are called with ours, before the servers are stopped. The
// error says that something was cut.
func (g *Gateway) Shutdown(ctx context.Context, own ...func(context.Context) error) error {
	return g.core.Shutdown(ctx, own...)
}

// Watch reloads the configuration whenever one of its files has changed, until ctx ends.
func (g *Gateway) Watch(ctx context.Context) { g.core.Watch(ctx) }

// Changes is what a reload has changed, by the names of servers.
type Changes struct {
	Added, Replaced, Removed, Unchanged []string

	// Failed are the servers whose new configuration has errors, and what these are. They
	// continue as they were, or are left out if they were not there.
	Failed map[string]string

	// NeedsRestart are the keys of the files that take effect in a new Gateway only.
	NeedsRestart []string
}

// Reload reads the configuration again. Servers that are unchanged continue undisturbed; those
// that are replaced or removed finish what is in flight. If the error is not nil, nothing
// has changed.
func (g *Gateway) Reload() (*Changes, error) {
	r, err := g.core.Reload()
	if err != nil {
		return nil, err
	}
	c := &Changes{
		Added: r.Changes.Added, Replaced: r.Changes.Replaced, Removed: r.Changes.Removed, Unchanged: r.Changes.Kept,
		NeedsRestart: r.Later, Failed: make(map[string]string, len(r.LeftOut)),
	}
	for _, left := range r.LeftOut {
		c.Failed[left.Server] = left.Error
	}
	return c, nil
}

// A Status says how a gateway is. It has no secrets in it, but tells how servers are run
// and what they said.
type Status struct {
	Draining bool // Shutdown has been called
	Servers  []ServerStatus
	Groups   []GroupStatus

	// StateError says why what should outlive the process is not written, while that lasts.
	StateError string
}

// A ServerStatus says how a server is.
type ServerStatus struct {
	Name          string
	State         string // idle, starting, ready, degraded, backing off, stopped or disabled
	Since         time.Time
	Era, Revision string // empty while they are not known
	LastError     string
	Restarts      int

	Tools, Prompts, Resources int // how many it offers
	InFlight, Waiting         int // requests
}

// A GroupStatus says which servers a group has, and the path of its Streamable HTTP.
type GroupStatus struct {
	Name, Path string
	Servers    []string
}

// Status returns how the gateway is.
func (g *Gateway) Status() *Status {
	now := g.core.Status()
	s := &Status{Draining: now.Draining}
	for i := range now.Servers {
		u := &now.Servers[i]
		s.Servers = append(s.Servers, ServerStatus{
			Name: u.Name, State: string(u.State), Since: u.Since, Era: u.Era, Revision: u.Revision, LastError: u.LastError, Restarts: u.Restarts,
			Tools: u.Tools, Prompts: u.Prompts, Resources: u.Resources, InFlight: u.InFlight, Waiting: u.Waiting,
		})
	}
	for _, group := range now.Groups {
		s.Groups = append(s.Groups, GroupStatus(group))
	}
	if f := now.StateFailure; f != nil {
		s.StateError = f.Error
	}
	return s
}
