package interop_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/sse"
	mcpgoclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// eachLegacy runs a test in every revision that HTTP+SSE can carry.
func eachLegacy(t *testing.T, f func(t *testing.T, rev protocol.Revision)) {
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		if !rev.HasSessions() {
			t.Skip("not defined on this transport")
		}
		f(t, rev)
	})
}

// serveSSE serves our built-in server over HTTP+SSE and returns the URL of the
// event stream.
func serveSSE(t *testing.T) string {
	t.Helper()
	s := &sse.Server{Acceptor: builtin.New(nil)}
	m := http.NewServeMux()
	m.Handle("/some/prefix/sse", s.Stream())
	m.Handle("/some/prefix/messages", s.Messages())
	web := httptest.NewServer(m)
	t.Cleanup(func() {
		s.Close()
		web.Close()
	})
	return web.URL + "/some/prefix/sse"
}

// connections returns a client whose connections are closed with the test.
func connections(t *testing.T) *http.Client {
	tr := &http.Transport{MaxIdleConnsPerHost: 16}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func TestB14_GoSDKClientCallsEveryToolOverHTTPAndSSE(t *testing.T) {
	t.Parallel()
	eachLegacy(t, func(t *testing.T, rev protocol.Revision) {
		client, notes := newGoSDK(true)
		session, err := client.Connect(t.Context(), &mcp.SSEClientTransport{Endpoint: serveSSE(t), HTTPClient: connections(t)},
			&mcp.ClientSessionOptions{ProtocolVersion: rev.String()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { session.Close() })
		if got := session.InitializeResult().ProtocolVersion; got != rev.String() {
			t.Fatalf("the conversation is in %s", got)
		}
		if err := session.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "debug"}); err != nil {
			t.Fatal(err)
		}
		c := &goSDK{session, rev}
		callEveryTool(t, rev, c, notes)
		callAtOnce(t, c, atOnce(rev))
	})
}

// It asks for server/discover first, which is not served here.
func TestGoSDKClientThatNegotiatesFallsBackOverHTTPAndSSE(t *testing.T) {
	t.Parallel()
	client, notes := newGoSDK(true)
	session, err := client.Connect(t.Context(), &mcp.SSEClientTransport{Endpoint: serveSSE(t), HTTPClient: connections(t)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	rev := protocol.V20251125
	if got := session.InitializeResult().ProtocolVersion; got != rev.String() {
		t.Fatalf("the conversation is in %s", got)
	}
	callTool(t, &goSDK{session, rev}, notes, "echo", expectations(rev)["echo"])
}

// The client of mcp-go cannot be asked over this transport.
func TestB14_MCPGoClientCallsToolsOverHTTPAndSSE(t *testing.T) {
	t.Parallel()
	eachLegacy(t, func(t *testing.T, rev protocol.Revision) {
		quiet := transport.WithSSELogger(slog.New(slog.DiscardHandler))
		wire, err := transport.NewSSE(serveSSE(t), transport.WithHTTPClient(connections(t)), quiet)
		if err != nil {
			t.Fatal(err)
		}
		c := mcpgoclient.NewClient(wire, mcpgoclient.WithProtocolVersion(rev.String()))
		notes := newNotifications()
		c.OnNotification(func(n mcpgo.JSONRPCNotification) { notes.add(n.Method, n.Params) })
		if err := c.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		var init mcpgo.InitializeRequest
		init.Params.ClientInfo = mcpgo.Implementation{Name: "mcp-go", Version: "1.2.1"}
		got, err := c.Initialize(t.Context(), init)
		if err != nil || got.ProtocolVersion != rev.String() {
			t.Fatalf("the conversation begins with %+v, %v", got, err)
		}
		client := &mcpGo{c, rev}
		all := expectations(rev)
		names := []string{"echo", "add", "large", "raise", "links", "session", "slow", "test_tool_with_progress", "test_image_content"}
		listed, err := client.tools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		some := map[string]expected{}
		for _, name := range names {
			if !slices.Contains(listed, name) {
				t.Errorf("%s is not listed", name)
			}
			callTool(t, client, notes, name, all[name])
			if name != "raise" && name != "large" {
				some[name] = all[name]
			}
		}
		callAtOnce(t, client, some)
	})
}

// sdkServer is a small server of the official SDK that tells and asks.
func sdkServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "go-sdk", Version: "1.8.0"}, nil)
	type text struct {
		Text string `json:"text"`
	}
	say := func(text string) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
	}
	mcp.AddTool(s, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, in text) (*mcp.CallToolResult, any, error) {
		return say(in.Text), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "progress"}, func(ctx context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		for i := range 3 {
			note := &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1)}
			if note.ProgressToken == nil {
				break
			}
			if err := r.Session.NotifyProgress(ctx, note); err != nil {
				return nil, nil, err
			}
		}
		return say("three steps"), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "ask"}, func(ctx context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		answer, err := r.Session.CreateMessage(ctx, &mcp.CreateMessageParams{
			MaxTokens: 10, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "What is the capital?"}}},
		})
		if err != nil {
			return nil, nil, err
		}
		return say(answer.Content.(*mcp.TextContent).Text), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "wait"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		<-ctx.Done()
		return nil, nil, ctx.Err()
	})
	return s
}

func TestB15_OurClientTalksToTheGoSDKServerOverHTTPAndSSE(t *testing.T) {
	t.Parallel()
	eachLegacy(t, func(t *testing.T, rev protocol.Revision) {
		server := sdkServer()
		web := httptest.NewServer(mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return server }, nil))
		t.Cleanup(web.Close)
		c, _ := begin(t, &sse.Client{URL: web.URL}, rev)
		rows := map[string]expected{
			"echo":     {args: object{"text": "hello, wörld"}, text: "hello, wörld"},
			"progress": {args: object{}, text: "three steps", progress: 3},
			"ask":      {args: object{}, text: modelSays},
		}
		for name, row := range rows {
			callTool(t, c, c.notes, name, row)
		}
		callAtOnce(t, c, rows)
		callWaiting(t, c, "wait")
		c.want(protocol.MethodPing, object{})
		server.RemoveTools("wait")
		c.notes.wait(t, 1, protocol.NoteToolsChanged, "")
	})
}

func TestB15_OurClientTalksToTheMCPGoServerOverHTTPAndSSE(t *testing.T) {
	t.Parallel()
	eachLegacy(t, func(t *testing.T, rev protocol.Revision) {
		s := mcpgoserver.NewMCPServer("mcp-go", "1.2.1", mcpgoserver.WithToolCapabilities(true))
		s.AddTool(mcpgo.NewTool("echo", mcpgo.WithString("text")), func(_ context.Context, r mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
			return mcpgo.NewToolResultText(r.GetString("text", "")), nil
		})
		s.AddTool(mcpgo.NewTool("fail"), func(context.Context, mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
			return nil, io.ErrUnexpectedEOF
		})
		handler := mcpgoserver.NewSSEServer(s)
		web := httptest.NewServer(handler)
		t.Cleanup(func() {
			handler.CloseSessions()
			web.Close()
		})
		c, _ := begin(t, &sse.Client{URL: web.URL}, rev) // its stream is at /sse
		rows := map[string]expected{"echo": {args: object{"text": "hello, wörld"}, text: "hello, wörld"}}
		callTool(t, c, c.notes, "echo", rows["echo"])
		callTool(t, c, c.notes, "fail", expected{args: object{}, raises: io.ErrUnexpectedEOF.Error()})
		callAtOnce(t, c, rows)
		s.AddTool(mcpgo.NewTool("another"), func(context.Context, mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
			return mcpgo.NewToolResultText(""), nil
		})
		c.notes.wait(t, 1, protocol.NoteToolsChanged, "")
	})
}
