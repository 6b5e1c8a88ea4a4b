package flags

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Translate returns a command line as cobra reads it: with the command that is meant, if none
// is named, and with flags that have several values as those of ours that have one.
func Translate(root *cobra.Command, args []string) ([]string, error) {
	if len(args) == 0 || strings.HasPrefix(args[0], "__") {
		return args, nil
	}
	said, rest := leading(root, args)
	if len(rest) == 0 || childOf(root, rest[0]) == nil {
		said, rest = nil, args // then all are those of a server
	}
	first := rest[0]
	switch c := childOf(root, first); {
	case first == "run" || first == "connect":
		l := scan(root, slices.Concat(said, rest[1:]))
		return append([]string{first}, l.args...), nil
	case first == "help":
		return args, knownTopic(root, rest[1:])
	case c != nil && !c.Runnable() && len(rest) > 1 && !strings.HasPrefix(rest[1], "-") && childOf(c, rest[1]) == nil:
		return nil, unknownCommand(c, rest[1:])
	case c != nil:
		return append([]string{first}, slices.Concat(said, rest[1:])...), nil
	case target.IsURL(first):
	case !strings.HasPrefix(first, "-"):
		return nil, unknownCommand(root, args)
	case first != "--" && flagOf(root, first) == nil:
		return args, nil // --help, or one that is unknown
	}
	l := scan(root, args)
	if l.url {
		return append([]string{"connect"}, l.args...), nil
	}
	return append([]string{"run"}, l.args...), nil
}

// leading returns the flags that stand before a command and are those of all commands, or nearly,
// and what follows.
func leading(root *cobra.Command, args []string) (flags, rest []string) {
	n := 0
	for n < len(args) && strings.HasPrefix(args[n], "--") {
		name, _, whole := strings.Cut(args[n][2:], "=")
		switch f := root.PersistentFlags().Lookup(name); {
		case f == nil && name != "debug":
			return args[:n], args[n:]
		case f != nil && !whole && n+1 < len(args):
			n++ // and its value
		}
		n++
	}
	return args[:n], args[n:]
}

// knownTopic refuses to help with what is no command.
func knownTopic(root *cobra.Command, names []string) error {
	parent := root
	for _, name := range names {
		if strings.HasPrefix(name, "-") {
			continue
		}
		c := childOf(parent, name)
		if c == nil {
			return unknownCommand(parent, []string{name})
		}
		parent = c
	}
	return nil
}

// childOf returns the command of that name below another, or nil.
func childOf(parent *cobra.Command, name string) *cobra.Command {
	for _, c := range parent.Commands() {
		if c.Name() == name || c.HasAlias(name) {
			return c
		}
	}
	return nil
}

// unknownCommand is the error for a first word that is no command of the parent.
func unknownCommand(parent *cobra.Command, args []string) error {
	if !parent.HasParent() {
		if hint := otherNames[args[0]]; hint != "" {
			return term.Usage("unknown command %q; %s", args[0], hint)
		}
		if IsCommand(args[0]) && strings.ContainsAny(args[0], " \t") {
			return CheckCommand("dragoman run", "", args[:1])
		}
	}
	hint := humanize.SuggestHint(args[0], func(yield func(string) bool) {
		for _, c := range parent.Commands() {
			if c.IsAvailableCommand() && !yield(c.Name()) {
				return
			}
		}
	})
	if hint == "" && len(args) > 1 && !parent.HasParent() {
		hint = "to serve a command write: dragoman run " + args[0] + " …;"
	}
	return term.Usage("unknown command %q; %s", args[0], strings.TrimSpace(hint+" "+parent.CommandPath()+" --help lists them"))
}

// otherNames are what other programs call a command, with the command of ours that does it.
var otherNames = map[string]string{
	"list": whatThereIs, "ls": whatThereIs, "servers": whatThereIs,
	"ps":    "the servers of running gateways: dragoman status",
	"proxy": bothWays, "bridge": bothWays, "gateway": bothWays, "mcp": bothWays,
	"install":   intoHost,
	"inspect":   lookInto,
	"inspector": lookInto, "info": lookInto, "describe": lookInto, "doctor": lookInto, "debug": lookInto,
	"client":    "to use a server: dragoman tools TARGET, dragoman call TARGET TOOL key=value",
	"exec":      "to call a tool: dragoman call TARGET TOOL key=value; to serve a command: dragoman run -- COMMAND",
	"man":       "dragoman help COMMAND shows its manual",
	"start":     "to serve a configuration: dragoman serve; to start one server of a running gateway again: dragoman restart NAME",
	"up":        "to serve a configuration: dragoman serve",
	"stop":      "Ctrl-C or SIGTERM stops a gateway; to start one of its servers again: dragoman restart NAME",
	"down":      "Ctrl-C or SIGTERM stops a gateway",
	"test":      "to check a server against the rules of MCP: dragoman check TARGET; to call a tool: dragoman call TARGET TOOL",
	"validate":  "to check a configuration: dragoman config check; to check a server: dragoman check TARGET",
	"signin":    "to sign in to a server: dragoman login TARGET",
	"rm":        "to remove a server from the configuration: dragoman remove NAME; from a host: dragoman export HOST NAME --remove",
	"uninstall": "to remove a server from a host: dragoman export HOST NAME --remove; from the configuration: dragoman remove NAME",
}

// What several of otherNames have in common.
const (
	whatThereIs = "the tools of a server: dragoman tools TARGET; the servers of running gateways: dragoman status; those that hosts of this machine have: dragoman hosts"
	bothWays    = "to serve a command over HTTP: dragoman run -- COMMAND; to bring a URL to standard input and output: dragoman connect URL; to serve a configuration: dragoman serve"
	intoHost    = "to put a server into the file of a host: dragoman export HOST NAME|URL; into the configuration: dragoman add NAME -- COMMAND|URL"
	lookInto    = "to find out what a server is and why it does not work: dragoman probe TARGET; what it offers: dragoman tools TARGET; to watch its messages: dragoman tap"
)

// ExplainFlag adds to the error for an unknown flag what may have been meant, and leaves out
// the value that a flag of another program refuses: it may be a secret.
func ExplainFlag(c *cobra.Command, err error) error {
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		switch bad.GetFlag().Value.(type) {
		case aliasValue, *duration: // which say what is expected
			return fmt.Errorf("--%s: %w", bad.GetFlag().Name, bad.Unwrap())
		}
	}
	e, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return err
	}
	if e.GetSpecifiedShortnames() != "" {
		return explainShorthand(c, e)
	}
	names := humanize.Suggest(e.GetSpecifiedName(), flagNames(c))
	for i, name := range names {
		names[i] = "--" + name
	}
	hint := ""
	if len(names) > 0 {
		hint = "did you mean " + strings.Join(names, " or ") + "? "
	}
	return fmt.Errorf("%w; %s%s --help lists the flags", err, hint, c.CommandPath())
}

// flagNames returns the flags of a command; of the root, those of the commands that need not
// be named, too.
func flagNames(c *cobra.Command) iter.Seq[string] {
	sets := []*pflag.FlagSet{c.Flags()}
	if !c.HasParent() {
		sets = append(sets, unnamed(c)...)
	}
	return func(yield func(string) bool) {
		for _, set := range sets {
			proceed := true
			set.VisitAll(func(f *pflag.Flag) { proceed = proceed && yield(f.Name) })
			if !proceed {
				return
			}
		}
	}
}

// unnamed returns the flags of the commands that are found by what follows.
func unnamed(root *cobra.Command) (sets []*pflag.FlagSet) {
	for _, c := range root.Commands() {
		if c.Name() == "run" || c.Name() == "connect" {
			c.InheritedFlags() // merges those of the root, which all commands have
			sets = append(sets, c.Flags())
		}
	}
	return sets
}

// flagOf returns the flag that an argument begins, of either command, or nil.
func flagOf(root *cobra.Command, arg string) *pflag.Flag {
	name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	for _, set := range unnamed(root) {
		switch {
		case name == "":
		case strings.HasPrefix(arg, "--"):
			if f := set.Lookup(name); f != nil {
				return f
			}
		case len(name) == 1:
			if f := set.ShorthandLookup(name); f != nil {
				return f
			}
		}
	}
	return nil
}

// A scanned is a command line that was read.
type scanned struct {
	args []string
	url  bool // the server is a URL that no flag names
}

// scan reads the flags up to the server's command.
func scan(root *cobra.Command, args []string) scanned {
	var l scanned
	elsewhere := serverElsewhere(args)
	for len(args) > 0 {
		arg := args[0]
		f := flagOf(root, arg)
		switch {
		case arg == "--" || f == nil && !strings.HasPrefix(arg, "-") && !target.IsURL(arg) && !l.url:
			l.args = append(l.args, args...) // the rest is the server's
			return l
		case f == nil:
			l.url = l.url || !strings.HasPrefix(arg, "-")
			l.args, args = append(l.args, arg), args[1:]
		default:
			n := l.take(f, args, elsewhere)
			args = args[n:]
		}
	}
	return l
}

// serverElsewhere reports whether the server is named by a flag, or behind --, so that nothing
// before is the server.
func serverElsewhere(args []string) bool {
	return slices.ContainsFunc(args, func(arg string) bool {
		name, _, _ := strings.Cut(arg, "=")
		return slices.Contains([]string{"--", "--stdio", "--sse", "--streamableHttp", "--streamable-http"}, name)
	})
}

// take takes a flag and its values, and returns how many arguments that were.
func (l *scanned) take(f *pflag.Flag, args []string, elsewhere bool) int {
	value := func(i int) (string, bool) {
		if i >= len(args) || len(args[i]) > 1 && strings.HasPrefix(args[i], "-") {
			return "", false
		}
		return args[i], true
	}
	first, ok := value(1)
	if !ok || strings.Contains(args[0], "=") {
		n := 1
		if f.NoOptDefVal == "" && !strings.Contains(args[0], "=") && len(args) > 1 {
			n = 2 // a value that begins with a dash
		}
		l.args = append(l.args, args[:n]...)
		return n
	}
	second, two := value(2)
	switch f.Name {
	case "header", "headers":
		if two && !strings.Contains(first, ":") && headerName().MatchString(first) {
			l.args = append(l.args, "--header="+first+": "+second)
			return 3
		}
	case "env":
		if two && isPair(first, args[3:]) {
			l.args = append(l.args, "--env="+first+"="+second)
			return 3
		}
	case "named-server":
		if two {
			l.args = append(l.args, "--named-server="+first)
			return 3
		}
	case "verify-ssl":
		if !target.IsURL(first) {
			l.args = append(l.args, "--verify-ssl="+first)
			return 2
		}
	case "cors", "allow-origin", "healthEndpoint", "corsAddAllowedHeader":
		if elsewhere || f.NoOptDefVal == "" {
			return l.takeAll(f, args, elsewhere)
		}
	}
	if f.NoOptDefVal != "" {
		l.args = append(l.args, args[0])
		return 1
	}
	l.args = append(l.args, args[:2]...)
	return 2
}

// takeAll takes a flag that has one value, or all that follow if none of them is the server.
func (l *scanned) takeAll(f *pflag.Flag, args []string, elsewhere bool) int {
	n := 1
	for n < len(args) && !strings.HasPrefix(args[n], "-") && (n == 1 || elsewhere) {
		l.args = append(l.args, "--"+f.Name+"="+args[n])
		n++
	}
	return n
}

// isPair reports whether a name behind -e has its value in the next argument, as mcp-proxy from
// PyPI has it, and is not one of ours that is passed on: it is not, or else -- follows.
func isPair(name string, rest []string) bool {
	if strings.Contains(name, "=") {
		return false
	}
	_, ours := os.LookupEnv(name)
	return !ours || len(rest) > 0 && rest[0] == "--"
}
