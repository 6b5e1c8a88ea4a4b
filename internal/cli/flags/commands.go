package flags

import (
	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/spf13/cobra"
)

// NewConnectCommand returns the command that reads the settings for do.
func NewConnectCommand(do func(*cobra.Command, *Settings) error) *cobra.Command {
	s := &Settings{}
	c := &cobra.Command{
		Use:   "connect [flags] URL | -- command [args...]",
		Short: "Bring a server to standard input and output",
		Long: `Reach a server, and speak for it on our standard input and output: for hosts that
can only start a command.

The server is a URL or a command, as for "dragoman run". It may be of another
revision than the host. We end when standard input does. What the host asks while the
server cannot be reached is answered by an error that says why; a command that cannot be
started is told at once.

A server that wants a sign-in gets one: a browser opens, and what the host asks waits for
that. The sign-in is kept, and shared with all other processes of this user.

The flags of mcp-remote, and those of mcp-proxy for URLs, are understood too: see
docs/migrate.md.`,
		Example: `  dragoman connect https://mcp.example.com/mcp -H 'Authorization: Bearer ${TOKEN}'
  dragoman connect unix:/run/server.sock
  dragoman connect -- uvx some-server`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			extra, err := s.takeArguments(c, args)
			switch {
			case err != nil:
				return term.Usage("%w", err)
			case helpWanted(c):
				return c.Help()
			case s.URL == "" && s.Command == nil:
				return term.Usage("no server is named: give its URL, or -- and its command")
			}
			if len(extra) > 0 {
				if err := s.SignIn.callbackPort(extra[0]); err != nil || len(extra) > 1 {
					return term.Usage("%q follows the URL; one server can be named", extra[len(extra)-1])
				}
			}
			return do(c, s)
		},
	}
	s.AddServer(c.Flags())
	c.Flags().StringVar(&s.Framing, "framing", stdio.Auto.String(), "how answers are framed: auto (as the host does), lines or content-length")
	s.addAliases(c.Flags(), connectPrograms)
	c.Flags().SetInterspersed(false)
	return c
}

// NewRunCommand returns the command that reads the settings for do.
func NewRunCommand(do func(*cobra.Command, *Settings) error) *cobra.Command {
	s := &Settings{}
	c := &cobra.Command{
		Use:   "run [flags] [-- command [args...] | URL]",
		Short: "Serve a server on every transport; the built-in one if none is named",
		Long: `Run a server, or reach one, and let clients of every transport and revision to it.

The server is a command that speaks MCP on its standard input and output, or a URL:
http:// and https:// (Streamable HTTP, or HTTP+SSE if that is what it speaks), ws://
and wss:// (WebSocket), tcp:HOST:PORT and unix:PATH (messages on a socket),
unix://PATH:/mcp (HTTP on a Unix socket). Without one it is the built-in server,
which has every feature of MCP in every revision.

It is served on /mcp (Streamable HTTP), /sse with /messages (HTTP+SSE), /ws
(WebSocket), /call and /call/TOOL (tool calls over plain HTTP), and to whoever speaks
to our own standard input. Only this machine is listened to unless --listen says
otherwise. We stop on SIGINT and SIGTERM, after the requests in flight.

The flags of supergateway and mcp-proxy are understood too: see docs/migrate.md.`,
		Example: `  dragoman run
  dragoman run -- npx -y @modelcontextprotocol/server-everything
  dragoman run -e API_KEY --listen 127.0.0.1:0 -- uvx some-server
  dragoman run https://mcp.example.com/mcp -H 'Authorization: Bearer ${TOKEN}'`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			extra, err := s.takeArguments(c, args)
			switch {
			case err != nil:
				return term.Usage("%w", err)
			case helpWanted(c):
				return c.Help()
			case len(extra) > 0:
				return term.Usage("%q follows the URL; one server can be named", extra[0])
			}
			return do(c, s)
		},
	}
	s.AddServer(c.Flags())
	s.addListener(c.Flags())
	s.addAliases(c.Flags(), runPrograms)
	c.Flags().SetInterspersed(false)
	return c
}

// helpWanted reports whether --help stands behind the URL, where cobra does not
// look.
func helpWanted(c *cobra.Command) bool {
	help, err := c.Flags().GetBool("help")
	return err == nil && help
}
