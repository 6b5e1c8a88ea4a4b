package main

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/spf13/cobra"
)

// version is set when a release is built.
var version string

func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "dev"
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version and the protocol revisions",
		Args:  cobra.NoArgs,
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
