package interop_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
	"github.com/mark3labs/mcp-go/client/transport"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// serveHTTP serves our built-in server over Streamable HTTP, in all revisions or
// in some, and returns its URL.
func serveHTTP(t *testing.T, revisions ...protocol.Revision) string {
	t.Helper()
	if len(revisions) == 0 {
		revisions = protocol.Revisions()
	}
	server := builtin.New(&builtin.Options{Revisions: revisions})
	s := &streamable.Server{}
	if slices.ContainsFunc(revisions, protocol.Revision.HasSessions) {
		s.Sessions = server
	}
	if !slices.ContainsFunc(revisions, protocol.Revision.HasSessions) || slices.Contains(revisions, protocol.Latest) {
		s.Requests = server.Requests()
	}
	web := httptest.NewServer(s)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("the server does not end: %v", err)
		}
		web.Close()
	})
	return web.URL + "/mcp"
}

// eachOverHTTP runs a test in every revision that Streamable HTTP can carry.
func eachOverHTTP(t *testing.T, f func(t *testing.T, rev protocol.Revision)) {
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		if !rev.HasStreamableHTTP() {
			t.Skip("not defined on this transport")
		}
		f(t, rev)
	})
}

// goSDKOverOurs connects a client of the official Go SDK to a URL. Without a
// revision it asks for its newest.
func goSDKOverOurs(t *testing.T, url, revision string) (*goSDK, *notifications) {
	t.Helper()
	client, notes := newGoSDK(true)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: connections(t)},
		&mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Errorf("the conversation does not end in good order: %v", err)
		}
	})
	return &goSDK{session, protocol.ParseRevision(session.InitializeResult().ProtocolVersion)}, notes
}

func TestB06_GoSDKClientUsesEverythingOverHTTP(t *testing.T) {
	t.Parallel()
	eachOverHTTP(t, func(t *testing.T, rev protocol.Revision) {
		c, notes := goSDKOverOurs(t, serveHTTP(t), rev.String())
		if c.rev != rev {
			t.Fatalf("the conversation is in %s", c.rev)
		}
		if rev.HasSessions() {
			if err := c.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "debug"}); err != nil {
				t.Fatal(err)
			}
		}
		callEveryTool(t, rev, c, notes)
		callAtOnce(t, c, atOnce(rev))
		goSDKResources(t, c)
		goSDKPrompts(t, c)
		goSDKCompletions(t, c)
	})
}

// oneEra are servers that know one era only, and what a client of both ends up
// with.
var oneEra = map[string]struct {
	served []protocol.Revision
	want   protocol.Revision
}{
	"legacy":     {[]protocol.Revision{protocol.V20251125, protocol.V20250618, protocol.V20250326}, protocol.V20251125},
	"old legacy": {[]protocol.Revision{protocol.V20250326}, protocol.V20250326},
	"modern":     {[]protocol.Revision{protocol.V20260728}, protocol.V20260728},
}

func TestGoSDKClientFindsOutWhatOurServerSpeaks(t *testing.T) {
	t.Parallel()
	for name, era := range oneEra {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, notes := goSDKOverOurs(t, serveHTTP(t, era.served...), "")
			if c.rev != era.want {
				t.Errorf("the conversation is in %s, want %s", c.rev, era.want)
			}
			callTool(t, c, notes, "session", expectations(era.want)["session"])
		})
	}
}

func TestB06_MCPGoClientUsesEverythingOverHTTP(t *testing.T) {
	t.Parallel()
	eachOverHTTP(t, func(t *testing.T, rev protocol.Revision) {
		opts := []transport.StreamableHTTPCOption{
			transport.WithHTTPBasicClient(connections(t)), transport.WithHTTPLogger(slog.New(slog.DiscardHandler)),
		}
		if rev.HasSessions() { // with it the client does not speak the modern era
			opts = append(opts, transport.WithContinuousListening())
		}
		wire, err := transport.NewStreamableHTTP(serveHTTP(t), opts...)
		if err != nil {
			t.Fatal(err)
		}
		c, notes := startMCPGo(t, wire, rev)
		var level mcpgo.SetLevelRequest
		level.Params.Level = mcpgo.LoggingLevelDebug
		if err := c.SetLevel(t.Context(), level); err != nil {
			t.Fatal(err)
		}
		if rev.HasListen() {
			defer c.listen(t, notes, mcpgo.SubscriptionFilter{ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true})()
		}
		callEveryTool(t, rev, c, notes)
		callAtOnce(t, c, atOnce(rev))
		mcpGoResources(t, c)
		mcpGoPrompts(t, c)
		mcpGoCompletions(t, c)
	})
}
