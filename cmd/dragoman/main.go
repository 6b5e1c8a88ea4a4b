// Command dragoman bridges MCP clients and servers over any transport and any
// protocol revision.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/spf13/cobra"
)

func main() {
	stdio.Guard()
	reapOrphans()
	limitMemory(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	c := root()
	args, err := translate(c, os.Args[1:])
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
	f := failureOf(err)
	if f.status == exitInterrupted && interrupted {
		os.Exit(f.status) // the user knows
	}
	sayFailure(ran, os.Args[1:], f, err)
	os.Exit(f.status)
}

func root() *cobra.Command {
	cobra.EnableCommandSorting = false // they are in the order of what people do
	c := &cobra.Command{
		Use:   "dragoman",
		Short: "Any MCP client, any MCP server, any transport, any protocol revision",
		Example: `  dragoman run -- npx -y @modelcontextprotocol/server-everything
  dragoman connect https://mcp.example.com/mcp
  dragoman tools -- uvx some-server`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       versionText(),
	}
	addVoice(c.PersistentFlags())
	addCommands(c)
	completeFlags(c)
	markUsage(c)
	return c
}

// version is set when a release is built.
var version string

func versionText() string {
	info, _ := debug.ReadBuildInfo()
	return versionOf(version, info)
}

// versionOf returns the version that was set, or else the one that the module was
// installed as, or else that of the library, with the commit if that is known.
func versionOf(set string, info *debug.BuildInfo) string {
	if set != "" || info == nil {
		return cmp.Or(set, dragoman.Version)
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return dragoman.Version + "+" + s.Value[:min(12, len(s.Value))]
		}
	}
	return dragoman.Version
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Example: "  dragoman version",
		Short:   "Print the version and the protocol revisions",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var names []string
			for _, r := range protocol.Revisions() {
				names = append(names, r.String())
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "dragoman %s\nMCP %s\n", versionText(), strings.Join(names, ", "))
			return err
		},
	}
}
