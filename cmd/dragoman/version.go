package main

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/spf13/cobra"
)

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
