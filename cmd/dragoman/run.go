package main

import (
	"context"
	"net/http"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/spf13/cobra"
)

// defaultListen is where servers are served unless told otherwise.
const (
	defaultHost   = "127.0.0.1"
	defaultPort   = "8808"
	defaultListen = defaultHost + ":" + defaultPort
)

func runCommand() *cobra.Command { return newRunCommand(run) }

// newRunCommand returns the command that reads the settings for do.
func newRunCommand(do func(*cobra.Command, *settings) error) *cobra.Command {
	s := &settings{}
	c := &cobra.Command{
		Use:   "run [flags] [-- command [args...] | URL]",
		Short: "Serve a server on every transport; the built-in one if none is named",
		Long: `Run a server, or reach one, and let clients of every transport and revision to it.

The server is a command that speaks MCP on its standard input and output, or a URL:
http:// and https:// (Streamable HTTP, or HTTP+SSE if that is what it speaks), ws://
and wss:// (WebSocket), tcp:HOST:PORT and unix:PATH (messages on a socket),
unix://PATH:/mcp (HTTP on a Unix socket). Without one it is the built-in server,
which has every feature of MCP in every revision.

It is served on /mcp (Streamable HTTP), /sse with /messages (HTTP+SSE), /ws
(WebSocket), /call and /call/TOOL (tool calls over plain HTTP), and to whoever speaks
to our own standard input. Only this machine is listened to unless --listen says
otherwise. We stop on SIGINT and SIGTERM, after the requests under way.

The flags of supergateway and mcp-proxy are understood too: see docs/migrate.md.`,
		Example: `  dragoman run
  dragoman run -- npx -y @modelcontextprotocol/server-everything
  dragoman run -e API_KEY --listen 127.0.0.1:0 -- uvx some-server
  dragoman run https://mcp.example.com/mcp -H 'Authorization: Bearer ${TOKEN}'`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			extra, err := s.takeArguments(c, args)
			switch {
			case err != nil:
				return usage("%w", err)
			case helpWanted(c):
				return c.Help()
			case len(extra) > 0:
				return usage("%q follows the URL; one server can be named", extra[0])
			}
			return do(c, s)
		},
	}
	s.addServer(c.Flags())
	s.addDoors(c.Flags())
	s.addAliases(c.Flags(), runPrograms)
	c.Flags().SetInterspersed(false)
	return c
}

// helpWanted reports whether --help stands behind the URL, where cobra does not
// look.
func helpWanted(c *cobra.Command) bool {
	help, err := c.Flags().GetBool("help")
	return err == nil && help
}

// run serves what the settings name, and says how that goes.
func run(c *cobra.Command, s *settings) error {
	v, err := s.begin(c)
	if err != nil {
		return err
	}
	v.out.start()
	return v.finish(runServer(c, s, v))
}

// runServer serves what the settings name.
func runServer(c *cobra.Command, s *settings, v *console) error {
	o, err := s.singleServer(s.framing, v)
	if err != nil {
		return usage("%w", err)
	}
	defer o.close()
	o.signIn = s.signIn.options(s.output == "stdio", v)
	if s.output == "stdio" {
		return pipe(c.Context(), o, &stdio.Options{MaxMessage: s.maxMessage, Logger: v.log}, v)
	}
	return serveAll(c.Context(), s, o, v)
}

// begin settles how much is said and checks what was asked for.
func (s *settings) begin(c *cobra.Command) (*console, error) {
	if err := s.settleAliases(c.Flags()); err != nil {
		return nil, usage("%w", err)
	}
	v, err := consoleOf(c, s.logLevel, nil)
	if err != nil {
		return nil, err
	}
	if err := s.check(c); err != nil {
		return nil, usage("%w", err)
	}
	for _, n := range s.notes {
		v.printf("note: %s", n)
	}
	return v, nil
}

// serveAll lets clients to a server through all its doors, until ctx ends.
func serveAll(ctx context.Context, s *settings, o *singleServer, v *console) error {
	wanted, err := s.doors.apply(listensOn(s.addresses()))
	if err != nil {
		return usage("%w", err)
	}
	listeners, err := openListeners(ctx, wanted, &o.file.Auth, v.log)
	if err != nil {
		return err
	}
	f := &ingress{listeners: listeners, auth: &o.file.Auth, stdio: true, endless: true, drain: s.drain, options: &stdio.Options{MaxMessage: s.maxMessage, Logger: v.log}}
	g, err := newGateway(s, f, o, v)
	if err != nil {
		closeListeners(listeners)
		return err
	}
	if err := o.start(ctx, g, v); err != nil {
		closeListeners(listeners)
		gone, cancel := context.WithCancel(ctx)
		cancel()
		_ = g.Shutdown(gone) // nothing is under way that could be cut
		if ctx.Err() == nil {
			return err
		}
		return nil //nolint:nilerr // we were stopped meanwhile
	}
	name := o.Name
	if o.title != "" {
		name = target.TidyName(o.title)
	}
	announce(s, name, g.Backend(), listeners, v)
	watching, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	if len(o.file.Files) > 0 {
		watch.Go(func() { g.Watch(watching) }) // ends when we have served
	}
	return f.serve(ctx, v)
}

// newGateway makes the gateway of a server, with what an ingress needs of it.
func newGateway(s *settings, f *ingress, o *singleServer, v *console) (*gateway.Gateway, error) {
	public, origins, prefix, err := s.accepted()
	if err != nil {
		return nil, usage("%w", err)
	}
	also, err := s.additional()
	if err != nil {
		return nil, usage("%w", err)
	}
	g, err := o.open(s.messages(prefix), v)
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
	f.acceptor, f.socketCaller, f.shutdown = g.Acceptor(), g.SocketCaller, g.Shutdown
	return g, nil
}
