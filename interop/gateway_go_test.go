package interop_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// gatewayClients are clients that reach a gateway at a URL.
var gatewayClients = []struct {
	name    string
	rev     protocol.Revision
	connect connector
}{
	{"Go SDK", protocol.V20260728, connectGoSDK},
	{"Go SDK", protocol.V20251125, connectGoSDK},
	{"mcp-go", protocol.V20260728, connectMCPGo},
	{"mcp-go", protocol.V20251125, connectMCPGo},
}

// gatewayOf starts a gateway with a server of the Go SDK and one of mcp-go, to
// which it speaks in one era.
func gatewayOf(t *testing.T, s *crossServer, era protocol.Era) string {
	t.Helper()
	m := &crossServer{kind: "mcp-go", era: era, pinned: true, transport: "stdio", command: []string{mcpGoProgram.in(t)}}
	return serveFile(t, gatewayFile(t, "dragoman.json", object{"servers": object{"official": s.configured(), "mark": m.configured()}}))
}

// official is a session with all servers as one with the Go SDK's.
func official(s *session) *session {
	return s.of("official_", func(uri string) bool { return uri == "test://text" || uri == crossWatched })
}

// mark is a session with all servers as one with mcp-go's.
func mark(s *session) *session {
	return s.of("mark_", func(uri string) bool { return uri != "test://text" && uri != crossWatched })
}

func TestGatewayClientsUseTheGoSDKServer(t *testing.T) {
	t.Parallel()
	for _, era := range []protocol.Era{protocol.Legacy, protocol.Modern} {
		for _, transport := range []string{"stdio", "http"} {
			t.Run(fmt.Sprintf("%s server over %s", era, transport), func(t *testing.T) {
				t.Parallel()
				useOfficial(t, crossGoServerOf(t, era, transport))
			})
		}
	}
}

// useOfficial uses a server of the Go SDK with each client, one after the other.
func useOfficial(t *testing.T, s *crossServer) {
	url := gatewayOf(t, s, protocol.Modern)
	for _, client := range gatewayClients {
		t.Run(fmt.Sprintf("%s %s among all", client.name, client.rev), func(t *testing.T) {
			cross(t, s, official(client.connect.open(t, []string{url + "/mcp"}, gatewayName, client.rev)))
		})
		t.Run(fmt.Sprintf("%s %s by itself", client.name, client.rev), func(t *testing.T) {
			cross(t, s, client.connect.open(t, []string{url + "/servers/official/mcp"}, s.says(), client.rev))
		})
	}
	t.Run("Go SDK over SSE among all", func(t *testing.T) {
		cross(t, s, official(connector(connectGoSDK).open(t, []string{url + "/sse"}, gatewayName, protocol.V20251125)))
	})
}

// A host starts the gateway as its one server.
func TestGatewayClientsUseTheGoSDKServerOverStdio(t *testing.T) {
	t.Parallel()
	for _, rev := range []protocol.Revision{protocol.V20260728, protocol.V20251125} {
		t.Run(rev.String(), func(t *testing.T) {
			t.Parallel()
			s := crossGoServerOf(t, crossOther(rev.Era()), "stdio")
			file := gatewayFile(t, "dragoman.json", object{"servers": object{"official": s.configured()}})
			cmd := gatewayCommand(t, "--stdio", file)
			cmd.Stderr = t.Output()
			c := openGoSDKOver(t, &mcp.CommandTransport{Command: cmd, TerminateDuration: killAfter}, rev, true)
			if c.server != gatewayName || c.rev != rev {
				t.Errorf("connected to %q in %s", c.server, c.rev)
			}
			cross(t, s, official(c))
		})
	}
}

func TestGatewayClientsSeeTheToolsOfAllServers(t *testing.T) {
	t.Parallel()
	s := crossGoServerOf(t, protocol.Modern, "http")
	url := gatewayOf(t, s, protocol.Modern)
	for _, client := range gatewayClients {
		c := client.connect.open(t, []string{url + "/mcp"}, gatewayName, client.rev)
		names, err := c.tools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"official_echo", "mark_echo", "mark_picture", "official_wait"} {
			if !slices.Contains(names, want) {
				t.Errorf("%s %s: %s is not among %q", client.name, client.rev, want, names)
			}
		}
		for _, name := range names {
			if !strings.HasPrefix(name, "official_") && !strings.HasPrefix(name, "mark_") {
				t.Errorf("%s %s: the tool %s is nobody's", client.name, client.rev, name)
			}
		}
		callTool(t, c, "echo", expected{raises: "nknown tool"})
		callTool(t, c, "official_echo", expected{args: object{"text": "a"}, text: "a"})
		callTool(t, c, "mark_echo", expected{args: object{"text": "b"}, text: "b"})
	}
}
