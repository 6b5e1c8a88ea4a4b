package interop_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A gatewayClient connects a client to a URL of a gateway.
type gatewayClient struct {
	name string
	rev  protocol.Revision
	open func(t *testing.T, url, says string, rev protocol.Revision) (crossClient, *notifications)
}

var gatewayClients = []gatewayClient{
	{"Go SDK", protocol.V20260728, crossGoAt},
	{"Go SDK", protocol.V20251125, crossGoAt},
	{"mcp-go", protocol.V20260728, crossMarkAt},
	{"mcp-go", protocol.V20251125, crossMarkAt},
}

// crossGoAt connects a client of the Go SDK to a URL.
func crossGoAt(t *testing.T, url, says string, rev protocol.Revision) (crossClient, *notifications) {
	t.Helper()
	var wire mcp.Transport = &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: connections(t)}
	if strings.HasSuffix(url, "/sse") {
		wire = &mcp.SSEClientTransport{Endpoint: url, HTTPClient: connections(t)}
	}
	return crossGoOver(t, wire, says, rev)
}

func crossGoOver(t *testing.T, wire mcp.Transport, says string, rev protocol.Revision) (crossClient, *notifications) {
	t.Helper()
	client, notes := newCrossGo()
	session, err := client.Connect(t.Context(), wire, &mcp.ClientSessionOptions{ProtocolVersion: rev.String()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Errorf("the conversation does not end in good order: %v", err)
		}
	})
	hello := session.InitializeResult()
	if hello.ProtocolVersion != rev.String() || hello.ServerInfo == nil || hello.ServerInfo.Name != says {
		t.Errorf("the conversation begins with %+v, server %+v", hello, hello.ServerInfo)
	}
	return crossGo{&goSDK{session, rev}}, notes
}

// gatewayOf starts a gateway with a server of the Go SDK and one of mcp-go, to
// which it speaks in one era.
func gatewayOf(t *testing.T, s *crossServer, era protocol.Era) string {
	t.Helper()
	m := &crossServer{kind: "mcp-go", era: era, pinned: true, transport: "stdio", command: []string{mcpGoProgram.in(t)}}
	return serveFile(t, gatewayFile(t, "dragoman.json", object{"servers": object{"official": s.configured(), "mark": m.configured()}}))
}

// official is a client of all servers as one that uses the Go SDK's.
func official(c crossClient) crossClient {
	return &prefixed{c, "official_", func(uri string) bool { return uri == "test://text" || uri == crossWatched }}
}

// mark is a client of all servers as one that uses mcp-go's.
func mark(c crossClient) crossClient {
	return &prefixed{c, "mark_", func(uri string) bool { return uri != "test://text" && uri != crossWatched }}
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
	var url string
	open := func(t *testing.T) string { return url }
	if s.cannot("list changes after subscriptions") == "" {
		url = gatewayOf(t, s, protocol.Modern)
	} else { // when a client leaves, the server forgets that the gateway wants list changes
		open = func(t *testing.T) string { return gatewayOf(t, s, protocol.Modern) }
	}
	for _, client := range gatewayClients {
		t.Run(fmt.Sprintf("%s %s among all", client.name, client.rev), func(t *testing.T) {
			c, notes := client.open(t, open(t)+"/mcp", gatewayName, client.rev)
			cross(t, s, official(c), notes, client.rev)
		})
		t.Run(fmt.Sprintf("%s %s by itself", client.name, client.rev), func(t *testing.T) {
			c, notes := client.open(t, open(t)+"/servers/official/mcp", s.says(), client.rev)
			cross(t, s, c, notes, client.rev)
		})
	}
	t.Run("Go SDK over SSE among all", func(t *testing.T) {
		c, notes := crossGoAt(t, open(t)+"/sse", gatewayName, protocol.V20251125)
		cross(t, s, official(c), notes, protocol.V20251125)
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
			c, notes := crossGoOver(t, &mcp.CommandTransport{Command: cmd, TerminateDuration: patience}, gatewayName, rev)
			cross(t, s, official(c), notes, rev)
		})
	}
}

func TestGatewayClientsSeeTheToolsOfAllServers(t *testing.T) {
	t.Parallel()
	s := crossGoServerOf(t, protocol.Modern, "http")
	url := gatewayOf(t, s, protocol.Modern)
	for _, client := range gatewayClients {
		c, notes := client.open(t, url+"/mcp", gatewayName, client.rev)
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
		callTool(t, c, notes, "echo", expected{raises: "nknown tool"})
		callTool(t, c, notes, "official_echo", expected{args: object{"text": "a"}, text: "a"})
		callTool(t, c, notes, "mark_echo", expected{args: object{"text": "b"}, text: "b"})
	}
}
