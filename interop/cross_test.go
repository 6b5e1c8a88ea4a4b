package interop_test

import (
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

// crossWatched is the resource that the tool touch changes.
const crossWatched = "test://watched"

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
		for _, endpoint := range []string{"stdio", "http", "sse"} {
			if endpoint == "sse" && !rev.HasSessions() {
				continue
			}
			for _, transport := range []string{"stdio", "http"} {
				t.Run(fmt.Sprintf("%s over %s to %s over %s", rev, endpoint, other, transport), func(t *testing.T) {
					t.Parallel()
					s := crossGoServerOf(t, other, transport)
					cross(t, s, s.meet(t, connectGoSDK, endpoint, rev))
				})
			}
		}
	}
}

// A stateless server of the Go SDK speaks both eras, but can neither ask nor
// notify a legacy client.
func TestCrossGoSDKLegacyClientUsesAStatelessGoSDKServerOfBothEras(t *testing.T) {
	t.Parallel()
	for _, endpoint := range []string{"stdio", "http", "sse"} {
		t.Run(endpoint, func(t *testing.T) {
			t.Parallel()
			s := &crossServer{kind: "Go", era: protocol.Modern, transport: "http", journal: filepath.Join(t.TempDir(), "journal")}
			s.serveGo(t, crossBoth, true)
			cross(t, s, s.meet(t, connectGoSDK, endpoint, protocol.V20251125))
		})
	}
}
