// Command dragoman bridges MCP clients and servers over any transport and any
// protocol revision.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/spf13/cobra"
)

func main() {
	stdio.Guard()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	c := root()
	c.SetArgs(joinOptional(os.Args[1:]))
	err := c.ExecuteContext(ctx)
	interrupted := ctx.Err() != nil
	stop()
	if err != nil && (!interrupted || !errors.Is(err, context.Canceled)) {
		fmt.Fprintf(os.Stderr, "dragoman: %v\n", err)
		os.Exit(1)
	}
}

func root() *cobra.Command {
	c := &cobra.Command{
		Use:           "dragoman",
		Short:         "Any MCP client, any MCP server, any transport, any protocol revision",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       versionText(),
	}
	c.CompletionOptions.HiddenDefaultCmd = true
	c.AddCommand(runCommand(), connectCommand(), serveCommand(), statusCommand(), reloadCommand(), restartCommand(), logsCommand(),
		everythingCommand(), configCommand(), versionCommand())
	return c
}
