package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/manager"
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
server cannot be reached is answered by an error that says why.

A server that wants a sign-in gets one: a browser opens, and what the host asks waits for
that. The sign-in is kept, and shared with all other processes of this user.

The flags of mcp-remote are understood too.`,
		Example: `  dragoman connect https://mcp.example.com/mcp -H 'Authorization: Bearer ${TOKEN}'
  dragoman connect unix:/run/server.sock
  dragoman connect -- uvx some-server`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			extra, err := s.takeArguments(c, args)
			switch {
			case err != nil:
				return err
			case helpWanted(c):
				return c.Help()
			case s.url == "" && s.command == nil:
				return errors.New("no server is named: give its URL, or -- and its command")
			}
			if len(extra) > 0 {
				if err := s.signIn.callbackPort(extra[0]); err != nil || len(extra) > 1 {
					return fmt.Errorf("%q follows the URL; one server can be named", extra[len(extra)-1])
				}
			}
			return do(c, s)
		},
	}
	s.addServer(c.Flags())
	c.Flags().StringVar(&s.framing, "framing", stdio.Auto.String(), "how answers are framed: auto (as the host does), lines or content-length")
	s.addAliases(c.Flags(), connectAliases)
	c.Flags().SetInterspersed(false)
	return c
}

// runConnect brings what the settings name to standard input and output.
func runConnect(c *cobra.Command, s *settings) error {
	v, err := s.begin(c)
	if err != nil {
		return err
	}
	framing, err := framingChoice(s.framing)
	if err != nil {
		return err
	}
	o, err := s.singleServer(stdio.Auto.String(), v)
	if err != nil {
		return err
	}
	o.signIn = s.signIn.options(true, v)
	return pipe(c.Context(), o, &stdio.Options{Framing: framing, MaxMessage: s.maxMessage, Logger: v.log}, v)
}

// pipe serves a server on standard input and output, until that ends. The server is
// started when the host speaks, which says how to speak to it.
func pipe(ctx context.Context, o *singleServer, opts *stdio.Options, v *console) error {
	g, err := o.open("", v)
	if err != nil {
		return err
	}
	waiting := time.AfterFunc(startNotice, func() {
		if s := g.Upstreams()[0].Status(); s.Conversations > 0 && s.State == manager.Idle {
			v.printf("starting %s …", o.Name)
		}
	})
	defer waiting.Stop()
	f := &ingress{acceptor: g.Backend().Acceptor, options: opts, stdio: true, shutdown: g.Shutdown, drain: finalWriteTime}
	return f.serve(ctx, v)
}
