package use

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/cli/flags"
	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/internal/util/retry"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/spf13/cobra"
)

// PingCommand is dragoman ping.
func PingCommand() *cobra.Command {
	u := &Target{Wants: Wanted{Only: true}}
	var times int
	var every time.Duration
	c := &cobra.Command{
		Use:   "ping [TARGET] | -- command [args...]",
		Short: "Ask a server whether it is there",
		Long: `Ask a server whether it is there, and show how long its answers take. The exit status is 4 if
one does not come.

` + TargetHelp,
		Example: `  dragoman ping https://mcp.example.com/mcp
  dragoman ping files -c 10 -i 200ms`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if times < 1 {
				return term.Usage("-c is how often to ask, once at least")
			}
			return u.do(c, args, nil, func(ctx context.Context, s *Session, _ []string) error {
				return s.pingAll(ctx, c, times, every)
			})
		},
	}
	u.Add(c)
	c.Flags().IntVarP(&times, "count", "c", 3, "how often to ask")
	flags.AddDuration(c.Flags(), &every, "interval", "i", time.Second, "time between two questions")
	return c
}

// A pong is one line of the results of ping.
type pong struct {
	Seq    int     `json:"seq"`
	Method string  `json:"method"`
	Ms     float64 `json:"ms"`
}

// pingAll asks so many times.
func (s *Session) pingAll(ctx context.Context, c *cobra.Command, times int, every time.Duration) error {
	out := c.OutOrStdout()
	var took []time.Duration
	show := func(method string, d time.Duration, more string) error {
		took = append(took, d)
		if s.Use.IsText() {
			_, err := fmt.Fprintf(out, "%-3d %-10s %8s%s\n", len(took), method, humanize.Duration(d), more)
			return err
		}
		return s.Use.Value(out, pong{len(took), method, float64(d.Microseconds()) / 1000})
	}
	first := fmt.Sprintf("   %s, %s, MCP %s (%s)", redact.Printable(s.Name(), ""), s.How, s.Revision(), s.Era())
	if err := show("connect", s.took, first); err != nil {
		return err
	}
	for i := range times {
		if i > 0 && retry.Sleep(ctx, every) != nil {
			break
		}
		began := time.Now()
		if err := s.Ping(ctx); err != nil {
			return err
		}
		if err := show("ping", time.Since(began), ""); err != nil {
			return err
		}
	}
	if !s.Use.IsText() || len(took) < 2 {
		return context.Cause(ctx)
	}
	pings := took[1:]
	low, high, sum := pings[0], pings[0], time.Duration(0)
	for _, d := range pings {
		low, high, sum = min(low, d), max(high, d), sum+d
	}
	fmt.Fprintf(out, "min/avg/max %s/%s/%s\n", humanize.Duration(low), humanize.Duration(sum/time.Duration(len(pings))), humanize.Duration(high))
	return context.Cause(ctx)
}

// ListenCommand is dragoman listen.
func ListenCommand() *cobra.Command {
	u := &Target{Wants: Wanted{URIs: true}}
	var level string
	var most int
	c := &cobra.Command{
		Use:   "listen [TARGET] [URI...] | [URI...] -- command [args...]",
		Short: "Show what a server tells: changes of lists and resources, log messages",
		Long: `Show what a server tells, one notification a line, until Ctrl-C: changes of its lists, of the
resources that are named, and log messages. If the server ends, the exit status is 4.

` + TargetHelp,
		Example: `  dragoman listen https://mcp.example.com/mcp
  dragoman listen files file:///srv/notes.txt --level debug`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			told := make(chan *dragoman.Message, maxTold)
			opts := &client.Options{OnNotification: func(note *dragoman.Message) {
				select {
				case told <- note:
				default: // the terminal is too slow
				}
			}}
			err := u.do(c, args, opts, func(ctx context.Context, s *Session, uris []string) error {
				return s.listen(ctx, c, uris, level, told, most)
			})
			if c.Context().Err() != nil {
				return nil //nolint:nilerr // that is how it ends
			}
			return err
		},
	}
	u.Add(c)
	c.Flags().StringVar(&level, "level", "info", "least `level` of log messages: "+term.AnyOf(protocol.LogLevels))
	c.Flags().IntVarP(&most, "count", "c", 0, "end after so many notifications (default: continue)")
	return c
}

// maxTold is how many notifications wait to be shown.
const maxTold = 1024

// listen shows what the server tells.
func (s *Session) listen(ctx context.Context, c *cobra.Command, uris []string, level string, told <-chan *dragoman.Message, most int) error {
	if s.Can("logging") {
		if err := s.SetLevel(ctx, level); err != nil {
			return err
		}
	}
	for _, uri := range uris {
		if err := s.Subscribe(ctx, uri); err != nil {
			return err
		}
	}
	if s.Use.IsText() {
		fmt.Fprintf(c.ErrOrStderr(), "listening to %s; Ctrl-C ends\n", redact.Printable(s.Name(), ""))
	}
	lost, stop := s.watch(ctx)
	defer stop()
	conn := s.last.get() // with another one nothing would be told that we have asked for
	for n := 0; most == 0 || n < most; n++ {
		select {
		case <-ctx.Done():
			return nil
		case err := <-lost:
			return err
		case <-conn.Done():
			if ctx.Err() != nil {
				return nil
			}
			return &term.Failure{Status: term.ExitUnreachable, Err: fmt.Errorf("%s has ended the conversation: %w", s.Name(), conn.Err())}
		case note := <-told:
			if err := s.showNote(c, note); err != nil {
				return err
			}
		}
	}
	return nil
}

// watchEvery is how often a server that is listened to is asked whether it is there: over HTTP
// nothing tells of one that is gone.
const watchEvery = 10 * time.Second

// watch asks the server from time to time whether it is there, until stop is called. Why it is
// not comes from lost.
func (s *Session) watch(ctx context.Context) (lost <-chan error, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	gone := make(chan error, 1)
	var asking sync.WaitGroup
	// Ends with ctx, or with the server.
	asking.Go(func() {
		for retry.Sleep(ctx, watchEvery) == nil {
			if err := s.Ping(ctx); err != nil && ctx.Err() == nil && term.FailureOf(err).Status == term.ExitUnreachable {
				gone <- err
				return
			}
		}
	})
	return gone, func() {
		cancel()
		asking.Wait()
	}
}

// showNote writes a notification.
func (s *Session) showNote(c *cobra.Command, note *dragoman.Message) error {
	if !s.Use.IsText() {
		return s.Use.Value(c.OutOrStdout(), note)
	}
	params := string(note.Params())
	if params != "" {
		params = "  " + redact.Printable(redact.Text(params), "")
	}
	_, err := fmt.Fprintf(c.OutOrStdout(), "%s  %s%s\n", time.Now().Format("15:04:05.000"), redact.Printable(note.Method(), ""), params)
	return err
}
