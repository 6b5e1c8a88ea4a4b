package admin

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config/hostfile"
	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/spf13/cobra"
)

// foundHost is a file of a host, for programs.
type foundHost struct {
	Host    string   `json:"host"`
	Name    string   `json:"name"`
	File    string   `json:"file"`
	Project bool     `json:"project,omitempty"`
	Servers []string `json:"servers"`
	Error   string   `json:"error,omitempty"`
}

// HostsCommand is dragoman hosts.
func HostsCommand() *cobra.Command {
	out := &term.Writing{}
	c := &cobra.Command{
		Use:   "hosts",
		Short: "List the hosts found on this machine, and the servers that they have",
		Long: `List the hosts whose files are found on this machine, for this user and for the project in this
directory, and the servers in them. Nothing is started.

The hosts: ` + strings.Join(hostfile.IDs(), ", ") + `.`,
		Example: `  dragoman hosts
  dragoman hosts -o json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := out.CheckFormat(); err != nil {
				return err
			}
			found, err := hostfile.Discover()
			if err != nil {
				return err
			}
			return showHosts(c, out, found)
		},
	}
	out.Add(c.Flags())
	return c
}

// showHosts writes what was found.
func showHosts(c *cobra.Command, out *term.Writing, found []hostfile.Found) error {
	var raw []json.RawMessage
	var rows [][2]string
	for _, f := range found {
		one := foundHost{Host: f.Host.ID(), Name: f.Host.Name(), File: f.File, Project: f.Project, Servers: []string{}}
		names, err := f.Servers()
		one.Servers = append(one.Servers, names...)
		what := "no servers"
		switch {
		case err != nil:
			one.Error = err.Error()
			what = "cannot be read: " + one.Error
		case len(names) > 0:
			what = humanize.Count(len(names), "server") + ": " + strings.Join(names, ", ")
		}
		where := f.File
		if f.Project {
			where += " (project)"
		}
		text, err := json.Marshal(one)
		if err != nil {
			return err
		}
		raw, rows = append(raw, text), append(rows, [2]string{one.Host, redact.Printable(redact.Text(what+"  "+where), "")})
	}
	if !out.IsText() {
		return out.List(c.OutOrStdout(), "hosts", raw)
	}
	if len(rows) == 0 {
		fmt.Fprintln(c.ErrOrStderr(), "no file of a host is found; docs/hosts.md lists where they are")
		return nil
	}
	return term.Columns(c.OutOrStdout(), rows)
}
