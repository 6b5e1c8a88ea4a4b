package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/cli/flags"
	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config/hostfile"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/spf13/cobra"
)

// fileUsage is what the flag -f means in commands that change our configuration.
const fileUsage = "our configuration `FILE` (default dragoman.yaml, dragoman.yml or dragoman.json of this directory)"

// everyHost stands for all hosts that are found.
const everyHost = "all"

// InitCommand is dragoman init.
func InitCommand() *cobra.Command {
	var file string
	var from []string
	c := &cobra.Command{
		Use:   "init",
		Short: "Write a new configuration, with comments that say what belongs there",
		Long: `Write a new configuration, with comments that say what belongs there.

--from takes over the servers that other programs of this machine have, as "dragoman import"
does: those of one host, or of all that are found. At a terminal this is asked.`,
		Example: `  dragoman init
  dragoman init --from all
  dragoman init --from cursor --from claude -f dragoman.yaml`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return initialize(c, cmp.Or(file, "dragoman.yaml"), file == "", from)
		},
	}
	c.Flags().StringVarP(&file, "file", "f", "", "the `FILE` to write (default dragoman.yaml)")
	c.Flags().StringArrayVar(&from, "from", nil, "`host` whose servers are taken over, or all (repeatable): "+strings.Join(hostfile.IDs(), ", "))
	_ = c.RegisterFlagCompletionFunc("from", cobra.FixedCompletions(append([]string{everyHost}, hostfile.IDs()...), cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return c
}

// initialize writes a new configuration. byDefault says that its name is not given.
func initialize(c *cobra.Command, file string, byDefault bool, from []string) error {
	out := c.ErrOrStderr()
	if !hostfile.IsYAML(file) {
		return term.Usage("%s is not called like a file of YAML, which this writes: name it dragoman.yaml", file)
	}
	if there := ownFile(); byDefault && isFile(there) {
		return alreadyThere(there)
	}
	found, err := hostfile.Discover()
	if err != nil && len(from) > 0 {
		return err
	}
	chosen, err := chooseHosts(c.Context(), c, found, from)
	if err != nil {
		return err
	}
	if err := hostfile.Create(file); errors.Is(err, fs.ErrExist) {
		return alreadyThere(file)
	} else if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s is written\n", file)
	for _, f := range chosen {
		takeOver(c, f, file)
	}
	fmt.Fprintln(out, "add a server: dragoman add NAME -- COMMAND, or dragoman add NAME URL; serve them: dragoman serve")
	return nil
}

func alreadyThere(file string) error {
	return &term.Failure{Status: term.ExitOther, Err: fmt.Errorf("%s is there already", file), Hint: "add a server to it: dragoman add NAME -- COMMAND, or dragoman add NAME URL"}
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && !info.IsDir()
}

// chooseHosts returns the files whose servers are taken over: those of the hosts that are named, or what
// the user says at the terminal.
func chooseHosts(ctx context.Context, c *cobra.Command, found []hostfile.Found, from []string) (chosen []hostfile.Found, err error) {
	found = slices.DeleteFunc(slices.Clone(found), func(f hostfile.Found) bool {
		names, err := f.Servers()
		return err == nil && len(names) == 0
	})
	for _, name := range from {
		if name == everyHost {
			return found, nil
		}
		host, err := hostfile.Find(name)
		if err != nil {
			return nil, term.Usage("%w", err)
		}
		n := len(chosen)
		for _, f := range found {
			if f.Host.ID() == host.ID() {
				chosen = append(chosen, f)
			}
		}
		if len(chosen) == n {
			return nil, term.Usage("no servers of %s are found on this machine; dragoman hosts lists what is", host.Name())
		}
	}
	if len(from) > 0 || len(found) == 0 {
		return chosen, nil
	}
	out := c.ErrOrStderr()
	for _, f := range found {
		names, _ := f.Servers() // or none that can be read
		fmt.Fprintf(out, "found: %s in %s\n", describeServers(f.Host.Name(), names), f.File)
	}
	asking := term.Asking{In: c.InOrStdin(), Out: &term.Screen{File: os.Stderr}}
	if !asking.Terminal() {
		fmt.Fprintln(out, "to take them over: dragoman import HOST --write")
		return nil, nil
	}
	fmt.Fprint(out, "Take these servers over? [y/N] ")
	answer, err := asking.Line(ctx)
	if err != nil || !slices.Contains([]string{"y", "yes"}, strings.ToLower(answer)) {
		return nil, nil //nolint:nilerr // no answer is no
	}
	return found, nil
}

// describeServers says which servers a host has.
func describeServers(host string, names []string) string {
	text := humanize.Count(len(names), "server") + " of " + host
	if len(names) == 0 {
		return text
	}
	return redact.Printable(text+": "+strings.Join(names, ", "), "")
}

// takeOver puts the servers of a host into our file. What is wrong is said: the others are taken over all
// the same.
func takeOver(c *cobra.Command, f hostfile.Found, into string) {
	out := c.ErrOrStderr()
	no := func(string) bool { return false }
	im, err := f.Host.ImportFrom(f.File, into, nil, leadsTo(into), no)
	if err == nil && !im.None() {
		err = im.Save()
	}
	if err != nil {
		fmt.Fprintf(out, "%s: %v\n", f.Host.Name(), err)
		return
	}
	for _, note := range im.Notes {
		fmt.Fprintln(out, note)
	}
	if len(im.Kept) > 0 {
		fmt.Fprintf(out, "%s: left out, since there are others with their names: %s\n", f.Host.Name(), strings.Join(im.Kept, ", "))
	}
	fmt.Fprintln(out, describeServers(f.Host.Name(), im.Added))
}

// An adding is a server on its way into our file.
type adding struct {
	file         string
	headers, env []string
	replace      bool
}

// AddCommand is dragoman add.
func AddCommand() *cobra.Command {
	a := &adding{}
	c := &cobra.Command{
		Use:   "add NAME URL | NAME -- command [args...]",
		Short: "Add a server to the configuration",
		Long: `Add a server to the configuration of this directory, or to a new dragoman.yaml. Comments and all
else stay as they are written. A gateway that serves the file starts the server at once.`,
		Example: `  dragoman add files -- npx -y @modelcontextprotocol/server-filesystem /srv
  dragoman add search https://mcp.example.com/mcp -H 'Authorization: Bearer ${TOKEN}'
  dragoman add github -e GITHUB_TOKEN -- uvx some-server`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			entry, inherit, err := a.entry(c, args)
			if err != nil {
				return err
			}
			return a.add(c, args[0], entry, inherit)
		},
	}
	f := c.Flags()
	f.StringVarP(&a.file, "file", "f", "", fileUsage)
	f.StringArrayVarP(&a.headers, "header", "H", nil, "`'Name: value'` to send to the URL; ${VAR} stays a reference to the environment (repeatable)")
	f.StringArrayVarP(&a.env, "env", "e", nil, "`NAME=value` for the command, or NAME to pass the gateway's on (repeatable)")
	f.BoolVar(&a.replace, "replace", false, "put the server in place of another with its name")
	return c
}

// entry returns the server that a command line names.
func (a *adding) entry(c *cobra.Command, args []string) (entry hostfile.Entry, inherit []string, err error) {
	dash := c.ArgsLenAtDash()
	switch {
	case len(args) == 0:
		return entry, nil, term.Usage("name the server: dragoman add NAME -- COMMAND, or dragoman add NAME URL")
	case dash == 0:
		return entry, nil, term.Usage("name the server: dragoman add NAME -- %s", strings.Join(args, " "))
	case target.IsURL(args[0]):
		return entry, nil, term.Usage("name the server: dragoman add NAME %s", strings.Join(args, " "))
	case len(args) == 1:
		return entry, nil, term.Usage("name its command or its URL: dragoman add %s -- COMMAND, or dragoman add %s URL", args[0], args[0])
	case dash > 1:
		return entry, nil, term.Usage("%q and a command are both named; name one", args[1])
	case dash == 1:
		entry.Command = args[1:]
		if err := flags.CheckCommand("dragoman add", args[0], entry.Command); err != nil {
			return entry, nil, err
		}
	case len(args) > 2 || !target.IsURL(args[1]):
		return entry, nil, term.Usage("%q is no URL; for a command write -- before it: dragoman add %s -- %s", args[1], args[0], strings.Join(args[1:], " "))
	default:
		entry.URL = args[1]
	}
	if entry.Command == nil && len(a.env) > 0 {
		return entry, nil, term.Usage("-e is for servers that are started by a command")
	}
	if entry.Command != nil && len(a.headers) > 0 {
		return entry, nil, term.Usage("-H is for servers that are reached by a URL")
	}
	e := exporting{headers: a.headers}
	for _, variable := range a.env {
		if name, _, set := strings.Cut(variable, "="); set || name == "" {
			e.env = append(e.env, variable)
		} else {
			inherit = append(inherit, name)
		}
	}
	entry.Headers, entry.Env, err = e.settings()
	return entry, inherit, err
}

// add puts a server into our file.
func (a *adding) add(c *cobra.Command, name string, entry hostfile.Entry, inherit []string) error {
	file, out := cmp.Or(a.file, ownFile()), c.ErrOrStderr()
	served, _ := config.Find(".") // before there is another
	hides := a.file == "" && served != "" && !isFile(file)
	change, err := hostfile.Add(file, name, entry, inherit, a.replace)
	switch {
	case errors.Is(err, hostfile.ErrTaken):
		return &term.Failure{Status: term.ExitOther, Err: err, Hint: "choose another name, or use --replace"}
	case errors.Is(err, hostfile.ErrName):
		return term.Usage("%w", err)
	case err != nil:
		return err
	case change.None():
		fmt.Fprintf(out, "%s is in %s already\n", name, file)
		return nil
	}
	if err := change.Save(); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s is written: %s is added\n", file, name)
	if hides {
		fmt.Fprintf(out, "%s takes the place of %s in this directory; to take its servers over: dragoman import claude-code --project --write\n", file, served)
	}
	_, report := config.Load(nil, file)
	if text := report.Of(name); text != "" {
		fmt.Fprintln(out, text)
	}
	return nil
}

// RemoveCommand is dragoman remove.
func RemoveCommand() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a server from the configuration",
		Long: `Remove a server from the configuration of this directory, with the comment above it. All else
stays as it is written. A gateway that serves the file stops the server.`,
		Example: `  dragoman remove files`,
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			file := cmp.Or(file, ownFile())
			change, err := hostfile.Remove(file, args[0])
			if err != nil {
				return unknownServer(err)
			}
			if err := change.Save(); err != nil {
				return err
			}
			fmt.Fprintf(c.ErrOrStderr(), "%s is written: %s is removed\n", file, args[0])
			return nil
		},
	}
	c.Flags().StringVarP(&file, "file", "f", "", fileUsage)
	c.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		loaded, _ := config.Load(nil, cmp.Or(file, ownFile())) // or none
		return loaded.All(), cobra.ShellCompDirectiveNoFileComp
	}
	return c
}

// unknownServer makes an error about a name that is not there one of usage.
func unknownServer(err error) error {
	if unknown, ok := errors.AsType[*hostfile.UnknownError](err); ok {
		return term.Usage("%w", unknown)
	}
	return err
}
