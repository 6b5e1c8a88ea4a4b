package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// mcpGo is a client of mark3labs/mcp-go.
type mcpGo struct {
	*client.Client
	rev protocol.Revision
}

// mcpGoAnswers are its handlers of questions.
type mcpGoAnswers struct{}

func (mcpGoAnswers) CreateMessage(_ context.Context, r mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	return answerAs[mcp.CreateMessageResult](protocol.MethodCreateMessage, r.CreateMessageParams)
}

func (mcpGoAnswers) Elicit(_ context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	return answerAs[mcp.ElicitationResult](protocol.MethodElicit, r.Params)
}

func (mcpGoAnswers) ListRoots(context.Context, mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	return answerAs[mcp.ListRootsResult](protocol.MethodListRoots, nil)
}

// dialMCPGo starts our built-in server under a client of mcp-go.
func dialMCPGo(t *testing.T, rev protocol.Revision) (*mcpGo, *notifications) {
	t.Helper()
	return startMCPGo(t, transport.NewStdioWithOptions(dragomanProgram.in(t), nil, []string{"everything"},
		transport.WithCommandLogger(slog.New(slog.DiscardHandler))), rev)
}

// startMCPGo begins a conversation of a client that can be asked everything.
func startMCPGo(t *testing.T, wire transport.Interface, rev protocol.Revision) (*mcpGo, *notifications) {
	t.Helper()
	c := client.NewClient(wire,
		client.WithProtocolVersion(rev.String()),
		client.WithSamplingHandler(mcpGoAnswers{}), client.WithElicitationHandler(mcpGoAnswers{}), client.WithRootsHandler(mcpGoAnswers{}),
		client.WithClientCapabilities(mcp.ClientCapabilities{
			Elicitation: &mcp.ElicitationCapability{Form: &struct{}{}, URL: &struct{}{}},
		}),
	)
	notes := newNotifications()
	c.OnNotification(func(n mcp.JSONRPCNotification) { notes.add(n.Method, n.Params) })
	// The client ends the conversation when this context ends.
	if err := c.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("the conversation did not end in good order: %v", err)
		}
	})
	var init mcp.InitializeRequest
	init.Params.ClientInfo = mcp.Implementation{Name: "mcp-go", Version: "1.2.1"}
	got, err := c.Initialize(t.Context(), init)
	if err != nil {
		t.Fatal(err)
	}
	if got.ProtocolVersion != rev.String() || got.ServerInfo.Name != "dragoman-everything" {
		t.Fatalf("the conversation begins with %+v", got)
	}
	return &mcpGo{c, rev}, notes
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

// listen opens the subscription by which a modern client hears of changes, and
// waits until it is open.
func (c *mcpGo) listen(t *testing.T, notes *notifications, filter mcp.SubscriptionFilter) (stop func()) {
	t.Helper()
	stop, err := c.ListenAsync(t.Context(), filter, func(err error) { t.Errorf("listen: %v", err) })
	if err != nil {
		t.Fatal(err)
	}
	notes.wait(t, 1, protocol.NoteAcknowledged, "")
	return stop
}

func TestE03_E09_MCPGoClientListsAndCallsEveryTool(t *testing.T) {
	t.Parallel()
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		c, notes := dialMCPGo(t, rev)
		var level mcp.SetLevelRequest
		level.Params.Level = mcp.LoggingLevelDebug
		if err := c.SetLevel(t.Context(), level); err != nil {
			t.Fatal(err)
		}
		if rev.HasListen() {
			defer c.listen(t, notes, mcp.SubscriptionFilter{ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true})()
		}
		callEveryTool(t, rev, c, notes)
	})
}

func TestE06_MCPGoClientMakesManyCallsAtOnce(t *testing.T) {
	t.Parallel()
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		c, _ := dialMCPGo(t, rev)
		callAtOnce(t, c, atOnce(rev))
	})
}

func TestMCPGoClientReadsResourcesPromptsAndCompletions(t *testing.T) {
	t.Parallel()
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		c, _ := dialMCPGo(t, rev)
		t.Run("resources", func(t *testing.T) { mcpGoResources(t, c) })
		t.Run("prompts", func(t *testing.T) { mcpGoPrompts(t, c) })
		t.Run("completions", func(t *testing.T) { mcpGoCompletions(t, c) })
		if rev.HasSessions() {
			if err := c.Ping(t.Context()); err != nil {
				t.Errorf("ping: %v", err)
			}
		}
	})
}

func mcpGoResources(t *testing.T, c *mcpGo) {
	ctx := t.Context()
	read := func(uri string) (*mcp.ReadResourceResult, error) {
		var req mcp.ReadResourceRequest
		req.Params.URI = uri
		return c.ReadResource(ctx, req)
	}
	list, err := c.ListResources(ctx, mcp.ListResourcesRequest{})
	if err != nil || len(list.Resources) < 4 {
		t.Fatalf("resources: %+v, %v", list, err)
	}
	for _, r := range list.Resources {
		got, err := read(r.URI)
		if r.Name == "asking-resource" && !c.rev.HasElicitation() {
			if err == nil {
				t.Errorf("%s was read without a question", r.URI)
			}
			continue
		}
		if err != nil || len(got.Contents) != 1 {
			t.Errorf("%s: %+v, %v", r.URI, got, err)
		}
	}
	templates, err := c.ListResourceTemplates(ctx, mcp.ListResourceTemplatesRequest{})
	if err != nil || len(templates.ResourceTemplates) != 2 {
		t.Errorf("templates: %+v, %v", templates, err)
	}
	got, err := read("test://template/7/data")
	if err != nil || len(got.Contents) != 1 {
		t.Fatalf("a resource of the template: %+v, %v", got, err)
	}
	content, ok := got.Contents[0].(mcp.TextResourceContents)
	if !ok || decode[object](t, json.RawMessage(content.Text))["id"] != "7" {
		t.Errorf("a resource of the template: %+v", got.Contents)
	}
	want := mcp.ErrResourceNotFound
	if c.rev.HasInputRounds() {
		want = mcp.ErrInvalidParams
	}
	if _, err := read("test://nowhere"); !errors.Is(err, want) {
		t.Errorf("a resource that is not there: %v", err)
	}
}

func mcpGoPrompts(t *testing.T, c *mcpGo) {
	ctx := t.Context()
	list, err := c.ListPrompts(ctx, mcp.ListPromptsRequest{})
	if err != nil || len(list.Prompts) < 5 {
		t.Fatalf("prompts: %+v, %v", list, err)
	}
	for _, p := range list.Prompts {
		var req mcp.GetPromptRequest
		req.Params.Name = p.Name
		req.Params.Arguments = map[string]string{}
		for _, a := range p.Arguments {
			req.Params.Arguments[a.Name] = "test://" + a.Name
		}
		got, err := c.GetPrompt(ctx, req)
		if p.Name == "test_input_required_result_prompt" && !c.rev.HasElicitation() {
			if err == nil {
				t.Errorf("%s was got without a question", p.Name)
			}
			continue
		}
		if err != nil || len(got.Messages) == 0 {
			t.Errorf("%s: %+v, %v", p.Name, got, err)
		}
	}
}

func mcpGoCompletions(t *testing.T, c *mcpGo) {
	var req mcp.CompleteRequest
	req.Params.Ref = mcp.PromptReference{Type: "ref/prompt", Name: "test_prompt_with_arguments"}
	req.Params.Argument = mcp.CompleteArgument{Name: "arg1", Value: "par"}
	got, err := c.Complete(t.Context(), req)
	if err != nil || strings.Join(got.Completion.Values, " ") != "paris park party" {
		t.Errorf("completion of a prompt: %+v, %v", got, err)
	}
	req.Params.Ref = mcp.ResourceReference{Type: "ref/resource", URI: "test://template/{id}/data"}
	req.Params.Argument = mcp.CompleteArgument{Name: "id"}
	got, err = c.Complete(t.Context(), req)
	if err != nil || len(got.Completion.Values) != 100 || got.Completion.Total != 150 || !got.Completion.HasMore {
		t.Errorf("completion of a template: %+v, %v", got, err)
	}
}

func TestMCPGoClientHearsOfUpdatesWhileSubscribed(t *testing.T) {
	t.Parallel()
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		c, notes := dialMCPGo(t, rev)
		ctx := t.Context()
		update := func() {
			t.Helper()
			if _, err := c.call(ctx, "update_resource", nil, ""); err != nil {
				t.Fatal(err)
			}
		}
		if rev.HasListen() {
			stop := c.listen(t, notes, mcp.SubscriptionFilter{ResourceSubscriptions: []string{watched}})
			update()
			notes.wait(t, 1, protocol.NoteResourceUpdated, watched)
			stop()
			return
		}
		var on mcp.SubscribeRequest
		on.Params.URI = watched
		if err := c.Subscribe(ctx, on); err != nil {
			t.Fatal(err)
		}
		update()
		notes.wait(t, 1, protocol.NoteResourceUpdated, watched)
		var off mcp.UnsubscribeRequest
		off.Params.URI = watched
		if err := c.Unsubscribe(ctx, off); err != nil {
			t.Fatal(err)
		}
		update()
		notes.only(t, 1, protocol.NoteResourceUpdated, watched)
	})
}
