package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Environment of this test binary when it is started as the server of the Go
// SDK.
const (
	crossEra     = "CROSS_ERA"     // the only one that it speaks
	crossJournal = "CROSS_JOURNAL" // file in which it notes what becomes of waiting calls
)

func init() {
	era := os.Getenv(crossEra)
	if era == "" {
		return
	}
	err := crossGoServer(era, os.Getenv(crossJournal)).Run(context.Background(), &mcp.StdioTransport{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(0)
}

// crossBoth is a server that speaks both eras.
const crossBoth = "both"

// crossGoServer is the server of the crossings, of the Go SDK.
func crossGoServer(era, journal string) *mcp.Server {
	opts := &mcp.ServerOptions{
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
		CompletionHandler: func(_ context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: crossCompletions(r.Params.Argument.Value)}}, nil
		},
	}
	for _, r := range protocol.Revisions() {
		if era == crossBoth || r.Era().String() == era {
			opts.SupportedProtocolVersions = append(opts.SupportedProtocolVersions, r.String())
		}
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "cross", Version: "go"}, opts)
	crossGoTools(s, journal)
	for _, uri := range []string{"test://text", crossWatched} {
		s.AddResource(&mcp.Resource{URI: uri, Name: uri}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, Text: "some text"}}}, nil
		})
	}
	s.AddPrompt(&mcp.Prompt{Name: "greet", Arguments: []*mcp.PromptArgument{{Name: "name", Required: true}}},
		func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			text := &mcp.TextContent{Text: "Greet " + r.Params.Arguments["name"] + "."}
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: text}}}, nil
		})
	return s
}

// crossCompletions are those of the prompt's argument.
func crossCompletions(value string) (found []string) {
	for _, v := range []string{"paris", "park", "party"} {
		if strings.HasPrefix(v, value) {
			found = append(found, v)
		}
	}
	return found
}

// crossCall is a call of a tool of crossGoServer.
type crossCall struct {
	server  *mcp.Server
	req     *mcp.CallToolRequest
	journal string
	args    struct{ Text string }
}

func crossGoTools(s *mcp.Server, journal string) {
	anything := json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`)
	for name, f := range map[string]func(context.Context, *crossCall) (*mcp.CallToolResult, error){
		"echo":     func(_ context.Context, c *crossCall) (*mcp.CallToolResult, error) { return crossText(c.args.Text) },
		"fail":     func(context.Context, *crossCall) (*mcp.CallToolResult, error) { return nil, errors.New("as asked") },
		"progress": crossProgress,
		"log": func(ctx context.Context, c *crossCall) (*mcp.CallToolResult, error) {
			if err := c.req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: c.args.Text}); err != nil {
				return nil, err
			}
			return crossText("logged")
		},
		"sample": crossSample,
		"elicit": crossElicit,
		"roots":  crossRoots,
		"change": func(context.Context, *crossCall) (*mcp.CallToolResult, error) {
			s.AddTool(&mcp.Tool{Name: "added", InputSchema: anything}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return crossText("added")
			})
			return crossText("changed")
		},
		"touch": func(ctx context.Context, _ *crossCall) (*mcp.CallToolResult, error) {
			if err := s.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: crossWatched}); err != nil {
				return nil, err
			}
			return crossText("touched")
		},
		"wait": func(ctx context.Context, c *crossCall) (*mcp.CallToolResult, error) {
			crossNote(c.journal, "began "+c.args.Text)
			<-ctx.Done()
			crossNote(c.journal, "cancelled "+c.args.Text)
			return nil, ctx.Err()
		},
	} {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: anything}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			c := &crossCall{server: s, req: r, journal: journal}
			err := json.Unmarshal(r.Params.Arguments, &c.args)
			if err != nil {
				return nil, err
			}
			result, err := f(ctx, c)
			if err != nil {
				result = &mcp.CallToolResult{}
				result.SetError(err)
			}
			return result, nil
		})
	}
}

func crossText(text string) (*mcp.CallToolResult, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
}

func crossProgress(ctx context.Context, c *crossCall) (*mcp.CallToolResult, error) {
	for n := range 3 {
		if err := c.req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			ProgressToken: c.req.Params.GetProgressToken(), Progress: float64(n + 1), Total: 3,
		}); err != nil {
			return nil, err
		}
	}
	return crossText("three times")
}

// To clients of the legacy era the SDK sends what is asked for as requests.
func (c *crossCall) ask(q mcp.InputRequest) (*mcp.CallToolResult, error) {
	return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": q}, RequestState: "asked"}, nil
}

func crossSample(_ context.Context, c *crossCall) (*mcp.CallToolResult, error) {
	a, ok := c.req.Params.InputResponses["q"].(*mcp.CreateMessageWithToolsResult)
	if !ok {
		return c.ask(&mcp.CreateMessageParams{
			MaxTokens: 100, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "What is the capital?"}}},
		})
	}
	return crossText(a.Content[0].(*mcp.TextContent).Text)
}

func crossElicit(_ context.Context, c *crossCall) (*mcp.CallToolResult, error) {
	a, ok := c.req.Params.InputResponses["q"].(*mcp.ElicitResult)
	if !ok {
		return c.ask(&mcp.ElicitParams{Message: c.args.Text, RequestedSchema: json.RawMessage(
			`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`)})
	}
	return crossText(strings.TrimSpace(fmt.Sprint(a.Action, " ", crossOr(a.Content["name"]))))
}

func crossOr(v any) string {
	s, _ := v.(string)
	return s
}

func crossRoots(_ context.Context, c *crossCall) (*mcp.CallToolResult, error) {
	a, ok := c.req.Params.InputResponses["q"].(*mcp.ListRootsResult)
	if !ok {
		return c.ask(&mcp.ListRootsParams{})
	}
	return crossText(a.Roots[0].URI)
}

func crossNote(file, line string) {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer f.Close()
	fmt.Fprintln(f, line)
}

// crossGo is a client of the Go SDK, used as one of another language is.
type crossGo struct{ *goSDK }

func newCrossGo() (*mcp.Client, *notifications) {
	notes := newNotifications()
	client := mcp.NewClient(&mcp.Implementation{Name: "go-sdk", Version: "1.8.0"}, &mcp.ClientOptions{
		ToolListChangedHandler: func(_ context.Context, r *mcp.ToolListChangedRequest) {
			notes.add(protocol.NoteToolsChanged, r.Params)
		},
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
			notes.add(protocol.NoteResourceUpdated, r.Params)
		},
		LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) { notes.add(protocol.NoteMessage, r.Params) },
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			notes.add(protocol.NoteProgress, r.Params)
		},
		CreateMessageHandler: func(_ context.Context, r *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return answerAs[mcp.CreateMessageResult](protocol.MethodCreateMessage, r.Params)
		},
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			if r.Params.Message == crossRefuse {
				return &mcp.ElicitResult{Action: "decline"}, nil
			}
			return answerAs[mcp.ElicitResult](protocol.MethodElicit, r.Params)
		},
	})
	client.AddRoots(&mcp.Root{URI: rootURI, Name: "interop"})
	return client, notes
}

// do calls a method by the name that it has in the TypeScript SDK.
func (c crossGo) do(ctx context.Context, method string, params object) (json.RawMessage, error) {
	var result any = object{}
	var err error
	text := func(name string) string { s, _ := params[name].(string); return s }
	switch method {
	case "ping":
		err = c.Ping(ctx, nil)
	case "setLoggingLevel":
		err = c.SetLoggingLevel(ctx, &mcp.SetLoggingLevelParams{Level: mcp.LoggingLevel(text("level"))})
	case "listen": // it does so by itself for all that it has a handler for
		err = c.Subscribe(ctx, &mcp.SubscribeParams{URI: crossWatched})
	case "subscribeResource":
		err = c.Subscribe(ctx, &mcp.SubscribeParams{URI: text("uri")})
	case "unsubscribeResource":
		err = c.Unsubscribe(ctx, &mcp.UnsubscribeParams{URI: text("uri")})
	case "listResources":
		result, err = c.ListResources(ctx, nil)
	case "listPrompts":
		result, err = c.ListPrompts(ctx, nil)
	case "readResource":
		result, err = c.ReadResource(ctx, &mcp.ReadResourceParams{URI: text("uri")})
	case "getPrompt":
		args := map[string]string{}
		for k, v := range params["arguments"].(object) {
			args[k] = fmt.Sprint(v)
		}
		result, err = c.GetPrompt(ctx, &mcp.GetPromptParams{Name: text("name"), Arguments: args})
	case "complete":
		result, err = c.Complete(ctx, &mcp.CompleteParams{
			Ref:      &mcp.CompleteReference{Type: "ref/prompt", Name: crossOr(params["ref"].(object)["name"])},
			Argument: mcp.CompleteParamsArgument{Name: "name", Value: crossOr(params["argument"].(object)["value"])},
		})
	default:
		err = fmt.Errorf("there is no method %s", method)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(result)
}

// crossGoStdio is the transport of a client to a command.
func crossGoStdio(t *testing.T, command []string) mcp.Transport {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = t.Output()
	return &mcp.CommandTransport{Command: cmd, TerminateDuration: patience}
}
