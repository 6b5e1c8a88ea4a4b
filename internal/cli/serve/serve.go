// Package serve has the commands that serve MCP to clients: run, serve, connect and the
// built-in server. Each of them makes a gateway: serve from files, run and connect from a
// configuration in memory that their flags describe (single.go). That gateway has no
// connection of its own to the server, so one client means one process.
//
// The package owns the listeners, standard input and output, and the shutdown. Addresses are
// opened before a server is started, so a taken port costs no process. At the end endpoints
// close first, then connections, then processes; a second signal skips the wait. With
// NOTIFY_SOCKET a service manager is notified (notify.go).
package serve

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/cli/control"
	"github.com/dragoman-mcp/dragoman/internal/cli/flags"
	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/gateway/upstream"
	"github.com/dragoman-mcp/dragoman/internal/observe"
	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
	"github.com/dragoman-mcp/dragoman/oauth"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/spf13/cobra"
)

// serveOptions is what the command line of serve says.
type serveOptions struct {
	files     []string
	listen    []string
	endpoints flags.ListenFlags
	tokenFile string
	stdio     bool
	state     string
	socket    string
	drain     time.Duration
	noWatch   bool
}

// ServeCommand is dragoman serve.
func ServeCommand() *cobra.Command {
	s := &serveOptions{}
	c := &cobra.Command{
		Use:   "serve [flags] [FILE...]",
		Short: "Serve all servers of a configuration, each by itself and all as one",
		Long: `Start and reach all servers of a configuration, keep them up, and let clients of every
transport and revision to them.

The file may be of our own format (see docs/config.md) or of another program that has
MCP servers: Claude, VS Code, Cursor, Windsurf, Zed, Codex, Gemini CLI and others.
Several files are merged in their order. Without one it is dragoman.yaml, dragoman.yml,
dragoman.json, .mcp.json or mcp.json of this directory.

Each server is at /servers/NAME, all of them together at the root, and those of a group
at /groups/NAME; below each of these are /mcp (Streamable HTTP), /sse with /messages
(HTTP+SSE), /ws (WebSocket) and /call (tool calls over plain HTTP). /healthz, /readyz and
/status tell how we are.

A server with an error in the file is left out, and the others are served.

The files are read again when they change, on SIGHUP and by "dragoman reload". Servers
that are unchanged continue undisturbed, and so do those whose new configuration has errors;
with an error that is no server's, nothing changes. We stop on SIGINT and SIGTERM, after
the requests in flight, which may take as long as --drain says; a second signal ends them.`,
		Example: `  dragoman serve
  dragoman serve dragoman.yaml --listen 127.0.0.1:9000
  dragoman serve --stdio ~/.cursor/mcp.json`,
		RunE: func(c *cobra.Command, files []string) error {
			if err := flags.CheckFiles(c, files); err != nil {
				return err
			}
			s.files = files
			return s.run(c)
		},
	}
	f := c.Flags()
	f.StringArrayVar(&s.listen, "listen", nil, "`address` to listen on, instead of those of the file: HOST:PORT or http+unix:PATH for HTTP, tcp:HOST:PORT or unix:PATH for lines; port 0 picks a free one (repeatable, default "+flags.DefaultListen+")")
	f.BoolVar(&s.stdio, "stdio", false, "serve standard input and output until that ends, and listen only where --listen says")
	f.StringVar(&s.tokenFile, "token-file", "", flags.TokenFileUsage)
	f.StringVar(&s.state, "state", "", "`directory` for what outlives us: sessions, events, lists")
	flags.AddDuration(f, &s.drain, "drain", "", flags.DefaultDrain, flags.DrainUsage)
	f.BoolVar(&s.noWatch, "no-watch", false, "do not read the files again when they change")
	f.Bool("debug", false, term.DebugUsage)
	s.endpoints.Add(f)
	control.AddFlag(f, &s.socket)
	return c
}

// run serves the files until the context ends, and says how that goes.
func (s *serveOptions) run(c *cobra.Command) (err error) {
	if s.files, err = control.Files(s.files); err != nil {
		return err
	}
	keepPrivate() // for good: servers write what they are told in confidence
	load := func() (*config.File, *config.Report) {
		file, report := config.Load(nil, s.files...)
		flags.UseTokenFile(file, s.tokenFile)
		return file, report
	}
	file, report := load()
	v, err := term.ConsoleOf(c, "", file)
	if err != nil {
		return err
	}
	v.Out.Start()
	return v.Finish(s.serve(c, load, file, report, v))
}

// serve serves a file until the context ends.
func (s *serveOptions) serve(c *cobra.Command, load func() (*config.File, *config.Report), file *config.File, report *config.Report, v *term.Console) error {
	if err := s.report(file, report, v); err != nil {
		return err
	}
	LimitMemory(int64(file.Limits.Memory))
	listeners, err := s.openListeners(c.Context(), file, v)
	if err != nil {
		return err
	}
	control, err := control.Open(c.Context(), s.socket, s.files)
	switch {
	case err != nil && s.socket != "":
		closeListeners(listeners)
		return err
	case err != nil:
		v.Warnf("this gateway cannot be controlled: %v", err)
	default:
		defer control.Close()
	}
	g, err := observe.NewGateway(&gateway.Options{
		Name: "dragoman", Version: term.Version(), Files: s.files, Load: s.reload(load, file, listeners),
		Applied: v.Level.Apply,
		State:   s.state, Cache: flags.CacheDirectory(), SignIn: s.signIn(v), Logger: v.Log,
	}, file, slog.LevelInfo)
	if err != nil {
		closeListeners(listeners)
		return err
	}
	if control != nil {
		control.Serve(g, v)
	}
	f := &ingress{
		listeners: listeners,
		auth:      &file.Auth,
		handler: func(e *listener) http.Handler {
			return g.Handler(&gateway.HandlerOptions{Hosts: e.hosts(), Origins: e.rules.Origins, Open: e.rules.Auth == "none"})
		},
		acceptor:     g.Acceptor(),
		socketCaller: g.SocketCaller,
		room:         g.ConnRoom(),
		options:      &stdio.Options{MaxMessage: int(file.Limits.Message), Logger: v.Log},
		stdio:        s.stdio || slices.ContainsFunc(file.Listen, isStdio) && len(s.listen) == 0,
		shutdown:     g.Shutdown,
		drain:        s.drain,
	}
	s.announce(f, g.Backend(), file, v)
	stop := s.watchReload(c.Context(), g, v)
	defer stop()
	return f.serve(c.Context(), v)
}

// signIn returns how servers are signed in to. Nobody waits for that, and no browser is
// opened: we may be a service.
func (s *serveOptions) signIn(v *term.Console) *upstream.SignInOptions {
	return &upstream.SignInOptions{
		Store: flags.OpenSignIns(v), NoBrowser: true,
		Prompt: func(server string, p oauth.Prompt) bool { return flags.ShowPrompt(server, p, false, v) },
		Command: func(c *config.Server) string {
			return "dragoman login " + c.Name + " -f " + strings.Join(s.files, " -f ")
		},
	}
}

// reload returns what reads the configuration again. What the command line says in
// place of the file is as it was in the first one, whatever the file says by now. One that
// would open to everybody what other machines can reach is refused.
func (s *serveOptions) reload(load func() (*config.File, *config.Report), first *config.File, listeners []*listener) func() (*config.File, *config.Report) {
	return func() (*config.File, *config.Report) {
		file, report := load()
		for _, e := range listeners {
			if err := e.checkExposure(&file.Auth); err != nil {
				report.Errors = append(report.Errors, config.Problem{File: s.files[0], Message: err.Error()})
			}
		}
		if len(s.listen) > 0 || s.stdio {
			file.Listen = first.Listen
		}
		if s.state != "" {
			file.State = first.State
		}
		return file, report
	}
}

// report tells what is wrong with the configuration. A server that cannot be
// understood is left out; whatever else is wrong is the end.
func (s *serveOptions) report(file *config.File, report *config.Report, v *term.Console) error {
	if one := report.Errors; len(one) == 1 && len(report.Warnings) == 0 && report.Refused() != nil {
		return &one[0] // which is all there is to report
	}
	v.Problems(report)
	if report.Refused() != nil {
		return fmt.Errorf("%s in %s", humanize.Count(len(report.Errors), "error"), strings.Join(s.files, ", "))
	}
	if len(file.Broken) > 0 {
		v.Warnf("left out because of errors: %s", strings.Join(file.Broken, ", "))
	}
	if len(file.Servers) == 0 {
		return fmt.Errorf("%s: %w", strings.Join(s.files, ", "), flags.ErrNoServer)
	}
	return nil
}

func isStdio(l config.Listen) bool { return l.Address == "stdio" }

// openListeners opens the listeners: those of the command line, or else those of the file.
func (s *serveOptions) openListeners(ctx context.Context, file *config.File, v *term.Console) ([]*listener, error) {
	wanted := slices.DeleteFunc(slices.Clone(file.Listen), isStdio)
	switch {
	case len(s.listen) > 0:
		wanted = flags.ListensOn(s.listen)
	case s.stdio:
		wanted = nil
	case len(file.Listen) == 0:
		wanted = flags.ListensOn([]string{flags.DefaultListen})
	}
	wanted, err := s.endpoints.Apply(wanted)
	if err != nil {
		return nil, term.Usage("%w", err)
	}
	return openListeners(ctx, wanted, &file.Auth, v.Log)
}

// announce says where everything is.
func (s *serveOptions) announce(f *ingress, all *gateway.Backend, file *config.File, v *term.Console) {
	v.Printf("serving %s of %s, all as one", humanize.Count(len(file.Servers), "server"), strings.Join(s.files, ", "))
	var places []string
	for _, e := range f.listeners {
		places = append(places, e.places("", all)...)
	}
	if f.stdio {
		places = append(places, "standard input and output")
	}
	v.Announce("ready: %s", strings.Join(places, ", "))
	for _, e := range f.listeners {
		if e.http {
			v.Printf("each by itself: %s; how they are: %s", e.base("")+"/servers/NAME/mcp", e.base("")+gateway.StatusPath)
			break
		}
	}
	if len(f.listeners) > 0 {
		v.Printf("for the configuration of a client: %s", snippet("", "dragoman", f.listeners))
	}
}

// watchReload reads the configuration again when that is asked for, until the context
// ends or stop is called.
func (s *serveOptions) watchReload(ctx context.Context, g *gateway.Gateway, v *term.Console) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	asked := make(chan os.Signal, 1)
	if reloadSignal != nil {
		signal.Notify(asked, reloadSignal)
	}
	// Ends with ctx.
	running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-asked:
				notifyManager(v, notifyReloading) // by the signal alone: whoever asks otherwise has an answer
				_, _ = g.Reload()                 // which logs what is wrong
				notifyManager(v, notifyReady)
			}
		}
	})
	if !s.noWatch {
		// Ends with ctx.
		running.Go(func() { g.Watch(ctx) })
	}
	return func() {
		cancel()
		signal.Stop(asked)
		running.Wait()
	}
}
