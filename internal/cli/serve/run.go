package serve

import (
	"context"
	"net/http"
	"strings"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/cli/control"
	"github.com/dragoman-mcp/dragoman/internal/cli/flags"
	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/spf13/cobra"
)

// RunCommand is dragoman run.
func RunCommand() *cobra.Command { return flags.NewRunCommand(run) }

// run serves what the settings name, and says how that goes.
func run(c *cobra.Command, s *flags.Settings) error {
	v, err := s.Begin(c)
	if err != nil {
		return err
	}
	v.Out.Start()
	return v.Finish(runServer(c, s, v))
}

// runServer serves what the settings name.
func runServer(c *cobra.Command, s *flags.Settings, v *term.Console) error {
	o, err := s.Server(s.Framing, v)
	if err != nil {
		return term.Usage("%w", err)
	}
	defer o.Close()
	o.SignIn = s.SignIn.Options(s.Output == "stdio", v)
	if s.Output == "stdio" {
		return pipe(c.Context(), o, &stdio.Options{MaxMessage: s.MaxMessage, Logger: v.Log}, v)
	}
	return serveAll(c.Context(), s, o, v)
}

// serveAll lets clients to a server through all its endpoints, until ctx ends.
func serveAll(ctx context.Context, s *flags.Settings, o *flags.Server, v *term.Console) error {
	wanted, err := s.Listener.Apply(flags.ListensOn(s.Addresses()))
	if err != nil {
		return term.Usage("%w", err)
	}
	listeners, err := openListeners(ctx, wanted, &o.File.Auth, v.Log)
	if err != nil {
		return err
	}
	f := &ingress{listeners: listeners, auth: &o.File.Auth, stdio: true, endless: true, drain: s.Drain, options: &stdio.Options{MaxMessage: s.MaxMessage, Logger: v.Log}}
	g, err := newGateway(s, f, o, v)
	if err != nil {
		closeListeners(listeners)
		return err
	}
	if err := o.Start(ctx, g, v); err != nil {
		closeListeners(listeners)
		gone, cancel := context.WithCancel(ctx)
		cancel()
		_ = g.Shutdown(gone) // nothing is in progress that could be cut
		if ctx.Err() == nil {
			return err
		}
		return nil //nolint:nilerr // we were stopped meanwhile
	}
	defer controlled(ctx, o.Name, g, v)()
	name := o.Name
	if o.Title != "" {
		name = target.TidyName(o.Title)
	}
	announce(s, name, g.Backend(), listeners, v)
	watching, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	if len(o.File.Files) > 0 {
		watch.Go(func() { g.Watch(watching) }) // ends when we have served
	}
	return f.serve(ctx, v)
}

// controlled opens the control socket of a gateway with one server, by which "status", "logs", "restart"
// and "tap" find it. Without one it works all the same.
func controlled(ctx context.Context, server string, g *gateway.Gateway, v *term.Console) (closeSocket func()) {
	socket, err := control.OpenServer(ctx, server)
	if err != nil {
		v.Log.Debug("no control socket", "error", err)
		return func() {}
	}
	socket.Serve(g, v)
	return socket.Close
}

// newGateway makes the gateway of a server, with what an ingress needs of it.
func newGateway(s *flags.Settings, f *ingress, o *flags.Server, v *term.Console) (*gateway.Gateway, error) {
	public, origins, prefix, err := s.Accepted()
	if err != nil {
		return nil, term.Usage("%w", err)
	}
	also, err := s.Additional()
	if err != nil {
		return nil, term.Usage("%w", err)
	}
	g, err := o.Open(s.Messages(prefix), v)
	if err != nil {
		return nil, err
	}
	f.handler = func(e *listener) http.Handler {
		handler := g.Handler(&gateway.HandlerOptions{Hosts: append(e.hosts(), public...), Origins: origins})
		if len(also) > 0 {
			return &paths{handler, also}
		}
		return handler
	}
	f.acceptor, f.socketCaller, f.shutdown, f.room = g.Acceptor(), g.SocketCaller, g.Shutdown, g.ConnRoom()
	return g, nil
}

// paths leads requests at additional paths to where they belong, with a slash at the end too.
type paths struct {
	http.Handler
	also map[string]string
}

// ServeHTTP implements http.Handler.
func (p *paths) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	as, ok := p.also[r.URL.Path]
	if !ok && strings.HasSuffix(r.URL.EscapedPath(), "/") {
		as, ok = p.also[strings.TrimSuffix(r.URL.Path, "/")]
	}
	if ok && gateway.CheckPath(r.URL) == nil { // the handler refuses it otherwise
		there, where := *r, *r.URL
		where.Path, where.RawPath = as, ""
		there.URL = &where
		r = &there
	}
	p.Handler.ServeHTTP(w, r)
}
