// Package cli is the program: it assembles the commands of the packages below it. Only
// cmd/dragoman and the tests of the whole program use it.
package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/dragoman-mcp/dragoman/internal/cli/flags"
	"github.com/dragoman-mcp/dragoman/internal/cli/serve"
	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/cli/use"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/spf13/cobra"
)

// Main runs the program with the arguments of the process, and ends the process if it fails.
func Main() {
	stdio.Guard()
	reapOrphans()
	serve.LimitMemory(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	c := Root()
	args, err := flags.Translate(c, os.Args[1:])
	ran := c
	if err == nil {
		c.SetArgs(args)
		ran, err = c.ExecuteContextC(ctx)
	}
	interrupted := ctx.Err() != nil
	stop()
	if err == nil {
		return
	}
	f := term.FailureOf(err)
	if f.Status == term.ExitInterrupted && interrupted {
		os.Exit(f.Status) // the user knows
	}
	term.ReportFailure(ran, os.Args[1:], f, err)
	os.Exit(f.Status)
}

// Root returns the command dragoman with all its commands.
func Root() *cobra.Command {
	cobra.EnableCommandSorting = false // they are in the order of what people do
	c := &cobra.Command{
		Use:   "dragoman",
		Short: "Any MCP client, any MCP server, any transport, any protocol revision",
		Example: `  dragoman run -- npx -y @modelcontextprotocol/server-everything
  dragoman connect https://mcp.example.com/mcp
  dragoman tools -- uvx some-server`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       term.Version(),
	}
	term.AddConsoleFlags(c.PersistentFlags())
	addCommands(c)
	use.CompleteFlags(c)
	markUsage(c)
	return c
}

func versionCommand() *cobra.Command {
	var out term.Writing
	c := &cobra.Command{
		Use:     "version",
		Example: "  dragoman version\n  dragoman version -o json",
		Short:   "Print the version and the protocol revisions",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := out.CheckFormat(); err != nil {
				return err
			}
			v := struct {
				Version   string   `json:"version"`
				Protocols []string `json:"protocols"`
				Go        string   `json:"go"`
				Platform  string   `json:"platform"`
			}{Version: term.Version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
			for _, r := range protocol.Revisions() {
				v.Protocols = append(v.Protocols, r.String())
			}
			if !out.IsText() {
				return out.Value(c.OutOrStdout(), v)
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "dragoman %s\nMCP %s\n", v.Version, strings.Join(v.Protocols, ", "))
			return err
		},
	}
	out.Add(c.Flags())
	return c
}
