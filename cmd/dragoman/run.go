package main

import (
	"errors"

	"github.com/spf13/cobra"
)

func runCommand() *cobra.Command {
	var flags serveFlags
	c := &cobra.Command{
		Use:   "run",
		Short: "Run a server; the built-in one if none is named",
		Long: `Run a server and let clients talk to it.

Without arguments it is the built-in server, which has every feature of MCP in
every revision. Clients speak to it on standard input and output.`,
		Example: `  dragoman run
  echo '{"jsonrpc":"2.0","id":1,"method":"ping"}' | dragoman run`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return errors.New("this version runs the built-in server only: call 'dragoman run' without arguments")
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return serveEverything(c, &flags) },
	}
	flags.add(c)
	return c
}
