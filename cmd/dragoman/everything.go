package main

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/everything"
	"github.com/dragoman-mcp/dragoman/internal/trace"
	"github.com/dragoman-mcp/dragoman/protocol"
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
	c.Flags().Bool("debug", false, debugUsage)
	c.Flags().StringVar(&f.era, "era", "both", "era that is served: legacy, modern or both")
	c.Flags().StringArrayVar(&f.revisions, "revision", nil, "`revision` that is served (repeatable, default all of the era)")
}

// chooseRevisions returns the revisions of an era that are served, or those that
// are named. all is the word for both eras.
func chooseRevisions(era, all string, names []string) ([]protocol.Revision, error) {
	var known []string
	var list []protocol.Revision
	for _, r := range protocol.Revisions() {
		if era != all && era != r.Era().String() {
			continue
		}
		known = append(known, r.String())
		if len(names) == 0 || slices.Contains(names, r.String()) {
			list = append(list, r)
		}
	}
	if known == nil {
		return nil, fmt.Errorf("unknown era %q: use %s, %s or %s", era, protocol.Legacy, protocol.Modern, all)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("unknown revision %q: use %s", name, strings.Join(known, ", "))
		}
	}
	return list, nil
}

// speaksEra reports whether a revision of an era is among those.
func speaksEra(list []protocol.Revision, era protocol.Era) bool {
	return slices.ContainsFunc(list, func(r protocol.Revision) bool { return r.Era() == era })
}

// options turns the flags into options.
func (f *serveFlags) options(v *console) (*stdio.Options, error) {
	framing, err := framingChoice(f.framing)
	if err != nil {
		return nil, err
	}
	return &stdio.Options{Framing: framing, MaxMessage: f.maxMessage, Logger: v.log}, nil
}

func everythingCommand() *cobra.Command {
	var flags serveFlags
	c := &cobra.Command{
		Use:   "everything",
		Short: "Serve the built-in test server on standard input and output",
		Long: `Serve the built-in server on standard input and output.

It has every feature of MCP in every revision, under the names that the official
conformance suite expects, and a tool "echo". It is meant for trying clients.`,
		Example: `  dragoman everything
  printf '%s\n' '{"jsonrpc":"2.0","id":1,"method":"ping"}' | dragoman everything`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return serveEverything(c, &flags) },
	}
	flags.add(c)
	return c
}

// serveEverything serves the built-in server until the client is gone.
func serveEverything(c *cobra.Command, flags *serveFlags) error {
	v, err := consoleOf(c, "", nil)
	if err != nil {
		return err
	}
	if v.level.Level() == slog.LevelDebug {
		v.level.Set(trace.LevelSteps) // nothing is between us and the client that could show messages
	}
	opts, err := flags.options(v)
	if err != nil {
		return usage("%w", err)
	}
	revisions, err := chooseRevisions(flags.era, "both", flags.revisions)
	if err != nil {
		return usage("%w", err)
	}
	if isTerminal(os.Stdin) {
		v.printf("the built-in MCP server reads messages from standard input, one a line; Ctrl-D ends it.")
	}
	server := everything.New(&everything.Options{Name: "dragoman-everything", Version: versionText(), Revisions: revisions})
	v.out.start()
	return v.finish(stdio.Serve(c.Context(), server, opts))
}
