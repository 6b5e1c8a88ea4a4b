package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/everything"
	"github.com/dragoman-mcp/dragoman/transport/sse"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
	"github.com/spf13/cobra"
)

func runCommand() *cobra.Command {
	var listen string
	var debug bool
	c := &cobra.Command{
		Use:   "run",
		Short: "Run a server on every transport; the built-in one if none is named",
		Long: `Run a server and let clients reach it.

Without arguments it is the built-in server, which has every feature of MCP in
every revision. It listens on this machine alone unless --listen says otherwise,
and serves /mcp (Streamable HTTP, every revision), /sse with /messages (HTTP+SSE
of 2024-11-05) and /healthz, and besides whoever speaks to its standard input, one
message a line. It stops on SIGINT and SIGTERM, after the requests under way.

For a server that ends with its standard input see "dragoman everything".`,
		Example: `  dragoman run
  dragoman run --listen 127.0.0.1:0`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return errors.New("this version runs the built-in server only: call 'dragoman run' without arguments")
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return runEverything(c, listen, debug) },
	}
	c.Flags().StringVar(&listen, "listen", defaultListen, "address to listen on; port 0 picks a free one")
	c.Flags().BoolVar(&debug, "debug", false, "log every step to standard error (also: "+debugVariable+"=1)")
	return c
}

// runEverything serves the built-in server on every HTTP transport.
func runEverything(c *cobra.Command, listen string, flag bool) error {
	var changed *bool
	if c.Flags().Changed("debug") {
		changed = &flag
	}
	debug, err := decideDebug(changed, os.Getenv(debugVariable), nil)
	if err != nil {
		return err
	}
	log := logger(debug)
	server := everything.New(&everything.Options{Version: versionText()})
	mcp := &streamable.Server{Sessions: server, Requests: server.Requests(), Logger: log}
	old := &sse.Server{Acceptor: server, Logger: log}
	mux := http.NewServeMux()
	mux.Handle("/mcp", mcp)
	mux.Handle("/sse", old.Stream())
	mux.Handle("/messages", old.Messages())
	mux.HandleFunc("GET /healthz", healthz)
	var here sync.WaitGroup
	defer here.Wait()
	return serveHTTP(c.Context(), listen, mux, log, func(at net.Addr) {
		fmt.Fprintf(os.Stderr, "dragoman: ready: http://%[1]s/mcp (Streamable HTTP), http://%[1]s/sse (HTTP+SSE), standard input and output\n", at)
		// Ends at the end of standard input, which ends nothing else, or with ctx.
		here.Go(func() {
			ignoreTerminalStops()
			if err := stdio.Serve(c.Context(), server, &stdio.Options{Logger: log}); err != nil && c.Context().Err() == nil {
				log.Debug("standard input is not served any more", "error", err)
			}
		})
	}, mcp, old)
}
