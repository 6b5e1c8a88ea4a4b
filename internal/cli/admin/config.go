package admin

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/dragoman-mcp/dragoman/internal/cli/control"
	"github.com/dragoman-mcp/dragoman/internal/cli/flags"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
	"github.com/spf13/cobra"
)

// ConfigCommand is dragoman config.
func ConfigCommand() *cobra.Command {
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
	var envFile string
	c := &cobra.Command{
		Use:   "check [FILE...]",
		Short: "Report everything that is wrong with a configuration, and start nothing",
		Long: `Report everything that is wrong with a configuration, and start nothing.

The file may be of our own format or of another program that has MCP servers: Claude,
VS Code, Cursor, Windsurf, Zed, Codex, Gemini CLI and others. Several files are merged
in their order. Without one, dragoman.yaml, dragoman.yml, dragoman.json, .mcp.json or
mcp.json of this directory is checked.

${NAME} is a variable of this shell. A service has others: name the file that it has them
from with --env-file, and they go before those of the shell.

The exit status is 0 if "dragoman serve" can serve it, and 1 if there are errors, also if
they are of one server only, which serve leaves out.`,
		Example: `  dragoman config check dragoman.yaml
  dragoman config check ~/.codex/config.toml
  sudo dragoman config check /etc/dragoman/dragoman.yaml --env-file /etc/dragoman/environment`,
		RunE: func(c *cobra.Command, files []string) error {
			opts := &config.Options{}
			if envFile != "" {
				vars, err := config.ReadEnv(envFile)
				if err != nil {
					return fmt.Errorf("--env-file: %w", err)
				}
				opts.LookupEnv = func(name string) (string, bool) {
					if value, ok := vars[name]; ok {
						return value, true
					}
					return os.LookupEnv(name)
				}
			}
			if err := flags.CheckFiles(c, files); err != nil {
				return err
			}
			return checkConfig(c.OutOrStdout(), c.ErrOrStderr(), opts, files)
		},
	}
	c.Flags().StringVar(&envFile, "env-file", "", "`file` with variables, NAME=value a line, such as the EnvironmentFile of a unit of systemd")
	return c
}

func configSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Example: "  dragoman config schema > dragoman.schema.json",
		Short:   "Print the JSON Schema of our own configuration format",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := c.OutOrStdout().Write(config.Schema())
			return err
		},
	}
}

// checkConfig reports problems to stderr and what the files say to stdout.
func checkConfig(stdout, stderr io.Writer, opts *config.Options, files []string) error {
	shown := files
	files, err := control.Files(files)
	if err != nil {
		return err
	}
	if len(shown) == 0 {
		shown = []string{filepath.Base(files[0])}
	}
	f, report := config.Load(opts, shown...)
	if text := report.Error(); text != "" {
		fmt.Fprintln(stderr, text)
	}
	if n := len(report.Errors); n > 0 {
		return fmt.Errorf("%s in %s", humanize.Count(n, "error"), strings.Join(shown, ", "))
	}
	if err := flags.CheckServed(f); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(shown, ", "), err)
	}
	return summarise(stdout, f)
}

// summarise prints the servers, without secrets.
func summarise(w io.Writer, f *config.File) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, name := range f.Names {
		s := f.Servers[name]
		how := string(s.ResolvedTransport())
		switch {
		case s.Disabled:
			how = "disabled"
		case s.ResolvedTransport() == config.Auto:
			how = "http or sse"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", name, how, s.Location())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%s, no errors\n", humanize.Count(len(f.Names), "server"))
	return err
}
