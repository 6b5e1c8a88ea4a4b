package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/spf13/cobra"
)

func configCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Check a configuration file, or print the schema of ours",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(configCheckCommand(), configSchemaCommand())
	return c
}

func configCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check [FILE...]",
		Short: "Report everything that is wrong with a configuration, and start nothing",
		Long: `Report everything that is wrong with a configuration, and start nothing.

The file may be of our own format or of another program that has MCP servers: Claude,
VS Code, Cursor, Windsurf, Zed, Codex, Gemini CLI and others. Several files are merged
in their order. Without one, dragoman.yaml, dragoman.yml, dragoman.json, .mcp.json or
mcp.json of this directory is checked.

The exit status is 0 if there are no errors, and 1 if there are.`,
		Example: `  dragoman config check dragoman.yaml
  dragoman config check ~/.codex/config.toml`,
		RunE: func(c *cobra.Command, files []string) error {
			return checkConfig(c.OutOrStdout(), c.ErrOrStderr(), files)
		},
	}
}

func configSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of our own configuration format",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := c.OutOrStdout().Write(config.Schema())
			return err
		},
	}
}

// checkConfig reports problems to stderr and what the files say to stdout.
func checkConfig(stdout, stderr io.Writer, files []string) error {
	if len(files) == 0 {
		file, ok := config.Find(".")
		if !ok {
			return errors.New("there is no dragoman.yaml, dragoman.json, .mcp.json or mcp.json here; name a file")
		}
		files = []string{file}
	}
	f, report := config.Load(nil, files...)
	if text := report.Error(); text != "" {
		fmt.Fprintln(stderr, text)
	}
	if n := len(report.Errors); n > 0 {
		return fmt.Errorf("%s in %s", plural(n, "error"), strings.Join(files, ", "))
	}
	return summarise(stdout, f)
}

// summarise prints the servers, without secrets.
func summarise(w io.Writer, f *config.File) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, name := range f.Names {
		s := f.Servers[name]
		how := string(s.How())
		switch {
		case s.Disabled:
			how = "disabled"
		case s.How() == config.Auto:
			how = "http or sse"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", name, how, s.Where())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%s, no errors\n", plural(len(f.Names), "server"))
	return err
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
