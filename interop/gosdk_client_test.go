package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// goSDK is a client of the official Go SDK.
type goSDK struct {
	*mcp.ClientSession
	rev protocol.Revision
}

// dialGoSDK starts our built-in server under a client of the official Go SDK.
// If able, the client can be asked everything.
func dialGoSDK(t *testing.T, rev protocol.Revision, able bool) (*goSDK, *notifications) {
	t.Helper()
	client, notes := newGoSDK(able)
	cmd := exec.Command(dragomanProgram.in(t), "everything")
	session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: cmd, TerminateDuration: patience}, &mcp.ClientSessionOptions{ProtocolVersion: rev.String()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// A server that still served something would linger, and be killed.
		start := time.Now()
		if err := session.Close(); err != nil || time.Since(start) >= patience {
			t.Errorf("the server did not end by itself: %v after %v", err, time.Since(start))
		}
	})
	return &goSDK{session, rev}, notes
}

// newGoSDK returns a client that is not connected yet, and what it will hear.
func newGoSDK(able bool) (*mcp.Client, *notifications) {
	notes := newNotifications()
	opts := &mcp.ClientOptions{
		ToolListChangedHandler: func(_ context.Context, r *mcp.ToolListChangedRequest) {
			notes.add(protocol.NoteToolsChanged, r.Params)
		},
		PromptListChangedHandler: func(_ context.Context, r *mcp.PromptListChangedRequest) {
			notes.add(protocol.NotePromptsChanged, r.Params)
		},
		ResourceListChangedHandler: func(_ context.Context, r *mcp.ResourceListChangedRequest) {
			notes.add(protocol.NoteResourcesChanged, r.Params)
		},
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
			notes.add(protocol.NoteResourceUpdated, r.Params)
		},
		LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) {
			notes.add(protocol.NoteMessage, r.Params)
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			notes.add(protocol.NoteProgress, r.Params)
		},
		Capabilities: &mcp.ClientCapabilities{},
	}
	if able {
		opts.Capabilities = &mcp.ClientCapabilities{
			RootsV2: &mcp.RootCapabilities{},
			Elicitation: &mcp.ElicitationCapabilities{
				Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{},
			},
		}
		opts.CreateMessageHandler = func(_ context.Context, r *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return answerAs[mcp.CreateMessageResult](protocol.MethodCreateMessage, r.Params)
		}
		opts.ElicitationHandler = func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return answerAs[mcp.ElicitResult](protocol.MethodElicit, r.Params)
		}
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "go-sdk", Version: "1.8.0"}, opts)
	if able {
		client.AddRoots(&mcp.Root{URI: rootURI, Name: "interop"})
	}
	return client, notes
}

// answerAs is answer in the types of an SDK.
func answerAs[T any](method string, params any) (*T, error) {
	text, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	var p object
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, err
	}
	a, err := answer(method, p)
	if err != nil {
		return nil, err
	}
	if text, err = json.Marshal(a); err != nil {
		return nil, err
	}
	out := new(T)
	return out, json.Unmarshal(text, out)
}

func (s *goSDK) tools(ctx context.Context) ([]string, error) {
	var names []string
	for tool, err := range s.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		names = append(names, tool.Name)
	}
	return names, nil
}

func (s *goSDK) call(ctx context.Context, name string, args object, token string) (any, error) {
	params := &mcp.CallToolParams{Meta: mcp.Meta{}, Name: name}
	if args != nil {
		params.Arguments = args // a nil map would become null, which is no object
	}
	if token != "" {
		params.SetProgressToken(token)
	}
	if !s.rev.HasSessions() {
		params.Meta[protocol.MetaLogLevel] = "debug"
	}
	return s.CallTool(ctx, params)
}

// eachRevision runs a test in every revision, all at once.
func eachRevision(t *testing.T, f func(t *testing.T, rev protocol.Revision)) {
	for _, rev := range protocol.Revisions() {
		t.Run(rev.String(), func(t *testing.T) {
			t.Parallel()
			f(t, rev)
		})
	}
}

func TestE03_E09_GoSDKClientListsAndCallsEveryTool(t *testing.T) {
	t.Parallel()
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		client, notes := dialGoSDK(t, rev, true)
		init := client.InitializeResult()
		if init.ProtocolVersion != rev.String() || init.ServerInfo == nil || init.ServerInfo.Name != "dragoman-everything" {
			t.Fatalf("the conversation begins with %+v, server %+v", init, init.ServerInfo)
		}
		if rev.HasSessions() {
			if err := client.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "debug"}); err != nil {
				t.Fatal(err)
			}
		}
		callEveryTool(t, rev, client, notes)
	})
}

func TestE06_GoSDKClientMakesManyCallsAtOnce(t *testing.T) {
	t.Parallel()
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		client, _ := dialGoSDK(t, rev, true)
		callAtOnce(t, client, atOnce(rev))
	})
}

func TestE05_GoSDKClientSeesAnErrorUnchanged(t *testing.T) {
	t.Parallel()
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		client, _ := dialGoSDK(t, rev, false)
		_, err := client.call(t.Context(), "raise", object{"code": 1234, "message": "as asked", "reason": "because"}, "")
		var rpc *jsonrpc.Error
		if !errors.As(err, &rpc) || rpc.Code != 1234 || rpc.Message != "as asked" || string(rpc.Data) != `{"reason":"because"}` {
			t.Errorf("raise: %#v", err)
		}
	})
}

func TestGoSDKClientIsToldWhichCapabilityIsMissing(t *testing.T) {
	t.Parallel()
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		client, _ := dialGoSDK(t, rev, false)
		_, err := client.call(t.Context(), "test_missing_capability", nil, "")
		var rpc *jsonrpc.Error
		if !errors.As(err, &rpc) || rpc.Code != mcp.CodeMissingRequiredClientCapabilities {
			t.Fatalf("a client without sampling gets %v", err)
		}
		need := decode[mcp.MissingRequiredClientCapabilityData](t, rpc.Data)
		if need.RequiredCapabilities == nil || need.RequiredCapabilities.Sampling == nil {
			t.Errorf("the error has data %s", rpc.Data)
		}
	})
}

func TestGoSDKClientReadsResourcesPromptsAndCompletions(t *testing.T) {
	t.Parallel()
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		client, _ := dialGoSDK(t, rev, true)
		t.Run("resources", func(t *testing.T) { goSDKResources(t, client) })
		t.Run("prompts", func(t *testing.T) { goSDKPrompts(t, client) })
		t.Run("completions", func(t *testing.T) { goSDKCompletions(t, client) })
		if rev.HasSessions() {
			if err := client.Ping(t.Context(), nil); err != nil {
				t.Errorf("ping: %v", err)
			}
		}
	})
}

func goSDKResources(t *testing.T, client *goSDK) {
	ctx := t.Context()
	n := 0
	for r, err := range client.Resources(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		got, err := client.ReadResource(ctx, &mcp.ReadResourceParams{URI: r.URI})
		if r.Name == "asking-resource" && !client.rev.HasElicitation() {
			if err == nil {
				t.Errorf("%s was read without a question", r.URI)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", r.URI, err)
			continue
		}
		if len(got.Contents) != 1 || got.Contents[0].URI != r.URI || got.Contents[0].MIMEType != r.MIMEType ||
			(got.Contents[0].Text == "") == (got.Contents[0].Blob == nil) {
			t.Errorf("%s: %+v", r.URI, got.Contents)
		}
	}
	if n < 4 {
		t.Errorf("%d resources are listed", n)
	}
	var templates []string
	for r, err := range client.ResourceTemplates(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		templates = append(templates, r.URITemplate)
	}
	if len(templates) != 2 {
		t.Errorf("templates: %q", templates)
	}
	got, err := client.ReadResource(ctx, &mcp.ReadResourceParams{URI: "test://template/7/data"})
	if err != nil || len(got.Contents) != 1 || decode[object](t, json.RawMessage(got.Contents[0].Text))["id"] != "7" {
		t.Errorf("a resource of the template: %+v, %v", got, err)
	}
	var rpc *jsonrpc.Error
	if _, err := client.ReadResource(ctx, &mcp.ReadResourceParams{URI: "test://nowhere"}); !errors.As(err, &rpc) || rpc.Code != int64(client.rev.CodeNoResource()) {
		t.Errorf("a resource that is not there: %v", err)
	}
}

func goSDKPrompts(t *testing.T, client *goSDK) {
	ctx := t.Context()
	n := 0
	for p, err := range client.Prompts(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		args := map[string]string{}
		for _, a := range p.Arguments {
			args[a.Name] = "test://" + a.Name
		}
		got, err := client.GetPrompt(ctx, &mcp.GetPromptParams{Name: p.Name, Arguments: args})
		if p.Name == "test_input_required_result_prompt" && !client.rev.HasElicitation() {
			if err == nil {
				t.Errorf("%s was got without a question", p.Name)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
			continue
		}
		if len(got.Messages) == 0 || got.Messages[0].Content == nil {
			t.Errorf("%s: %+v", p.Name, got)
		}
	}
	if n < 5 {
		t.Errorf("%d prompts are listed", n)
	}
}

func goSDKCompletions(t *testing.T, client *goSDK) {
	ctx := t.Context()
	got, err := client.Complete(ctx, &mcp.CompleteParams{
		Ref:      &mcp.CompleteReference{Type: "ref/prompt", Name: "test_prompt_with_arguments"},
		Argument: mcp.CompleteParamsArgument{Name: "arg1", Value: "par"},
	})
	if err != nil || len(got.Completion.Values) != 3 {
		t.Errorf("completion of a prompt: %+v, %v", got, err)
	}
	got, err = client.Complete(ctx, &mcp.CompleteParams{
		Ref:      &mcp.CompleteReference{Type: "ref/resource", URI: "test://template/{id}/data"},
		Argument: mcp.CompleteParamsArgument{Name: "id", Value: ""},
	})
	if err != nil || len(got.Completion.Values) != 100 || got.Completion.Total != 150 || !got.Completion.HasMore {
		t.Errorf("completion of a template: %+v, %v", got, err)
	}
}

func TestGoSDKClientHearsOfUpdatesWhileSubscribed(t *testing.T) {
	t.Parallel()
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		client, notes := dialGoSDK(t, rev, false)
		ctx := t.Context()
		if err := client.Subscribe(ctx, &mcp.SubscribeParams{URI: watched}); err != nil {
			t.Fatal(err)
		}
		update := func() {
			t.Helper()
			if _, err := client.call(ctx, "update_resource", nil, ""); err != nil {
				t.Fatal(err)
			}
		}
		update()
		if !rev.HasSessions() {
			// The SDK begins its subscription without waiting until it is open.
			for end := time.Now().Add(patience); time.Now().Before(end); update() {
				if n, _ := notes.count(protocol.NoteResourceUpdated, watched); n > 0 {
					break
				}
			}
		}
		notes.wait(t, 1, protocol.NoteResourceUpdated, watched)
		if err := client.Unsubscribe(ctx, &mcp.UnsubscribeParams{URI: watched}); err != nil {
			t.Fatal(err)
		}
		if rev.HasSessions() {
			update()
			notes.only(t, 1, protocol.NoteResourceUpdated, watched)
			return
		}
		// Nor does it wait for the end, so a few more updates may come.
		for end := time.Now().Add(patience); ; {
			before, _ := notes.count(protocol.NoteResourceUpdated, watched)
			update()
			update()
			if after, _ := notes.count(protocol.NoteResourceUpdated, watched); after == before {
				return
			}
			if time.Now().After(end) {
				t.Fatal("updates go on after the subscription ended")
			}
		}
	})
}
