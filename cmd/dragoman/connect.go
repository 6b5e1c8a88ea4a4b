package main

import (
	"context"
	"log/slog"

	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/spf13/cobra"
)

func connectCommand() *cobra.Command { return newConnectCommand(runConnect) }

// newConnectCommand returns the command that reads the settings for do.
func newConnectCommand(do func(*cobra.Command, *settings) error) *cobra.Command {
	s := &settings{}
	c := &cobra.Command{
		Use:   "connect [flags] URL | -- command [args...]",
		Short: "Bring a server to standard input and output",
		Long: `Reach a server, and speak for it on our standard input and output: for hosts that
can only start a command.

The server is a URL or a command, as for "dragoman run". It may be of another
revision than the host. We end when standard input does. What the host asks while the
server cannot be reached is answered by an error that says why; a command that cannot be
started is told at once.

A server that wants a sign-in gets one: a browser opens, and what the host asks waits for
that. The sign-in is kept, and shared with all other processes of this user.

The flags of mcp-remote, and those of mcp-proxy for URLs, are understood too: see
docs/migrate.md.`,
		Example: `  dragoman connect https://mcp.example.com/mcp -H 'Authorization: Bearer ${TOKEN}'
  dragoman connect unix:/run/server.sock
  dragoman connect -- uvx some-server`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			extra, err := s.takeArguments(c, args)
			switch {
			case err != nil:
				return usage("%w", err)
			case helpWanted(c):
				return c.Help()
			case s.url == "" && s.command == nil:
				return usage("no server is named: give its URL, or -- and its command")
			}
			if len(extra) > 0 {
				if err := s.signIn.callbackPort(extra[0]); err != nil || len(extra) > 1 {
					return usage("%q follows the URL; one server can be named", extra[len(extra)-1])
				}
			}
			return do(c, s)
		},
	}
	s.addServer(c.Flags())
	c.Flags().StringVar(&s.framing, "framing", stdio.Auto.String(), "how answers are framed: auto (as the host does), lines or content-length")
	s.addAliases(c.Flags(), connectPrograms)
	c.Flags().SetInterspersed(false)
	return c
}

// runConnect brings a server to standard input and output, and says how that goes.
func runConnect(c *cobra.Command, s *settings) error {
	v, err := s.begin(c)
	if err != nil {
		return err
	}
	v.out.start()
	return v.finish(s.connect(c, v))
}

// connect brings what the settings name to standard input and output.
func (s *settings) connect(c *cobra.Command, v *console) error {
	framing, err := framingChoice(s.framing)
	if err != nil {
		return usage("%w", err)
	}
	o, err := s.singleServer(stdio.Auto.String(), v)
	if err != nil {
		return usage("%w", err)
	}
	o.signIn = s.signIn.options(true, v)
	return pipe(c.Context(), o, &stdio.Options{Framing: framing, MaxMessage: s.maxMessage, Logger: v.log}, v)
}

// pipe serves a server on standard input and output, until that ends. The server is
// started when the host speaks, which says how to speak to it.
func pipe(ctx context.Context, o *singleServer, opts *stdio.Options, v *console) error {
	o.calls = slog.LevelDebug // the host has a log of its own
	g, err := o.open("", v)
	if err != nil {
		return err
	}
	if o.builtIn == nil && o.Process {
		if err := g.Upstreams()[0].Check(); err != nil {
			_ = g.Shutdown(ctx) // nothing has been started
			return &failure{status: exitUnreachable, err: o.explain(err)}
		}
	}
	f := &ingress{acceptor: g.Backend().Acceptor, options: opts, stdio: true, shutdown: g.Shutdown, drain: finalWriteTime}
	return f.serve(ctx, v)
}
