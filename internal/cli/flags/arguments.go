package flags

import (
	"errors"
	"fmt"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// ArgumentsChecked returns a check of how many arguments a command has that speaks as we do.
func ArgumentsChecked(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		err := check(c, args)
		if err == nil {
			return nil
		}
		if f, ok := errors.AsType[*term.Failure](err); ok {
			return f
		}
		for n := range args {
			if check(c, args[:n]) == nil {
				return term.Usage("%q is one argument too many: %s", args[n], c.UseLine())
			}
		}
		return term.Usage("too few arguments: %s", c.UseLine())
	}
}

// NeedsHost is that of a command whose first argument is a host, of which there are so many.
func NeedsHost(check cobra.PositionalArgs, hosts []string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return term.Usage("name a host: %s", strings.Join(hosts, ", "))
		}
		return check(c, args)
	}
}

// explainShorthand says that a short flag is unknown, and that it may be one of a command that is
// the server.
func explainShorthand(c *cobra.Command, err *pflag.NotExistError) error {
	words := c.Flags().Args()
	path := c.CommandPath()
	switch {
	case len(words) > 0 && c.Name() == "serve":
		path = "dragoman run"
	case len(words) > 1 && c.Name() == "add": // the name of the server is no part of the command
		path, words = path+" "+words[0], words[1:]
	case len(words) == 0 || !strings.Contains(c.Use, "-- command"):
		return fmt.Errorf("%w; %s --help lists the flags", err, c.CommandPath())
	}
	return fmt.Errorf("%w; for a command write -- before it: %s -- %s -%s …", err, path, strings.Join(words, " "), err.GetSpecifiedShortnames())
}
