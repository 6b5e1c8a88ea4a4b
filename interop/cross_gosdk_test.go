package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

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
	return crossText(strings.TrimSpace(fmt.Sprint(a.Action, " ", stringOf(a.Content["name"]))))
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
