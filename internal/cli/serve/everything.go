package serve

import (
	"log/slog"
	"os"

	"github.com/dragoman-mcp/dragoman/internal/cli/flags"
	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/spf13/cobra"
)

// serveFlags are the flags of the built-in server on standard input and output.
type serveFlags struct {
	framing    string
	maxMessage int
	era        string
	revisions  []string
}

func (f *serveFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.framing, "framing", stdio.Auto.String(),
		"how answers are framed: auto (as the client does), lines or content-length")
	c.Flags().IntVar(&f.maxMessage, "max-message", 0, "largest message in bytes (default 16 MiB, -1 for no limit)")
	c.Flags().Bool("debug", false, term.DebugUsage)
	c.Flags().StringVar(&f.era, "era", "both", "era that is served: legacy, modern or both")
	c.Flags().StringArrayVar(&f.revisions, "revision", nil, "`revision` that is served (repeatable, default all of the era)")
}

// options turns the flags into options.
func (f *serveFlags) options(v *term.Console) (*stdio.Options, error) {
	framing, err := flags.Framing(f.framing)
	if err != nil {
		return nil, err
	}
	return &stdio.Options{Framing: framing, MaxMessage: f.maxMessage, Logger: v.Log}, nil
}

// EverythingCommand is dragoman everything.
func EverythingCommand() *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   "everything",
		Short: "Serve the built-in test server on standard input and output",
		Long: `Serve the built-in server on standard input and output.

It has every feature of MCP in every revision, under the names that the official
conformance suite expects, and a tool "echo". It is meant for trying clients.`,
		Example: `  dragoman everything
  printf '%s\n' '{"jsonrpc":"2.0","id":1,"method":"ping"}' | dragoman everything`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return serveEverything(c, &f) },
	}
	f.add(c)
	return c
}

// serveEverything serves the built-in server until the client is gone.
func serveEverything(c *cobra.Command, f *serveFlags) error {
	v, err := term.ConsoleOf(c, "", nil)
	if err != nil {
		return err
	}
	if v.Level.Level() == slog.LevelDebug {
		v.Level.Set(jsonrpc.LevelSteps) // nothing is between us and the client that could show messages
	}
	opts, err := f.options(v)
	if err != nil {
		return term.Usage("%w", err)
	}
	revisions, err := flags.ChooseRevisions(f.era, "both", f.revisions)
	if err != nil {
		return term.Usage("%w", err)
	}
	if term.IsTerminal(os.Stdin) {
		v.Printf("the built-in MCP server reads messages from standard input, one a line; Ctrl-D ends it.")
	}
	server := builtin.New(&builtin.Options{Name: "dragoman-everything", Version: term.Version(), Revisions: revisions})
	v.Out.Start()
	return v.Finish(stdio.Serve(c.Context(), server, opts))
}
