package interop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"

	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// crossMark is a client of mcp-go, used as one of another language is.
type crossMark struct {
	*mcpGo
	t     *testing.T
	notes *notifications
}

// cannot says why a feature cannot be tried with this client, or is empty.
func (c crossMark) cannot(feature string) string {
	if feature == "cancellation" && c.rev.HasSessions() {
		return "a client of mcp-go 1.2.1 does not tell a legacy server over HTTP that it has cancelled a call"
	}
	return ""
}

// crossMarkAnswers declines what every client declines.
type crossMarkAnswers struct{ mcpGoAnswers }

func (a crossMarkAnswers) Elicit(ctx context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	if r.Params.Message == crossRefuse {
		return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{Action: mcp.ElicitationResponseActionDecline}}, nil
	}
	return a.mcpGoAnswers.Elicit(ctx, r)
}

// crossMarkAt connects a client of mcp-go to a URL.
func crossMarkAt(t *testing.T, url, says string, rev protocol.Revision) (crossClient, *notifications) {
	t.Helper()
	opts := []transport.StreamableHTTPCOption{
		transport.WithHTTPBasicClient(connections(t)), transport.WithHTTPLogger(slog.New(slog.DiscardHandler)),
	}
	if rev.HasSessions() { // with it the client does not speak the modern era
		opts = append(opts, transport.WithContinuousListening())
	}
	wire, err := transport.NewStreamableHTTP(url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	c := client.NewClient(wire, client.WithProtocolVersion(rev.String()),
		client.WithSamplingHandler(crossMarkAnswers{}), client.WithElicitationHandler(crossMarkAnswers{}), client.WithRootsHandler(crossMarkAnswers{}))
	notes := newNotifications()
	c.OnNotification(func(n mcp.JSONRPCNotification) { notes.add(n.Method, n.Params) })
	if err := c.Start(context.Background()); err != nil { // its context is the conversation's
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("the conversation does not end in good order: %v", err)
		}
	})
	var hello mcp.InitializeRequest
	hello.Params.ClientInfo = mcp.Implementation{Name: "mcp-go", Version: "1.2.1"}
	got, err := c.Initialize(t.Context(), hello)
	if err != nil {
		t.Fatal(err)
	}
	if got.ProtocolVersion != rev.String() || got.ServerInfo.Name != says {
		t.Errorf("the conversation begins with %+v", got)
	}
	m := crossMark{&mcpGo{c, rev}, t, notes}
	var level mcp.SetLevelRequest
	level.Params.Level = mcp.LoggingLevelDebug
	if err := c.SetLevel(t.Context(), level); err != nil {
		t.Fatal(err)
	}
	return m, notes
}

// do calls a method by the name that it has in the TypeScript SDK.
func (c crossMark) do(ctx context.Context, method string, params object) (json.RawMessage, error) {
	var result any = object{}
	var err error
	text := func(name string) string { return crossOr(params[name]) }
	switch method {
	case "ping":
		err = c.Ping(ctx)
	case "setLoggingLevel":
		var r mcp.SetLevelRequest
		r.Params.Level = mcp.LoggingLevel(text("level"))
		err = c.SetLevel(ctx, r)
	case "listen":
		err = c.listens(params)
	case "subscribeResource":
		var r mcp.SubscribeRequest
		r.Params.URI = text("uri")
		err = c.Subscribe(ctx, r)
	case "unsubscribeResource":
		var r mcp.UnsubscribeRequest
		r.Params.URI = text("uri")
		err = c.Unsubscribe(ctx, r)
	case "listResources":
		result, err = c.ListResources(ctx, mcp.ListResourcesRequest{})
	case "listPrompts":
		result, err = c.ListPrompts(ctx, mcp.ListPromptsRequest{})
	case "readResource":
		var r mcp.ReadResourceRequest
		r.Params.URI = text("uri")
		result, err = c.ReadResource(ctx, r)
	case "getPrompt":
		var r mcp.GetPromptRequest
		r.Params.Name, r.Params.Arguments = text("name"), map[string]string{}
		for k, v := range params["arguments"].(object) {
			r.Params.Arguments[k] = fmt.Sprint(v)
		}
		result, err = c.GetPrompt(ctx, r)
	case "complete":
		var r mcp.CompleteRequest
		r.Params.Ref = mcp.PromptReference{Type: "ref/prompt", Name: crossOr(params["ref"].(object)["name"])}
		r.Params.Argument = mcp.CompleteArgument{Name: "name", Value: crossOr(params["argument"].(object)["value"])}
		result, err = c.Complete(ctx, r)
	default:
		err = fmt.Errorf("there is no method %s", method)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(result)
}

// listens opens the subscription of a modern client, until the test is over.
func (c crossMark) listens(params object) error {
	filter := decode[mcp.SubscriptionFilter](c.t, params)
	c.t.Cleanup(c.listen(c.t, c.notes, filter))
	return nil
}
