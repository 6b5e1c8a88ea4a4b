package interop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/protocol"
	mcpgoclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// mcpGo is a client of mark3labs/mcp-go.
type mcpGo struct {
	*mcpgoclient.Client
	t     *testing.T
	notes *notifications
}

// mcpGoAnswers are its handlers of server requests.
type mcpGoAnswers struct{}

func (mcpGoAnswers) CreateMessage(_ context.Context, r mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	return answerAs[*mcp.CreateMessageResult](protocol.MethodCreateMessage, r.CreateMessageParams)
}

func (mcpGoAnswers) Elicit(_ context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	return answerAs[*mcp.ElicitationResult](protocol.MethodElicit, r.Params)
}

func (mcpGoAnswers) ListRoots(context.Context, mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	return answerAs[*mcp.ListRootsResult](protocol.MethodListRoots, nil)
}

// connectMCPGo connects a client of mcp-go. Over HTTP+SSE it cannot be asked.
func connectMCPGo(t *testing.T, to []string, rev protocol.Revision) *session {
	t.Helper()
	able := []mcpgoclient.ClientOption{
		mcpgoclient.WithSamplingHandler(mcpGoAnswers{}), mcpgoclient.WithElicitationHandler(mcpGoAnswers{}), mcpgoclient.WithRootsHandler(mcpGoAnswers{}),
		mcpgoclient.WithClientCapabilities(mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{Form: &struct{}{}, URL: &struct{}{}}}),
	}
	quiet := slog.New(slog.DiscardHandler)
	var wire transport.Interface
	var err error
	s := &session{notes: newNotifications()}
	switch {
	case !isURL(to):
		wire = transport.NewStdioWithOptions(to[0], nil, to[1:], transport.WithCommandLogger(quiet))
	case strings.HasSuffix(to[0], "/sse"):
		able = nil
		wire, err = transport.NewSSE(to[0], transport.WithHTTPClient(connections(t)), transport.WithSSELogger(quiet))
	default:
		opts := []transport.StreamableHTTPCOption{transport.WithHTTPBasicClient(connections(t)), transport.WithHTTPLogger(quiet)}
		if rev.HasSessions() { // with it the client does not speak the modern era
			opts = append(opts, transport.WithContinuousListening())
			s.cannot = map[string]string{"cancellation": "a client of mcp-go 1.2.1 does not tell a legacy server over HTTP that it has cancelled a call"}
		}
		wire, err = transport.NewStreamableHTTP(to[0], opts...)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := mcpgoclient.NewClient(wire, append(able, mcpgoclient.WithProtocolVersion(rev.String()))...)
	c.OnNotification(func(n mcp.JSONRPCNotification) { s.notes.add(n.Method, n.Params) })
	if err := c.Start(context.Background()); err != nil { // the client ends the connection when this context ends
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil && able != nil {
			t.Errorf("the connection does not end in good order: %v", err)
		}
	})
	var hello mcp.InitializeRequest
	hello.Params.ClientInfo = mcp.Implementation{Name: "mcp-go", Version: "1.2.1"}
	got, err := c.Initialize(t.Context(), hello)
	if err != nil {
		t.Fatal(err)
	}
	s.sdkClient, s.server, s.rev = &mcpGo{c, t, s.notes}, got.ServerInfo.Name, protocol.ParseRevision(got.ProtocolVersion)
	if able != nil {
		s.want(t, "setLoggingLevel", object{"level": "debug"})
	}
	return s
}

func (c *mcpGo) tools(ctx context.Context) ([]string, error) {
	list, err := c.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	return names, nil
}

func (c *mcpGo) call(ctx context.Context, name string, args object, token string) (any, error) {
	var req mcp.CallToolRequest
	req.Params.Name = name
	if args != nil {
		req.Params.Arguments = args // a nil map would become null, which is no object
	}
	if token != "" {
		req.Params.Meta = &mcp.Meta{ProgressToken: token}
	}
	return c.CallTool(ctx, req)
}

func (c *mcpGo) do(ctx context.Context, method string, params object) (json.RawMessage, error) {
	var result any = object{}
	var err error
	req := object{"params": params}
	switch method {
	case "ping":
		err = c.Ping(ctx)
	case "setLoggingLevel":
		result, err = tell(ctx, req, c.SetLevel)
	case "listen":
		c.listen(params)
	case "subscribeResource":
		result, err = tell(ctx, req, c.Subscribe)
	case "unsubscribeResource":
		result, err = tell(ctx, req, c.Unsubscribe)
	case "listResources":
		result, err = ask(ctx, req, c.ListResources)
	case "listResourceTemplates":
		result, err = ask(ctx, req, c.ListResourceTemplates)
	case "listPrompts":
		result, err = ask(ctx, req, c.ListPrompts)
	case "readResource":
		result, err = ask(ctx, req, c.ReadResource)
	case "getPrompt":
		result, err = ask(ctx, req, c.GetPrompt)
	case "complete":
		result, err = ask(ctx, req, c.Complete)
	default:
		err = fmt.Errorf("there is no method %s", method)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(result)
}

// listen opens the subscription of a modern client, until the test is over, and waits until it
// is open.
func (c *mcpGo) listen(params object) {
	c.t.Helper()
	stop, err := c.ListenAsync(c.t.Context(), decode[mcp.SubscriptionFilter](c.t, params), func(err error) { c.t.Errorf("listen: %v", err) })
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(stop)
	c.notes.wait(c.t, 1, protocol.NoteAcknowledged, "")
}
