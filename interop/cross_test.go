package interop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A crossing is a client of one era with a server of the other, both of official
// SDKs, and the bridge in between. All servers have the same tools: see
// crossGoServer.

const (
	crossWatched = "test://watched"   // the resource that the tool touch changes
	crossRefuse  = "Refuse to say it" // what every client declines
)

// A crossClient is a client in a conversation with a bridge.
type crossClient interface {
	sdk

	// do calls a method by the name that it has in the TypeScript SDK.
	do(ctx context.Context, method string, params object) (json.RawMessage, error)
}

// crossGoServerOf starts a server of the Go SDK that speaks one era.
func crossGoServerOf(t *testing.T, era protocol.Era, transport string) *crossServer {
	t.Helper()
	s := &crossServer{kind: "Go", era: era, transport: transport, journal: filepath.Join(t.TempDir(), "journal")}
	if transport == "stdio" {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		s.command, s.env = []string{self}, []string{crossEra + "=" + era.String(), crossJournal + "=" + s.journal}
		return s
	}
	s.serveGo(t, era.String(), era == protocol.Modern)
	return s
}

// serveGo serves the server of the Go SDK over Streamable HTTP.
func (s *crossServer) serveGo(t *testing.T, eras string, stateless bool) {
	t.Helper()
	server := crossGoServer(eras, s.journal)
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: stateless, PropagateRequestCancellation: stateless}))
	t.Cleanup(web.Close)
	s.url = web.URL
}

// crossGoClient connects a client of the Go SDK to a server through a bridge.
func crossGoClient(t *testing.T, s *crossServer, door string, rev protocol.Revision) (crossClient, *notifications) {
	t.Helper()
	var wire mcp.Transport
	switch door {
	case "stdio":
		wire = crossGoStdio(t, s.connect(t))
	case "http":
		wire = &mcp.StreamableClientTransport{Endpoint: s.listen(t) + "/mcp", HTTPClient: connections(t)}
	case "sse":
		wire = &mcp.SSEClientTransport{Endpoint: s.listen(t) + "/sse", HTTPClient: connections(t)}
	}
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
	if hello.ProtocolVersion != rev.String() || hello.ServerInfo == nil || hello.ServerInfo.Name != s.says() {
		t.Errorf("the conversation begins with %+v, server %+v", hello, hello.ServerInfo)
	}
	return crossGo{&goSDK{session, rev}}, notes
}

func crossOther(era protocol.Era) protocol.Era {
	if era == protocol.Modern {
		return protocol.Legacy
	}
	return protocol.Modern
}

func TestCrossGoSDKClientUsesAGoSDKServerOfTheOtherEra(t *testing.T) {
	t.Parallel()
	for _, rev := range []protocol.Revision{protocol.V20260728, protocol.V20251125, protocol.V20250618} {
		other := crossOther(rev.Era())
		for _, door := range []string{"stdio", "http", "sse"} {
			if door == "sse" && !rev.HasSessions() {
				continue
			}
			for _, transport := range []string{"stdio", "http"} {
				t.Run(fmt.Sprintf("%s over %s to %s over %s", rev, door, other, transport), func(t *testing.T) {
					t.Parallel()
					s := crossGoServerOf(t, other, transport)
					c, notes := crossGoClient(t, s, door, rev)
					cross(t, s, c, notes, rev)
				})
			}
		}
	}
}

// A stateless server of the Go SDK speaks both eras, but can neither ask nor
// notify a legacy client.
func TestCrossGoSDKLegacyClientUsesAStatelessGoSDKServerOfBothEras(t *testing.T) {
	t.Parallel()
	for _, door := range []string{"stdio", "http", "sse"} {
		t.Run(door, func(t *testing.T) {
			t.Parallel()
			s := &crossServer{kind: "Go", era: protocol.Modern, transport: "http", journal: filepath.Join(t.TempDir(), "journal")}
			s.serveGo(t, crossBoth, true)
			c, notes := crossGoClient(t, s, door, protocol.V20251125)
			cross(t, s, c, notes, protocol.V20251125)
		})
	}
}
