package serve

import (
	"context"
	"log/slog"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/cli/flags"
	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/spf13/cobra"
)

// ConnectCommand is dragoman connect.
func ConnectCommand() *cobra.Command { return flags.NewConnectCommand(runConnect) }

// runConnect brings a server to standard input and output, and says how that goes.
func runConnect(c *cobra.Command, s *flags.Settings) error {
	v, err := s.Begin(c)
	if err != nil {
		return err
	}
	v.Out.Start()
	return v.Finish(connect(c, s, v))
}

// connect brings what the settings name to standard input and output.
func connect(c *cobra.Command, s *flags.Settings, v *term.Console) error {
	framing, err := flags.Framing(s.Framing)
	if err != nil {
		return term.Usage("%w", err)
	}
	o, err := s.Server(stdio.Auto.String(), v)
	if err != nil {
		return term.Usage("%w", err)
	}
	o.SignIn = s.SignIn.Options(true, v)
	return pipe(c.Context(), o, &stdio.Options{Framing: framing, MaxMessage: s.MaxMessage, Logger: v.Log}, v)
}

// pipe serves a server on standard input and output, until that ends. A command is started when the host
// sends its first message, which decides how to speak to the server. A URL is reached before that, so that
// the user sees at once what is wrong.
func pipe(ctx context.Context, o *flags.Server, opts *stdio.Options, v *term.Console) error {
	o.Calls = slog.LevelDebug // the host has a log of its own
	g, err := o.Open("", v)
	if err != nil {
		return err
	}
	if o.BuiltIn == nil && o.Process {
		if err := g.Upstreams()[0].Check(); err != nil {
			_ = g.Shutdown(ctx) // nothing has been started
			return &term.Failure{Status: term.ExitUnreachable, Err: o.Explain(err)}
		}
	}
	defer controlled(ctx, o.Name, g, v)()
	if o.BuiltIn == nil && !o.Process {
		reaching, cancel := context.WithCancel(ctx)
		var reach sync.WaitGroup
		defer reach.Wait()
		defer cancel()
		reach.Go(func() { // ends with the server's first answer, or with reaching
			if err := o.Start(reaching, g, v); err != nil && reaching.Err() == nil {
				v.Warnf("%v", err)
			}
		})
	}
	f := &ingress{acceptor: g.Backend().Acceptor, options: opts, stdio: true, shutdown: g.Shutdown, drain: finalWriteTime}
	return f.serve(ctx, v)
}
