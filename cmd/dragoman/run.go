package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/dragoman-mcp/dragoman/gateway"
	"github.com/dragoman-mcp/dragoman/internal/everything"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/spf13/cobra"
)

// defaultListen is where servers are served unless told otherwise.
const defaultListen = "127.0.0.1:8808"

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

The flags of supergateway and mcp-proxy are understood too.`,
		Example: `  dragoman run
  dragoman run -- npx -y @modelcontextprotocol/server-everything
  dragoman run -e API_KEY --listen 127.0.0.1:0 -- uvx some-server
  dragoman run https://mcp.example.com/mcp -H 'Authorization: Bearer ${TOKEN}'`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			extra, err := s.takeArguments(c, args)
			switch {
			case err != nil:
				return err
			case helpWanted(c):
				return c.Help()
			case len(extra) > 0:
				return fmt.Errorf("%q follows the URL; one server can be named", extra[0])
			}
			return do(c, s)
		},
	}
	s.addServer(c.Flags())
	s.addDoors(c.Flags())
	s.addAliases(c.Flags(), runAliases)
	c.Flags().SetInterspersed(false)
	return c
}

// helpWanted tells whether --help stands behind the URL, where cobra does not
// look.
func helpWanted(c *cobra.Command) bool {
	help, err := c.Flags().GetBool("help")
	return err == nil && help
}

// run serves what the settings name.
func run(c *cobra.Command, s *settings) error {
	v, err := s.begin(c)
	if err != nil {
		return err
	}
	if s.url == "" && s.command == nil {
		return runEverything(c.Context(), s, v)
	}
	framing, err := framingChoice(s.framing)
	if err != nil {
		return err
	}
	b, err := newBridge(s, framing, v)
	if err != nil {
		return err
	}
	if s.output == "stdio" {
		return connect(c.Context(), b, &stdio.Options{MaxMessage: s.maxMessage, Logger: v.log}, v)
	}
	return runBridge(c.Context(), s, b, v)
}

// begin settles how much is said and checks what was asked for.
func (s *settings) begin(c *cobra.Command) (*voice, error) {
	s.settleAliases(c.Flags())
	level, err := s.level(c.Flags().Changed("debug"), os.Getenv(debugVariable))
	if err != nil {
		return nil, err
	}
	if err := s.check(c); err != nil {
		return nil, err
	}
	v := newVoice(level)
	for _, n := range s.notes {
		v.say("note: %s", n)
	}
	return v, nil
}

// runEverything serves the built-in server.
func runEverything(ctx context.Context, s *settings, v *voice) error {
	revisions, err := chooseRevisions(s.era, "auto", s.revisions)
	if err != nil {
		return err
	}
	server := everything.New(&everything.Options{Version: versionText(), Revisions: revisions})
	defer server.Close()
	what := &served{"everything", gateway.Served{Acceptor: server}}
	if speaksEra(revisions, protocol.Legacy) {
		what.Sessions = server
	}
	if speaksEra(revisions, protocol.Modern) {
		what.Requests = server.Requests()
	}
	entrances, err := openEntrances(ctx, s.addresses())
	if err != nil {
		return err
	}
	return serveOne(ctx, s, what, entrances, v)
}

// serveOne lets clients to a server through all its doors, until ctx ends. It owns
// the entrances.
func serveOne(ctx context.Context, s *settings, what *served, entrances []*entrance, v *voice) error {
	f := &front{
		entrances: entrances, acceptor: what.Acceptor, stdio: true, endless: true, drain: s.drain,
		options: &stdio.Options{MaxMessage: s.maxMessage, Logger: v.log},
	}
	var hosts []string
	if f.exposed() {
		hosts = ownNames()
	}
	handler, doors, err := newDoors(s, what, hosts, v.log)
	if err != nil {
		closeEntrances(entrances)
		return err
	}
	f.handler = func(*entrance) http.Handler { return handler }
	f.shutdown = doors.Shutdown
	if f.exposed() {
		v.say("warning: everybody who can reach this machine can use the server: there is no authentication")
	}
	announce(s, what, entrances, v)
	return f.serve(ctx, v)
}

// runBridge serves the server at the other end of a bridge.
func runBridge(ctx context.Context, s *settings, b *bridge, v *voice) (err error) {
	defer func() { err = errors.Join(err, b.server.Close()) }()
	entrances, err := openEntrances(ctx, s.addresses())
	if err != nil {
		return err
	}
	era, err := b.start(ctx, v)
	switch {
	case ctx.Err() != nil:
		closeEntrances(entrances)
		return nil
	case err != nil && b.Process:
		closeEntrances(entrances)
		return fmt.Errorf("%w\nrun with --debug to see every step", b.explain(err))
	case err != nil:
		v.say("warning: %v; it is served all the same, and each request tries again", b.explain(err))
	default:
		v.say("serving %s (%s, %s era)", b.Name, b.How, era)
	}
	what := &served{b.Name, gateway.Served{Acceptor: b.server, Sessions: b.server, Requests: b.server.Requests()}}
	return serveOne(ctx, s, what, entrances, v)
}
