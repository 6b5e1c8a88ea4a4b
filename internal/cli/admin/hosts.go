package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/cli/control"
	"github.com/dragoman-mcp/dragoman/internal/cli/flags"
	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config/hostfile"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
	"github.com/spf13/cobra"
)

// A hostCommand changes a file: ours or a host's.
type hostCommand struct {
	*cobra.Command
	host    *hostfile.Host
	project bool
	write   bool
	replace bool
	asks    term.Asking
}

func (h *hostCommand) add(c *cobra.Command) {
	h.Command = c
	f := c.Flags()
	f.BoolVar(&h.project, "project", false, "the host's file of the project in this directory, not that of its user")
	f.BoolVar(&h.write, "write", false, "write the file; what it was is kept beside it, as FILE.bak")
	f.BoolVar(&h.replace, "replace", false, "put servers in place of others with their names")
	c.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return hostfile.IDs(), cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveDefault
	}
}

// find finds the host, and its file if none is named.
func (h *hostCommand) find(name, file string) (string, error) {
	var err error
	if h.host, err = hostfile.Find(name); err != nil {
		return "", term.Usage("%w", err)
	}
	if file != "" {
		return file, nil
	}
	return h.host.File(h.project)
}

// replaces asks whether a server may take the place of another, if somebody is there.
func (h *hostCommand) replaces(ctx context.Context, file string) func(string) bool {
	h.asks = term.Asking{In: h.InOrStdin(), Out: &term.Screen{File: os.Stderr}}
	return func(name string) bool {
		if h.replace || !h.write || !h.asks.Terminal() {
			return h.replace
		}
		fmt.Fprintf(h.ErrOrStderr(), "%s is in %s already. Replace it? [y/N] ", name, file)
		answer, err := h.asks.Line(ctx)
		return err == nil && slices.Contains([]string{"y", "yes"}, strings.ToLower(answer))
	}
}

// finish shows a change, and makes it if that is wanted.
func (h *hostCommand) finish(c *hostfile.Change) error {
	diff, err := c.Diff()
	if err != nil {
		return err
	}
	if _, err := fmt.Fprint(h.OutOrStdout(), diff); err != nil {
		return err
	}
	if !h.write {
		fmt.Fprintf(h.ErrOrStderr(), "nothing is written; --write does it\n")
		return nil
	}
	backup, err := c.Write()
	if err != nil {
		return err
	}
	fmt.Fprintf(h.ErrOrStderr(), "%s is written", c.File)
	if backup != "" {
		fmt.Fprintf(h.ErrOrStderr(), "; what it was is in %s", backup)
	}
	fmt.Fprintln(h.ErrOrStderr())
	return nil
}

// ImportCommand is dragoman import.
func ImportCommand() *cobra.Command {
	h := &hostCommand{}
	var into string
	var only []string
	c := &cobra.Command{
		Use:   "import HOST [FILE]",
		Short: "Take the servers of a host over into our configuration",
		Long: `Take the servers over that another program keeps in its file, and show what would change in
our configuration. --write changes it; comments in it stay.

The hosts: ` + strings.Join(hostfile.IDs(), ", ") + `. FILE is read in
place of the host's own file on this machine, which stays as it is.

What is a secret is taken over as it is, is not shown, and is named: it is better kept in a
variable or a file that the configuration refers to.`,
		Example: `  dragoman import claude
  dragoman import cursor --project --write
  dragoman import codex --only files -f dragoman.yaml`,
		Args: flags.NeedsHost(cobra.RangeArgs(1, 2), hostfile.IDs()),
		RunE: func(c *cobra.Command, args []string) error {
			file, err := h.find(args[0], slices.Concat(args, []string{""})[1])
			if err != nil {
				return err
			}
			into := cmp.Or(into, ownFile())
			im, err := h.host.ImportFrom(file, into, only, leadsTo(into), h.replaces(c.Context(), into))
			if err != nil {
				return err
			}
			return h.finishImport(im, file)
		},
	}
	h.add(c)
	c.Flags().StringVarP(&into, "file", "f", "", fileUsage)
	c.Flags().StringArrayVar(&only, "only", nil, "`name` of a server to take over (repeatable, default all)")
	return c
}

// ownFile returns the configuration of this directory, which may not be there yet.
func ownFile() string {
	if file, ok := config.Find("."); ok && strings.HasPrefix(file, "dragoman.") {
		return file
	}
	return "dragoman.yaml"
}

// finishImport tells what would come of an import, and has it done.
func (h *hostCommand) finishImport(im *hostfile.Import, file string) error {
	out := h.ErrOrStderr()
	for _, note := range im.Notes {
		fmt.Fprintln(out, note)
	}
	say := func(what string, names []string) {
		if len(names) > 0 {
			fmt.Fprintf(out, "%s: %s\n", what, strings.Join(names, ", "))
		}
	}
	say("there already", im.Same)
	say("stay as they are in "+im.File+" (--replace takes those of "+file+")", im.Kept)
	if im.None() {
		fmt.Fprintf(out, "%s needs no change\n", im.File)
		return nil
	}
	if err := h.finish(&im.Change); err != nil {
		return err
	}
	if !h.write {
		return nil
	}
	_, report := config.Load(nil, im.File)
	for _, name := range slices.Concat(im.Added, im.Replaced) {
		if text := report.Of(name); text != "" {
			fmt.Fprintln(out, text)
		}
	}
	return nil
}

// An exporting is a server on its way into a host's file.
type exporting struct {
	hostCommand
	file, config, name string
	headers, env       []string
	stdio, print       bool
	remove             bool
}

// ExportCommand is dragoman export.
func ExportCommand() *cobra.Command {
	e := &exporting{}
	c := &cobra.Command{
		Use:   "export HOST [NAME|URL] | HOST -- command [args...]",
		Short: "Put a server, or this gateway, into the file of a host",
		Long: `Put an entry into the file of another program that has MCP servers, and show what would
change there. --write changes it; other entries, comments and the formatting stay as they
are. A file that cannot be read is left alone.

The hosts: ` + strings.Join(hostfile.IDs(), ", ") + `.

Without a server, the entry is for the gateway of the configuration in this directory, and with
a NAME for one server of it. A host that cannot use a URL, or not this one, gets a command
in its place: dragoman connect URL.`,
		Example: `  dragoman export claude --write
  dragoman export cursor files --project
  dragoman export claude https://mcp.example.com/mcp -H 'Authorization: Bearer ${TOKEN}'
  dragoman export codex --name files -- npx -y some-server /srv
  dragoman export cursor files --remove --write
  dragoman export zed --print`,
		Args: flags.NeedsHost(cobra.MinimumNArgs(1), hostfile.IDs()),
		RunE: func(c *cobra.Command, args []string) error { return e.run(c, args) },
	}
	e.add(c)
	f := c.Flags()
	f.StringVar(&e.file, "file", "", "the host's `file` (default: where it lies on this machine)")
	f.StringVarP(&e.config, "config", "f", "", "our configuration `FILE`, which says where the gateway is (default: that of this directory)")
	f.StringVar(&e.name, "name", "", "what the entry is called (default: as the server is)")
	f.StringArrayVarP(&e.headers, "header", "H", nil, "`'Name: value'` to send to the URL; ${VAR} stays a reference to the environment (repeatable)")
	f.StringArrayVarP(&e.env, "env", "e", nil, "`NAME=value` for the command (repeatable)")
	f.BoolVar(&e.stdio, "stdio", false, "have the host start dragoman connect, also if it can use the URL itself")
	f.BoolVar(&e.remove, "remove", false, "remove the entry of NAME, or that of the gateway, from the host's file")
	f.BoolVar(&e.print, "print", false, "print the entry alone, with its secrets, and change nothing")
	return c
}

func (e *exporting) run(c *cobra.Command, args []string) error {
	file, err := e.find(args[0], e.file)
	if err != nil && !e.print {
		return err
	}
	if e.host == nil {
		return err
	}
	if e.remove {
		return e.take(c, file, args[1:])
	}
	entry, name, err := e.entry(c, args[1:])
	if err != nil {
		return err
	}
	name = cmp.Or(e.name, name)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	asked := entry
	entry = e.host.Bridge(entry, self, e.stdio)
	if e.print {
		text, err := e.host.Snippet(name, entry)
		if err != nil {
			return err
		}
		_, err = fmt.Fprint(c.OutOrStdout(), text)
		return err
	}
	if asked.URL != "" && entry.URL == "" && !e.stdio {
		fmt.Fprintf(c.ErrOrStderr(), "%s cannot use this URL by itself; it starts dragoman connect\n", e.host.Name())
	}
	change, err := e.host.ExportTo(file, name, entry, e.replaces(c.Context(), file))
	switch {
	case errors.Is(err, hostfile.ErrTaken):
		return &term.Failure{Status: term.ExitOther, Err: err, Hint: "choose another with --name, or use --replace"}
	case err != nil:
		return err
	case change.None():
		fmt.Fprintf(c.ErrOrStderr(), "%s is in %s already\n", name, file)
		return nil
	}
	if err := e.finish(change); err != nil {
		return err
	}
	if e.write {
		fmt.Fprintf(c.ErrOrStderr(), "start %s again, or have it read its servers again\n", e.host.Name())
	}
	return nil
}

// take removes an entry from the host's file.
func (e *exporting) take(c *cobra.Command, file string, args []string) error {
	name := cmp.Or(e.name, slices.Concat(args, []string{"dragoman"})[0])
	if len(args) > 1 || c.ArgsLenAtDash() >= 0 || target.IsURL(name) || e.print {
		return term.Usage("name the entry that is removed: dragoman export %s NAME --remove", e.host.ID())
	}
	change, err := e.host.RemoveFrom(file, name)
	if err != nil {
		return unknownServer(err)
	}
	return e.finish(change)
}

// entry returns what is to be put in, and what it is called.
func (e *exporting) entry(c *cobra.Command, args []string) (entry hostfile.Entry, name string, err error) {
	if entry.Headers, entry.Env, err = e.settings(); err != nil {
		return entry, "", err
	}
	dash := c.ArgsLenAtDash() - 1
	switch {
	case dash >= 0 && dash < len(args):
		if dash > 0 {
			return entry, "", term.Usage("a command and %q are both named; name one", args[0])
		}
		entry.Command = args
		name = target.NameOfCommand(args)
	case len(args) > 1:
		return entry, "", term.Usage("%q follows the server; one can be named, and a command stands after --", args[1])
	case len(args) == 1 && target.IsURL(args[0]):
		entry.URL = args[0]
		name = target.NameOfURL(args[0])
	default:
		if entry.URL, name, err = e.ofGateway(c, slices.Concat(args, []string{""})[0], len(entry.Headers) > 0); err != nil {
			return entry, "", err
		}
	}
	path, _, _ := strings.Cut(entry.URL, "?")
	entry.SSE = strings.HasSuffix(strings.TrimSuffix(path, "/"), "/sse")
	if entry.Command == nil && len(entry.Env) > 0 {
		return entry, "", term.Usage("-e is for servers that are started by a command")
	}
	if entry.Command != nil && len(entry.Headers) > 0 {
		return entry, "", term.Usage("-H is for servers that are reached by a URL")
	}
	return entry, name, nil
}

// settings returns the headers, with their references, and the environment.
func (e *exporting) settings() (headers, env map[string]string, err error) {
	parsed, err := flags.ParseHeaders(e.headers, func(name string) (string, bool) { return "${" + name + "}", true })
	if err != nil {
		return nil, nil, term.Usage("%w", err)
	}
	headers, env = map[string]string{}, map[string]string{}
	for name, values := range parsed {
		headers[name] = strings.Join(values, ", ")
	}
	for i, entry := range e.env {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || name == "" {
			return nil, nil, term.Usage("-e %d is not NAME=value", i+1)
		}
		env[name] = value
	}
	return headers, env, nil
}

// ofGateway returns where a server of our gateway is, or all of it, and what it is called.
func (e *exporting) ofGateway(c *cobra.Command, name string, proves bool) (url, called string, err error) {
	var files []string
	if e.config != "" {
		files = []string{e.config}
	}
	if info, err := os.Stat(name); err == nil && !info.IsDir() && e.config == "" {
		return "", "", term.Usage("%q is a file; for the gateway of that configuration write -f %s", name, name)
	}
	found, err := control.Files(files)
	if err != nil {
		return "", "", term.Usage("%w; or give a URL, or -- and a command", err)
	}
	file, report := config.Load(nil, found...)
	if err := report.Refused(); err != nil {
		return "", "", err
	}
	path := gateway.MCPPath
	if name != "" {
		if !slices.Contains(file.All(), name) {
			hint := cmp.Or(humanize.SuggestHint(name, slices.Values(file.All())), "there are "+strings.Join(file.All(), ", "))
			return "", "", term.Usage("there is no server %q in %s: %s", name, found[0], hint)
		}
		path = "/servers/" + name + path
	}
	for _, l := range listens(file) {
		base, ok := baseOf(&l)
		if !ok {
			continue
		}
		if file.Auth.Wanted() && l.Auth != "none" && !proves {
			fmt.Fprintln(c.ErrOrStderr(), "clients have to prove who they are there: give a token, as in -H 'Authorization: Bearer ${TOKEN}'")
		}
		return base + path, cmp.Or(name, "dragoman"), nil
	}
	return "", "", term.Usage("%s listens nowhere over HTTP; give a URL", found[0])
}

// listens returns where a gateway listens.
func listens(file *config.File) []config.Listen {
	if len(file.Listen) > 0 {
		return file.Listen
	}
	return []config.Listen{{Address: flags.DefaultListen}}
}

// leadsTo reports whether a URL is one that Export has written for the gateway of a configuration.
func leadsTo(into string) func(url string) bool {
	file, _ := config.Load(nil, into) // or none, which listens where all do
	return func(url string) bool {
		return slices.ContainsFunc(listens(file), func(l config.Listen) bool {
			base, ok := baseOf(&l)
			path, below := strings.CutPrefix(url, base)
			return ok && below && (path == gateway.MCPPath || strings.HasPrefix(path, "/servers/"))
		})
	}
}

// baseOf returns the beginning of the URLs of an address, if HTTP is spoken there.
func baseOf(l *config.Listen) (string, bool) {
	a, err := flags.ParseAddress(l.Address)
	if err != nil || !a.HTTP {
		return "", false
	}
	if a.Network == "unix" {
		path, err := filepath.Abs(a.Where)
		return "unix://" + path + ":", err == nil
	}
	host, port, _ := net.SplitHostPort(a.Where) // parseAddress has done so
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = flags.DefaultHost
	}
	scheme := "http"
	if l.TLS.Cert != "" {
		scheme = "https"
		if len(l.Hosts) > 0 {
			host = l.Hosts[0]
		}
	}
	return scheme + "://" + net.JoinHostPort(host, port), true
}
