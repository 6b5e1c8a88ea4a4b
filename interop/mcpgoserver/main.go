// Command mcpgoserver serves a few tools, prompts and resources with
// mark3labs/mcp-continue standard input and output.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

const watched = "test://watched-resource"

func main() {
	s := server.NewMCPServer("mcpgoserver", "1.0.0",
		server.WithToolCapabilities(true), server.WithPromptCapabilities(true), server.WithResourceCapabilities(true, true),
		server.WithLogging(), server.WithCompletions(), server.WithElicitation(), server.WithRoots(),
		server.WithPromptCompletionProvider(completer{}),
		server.WithPaginationLimit(3),
	)
	s.EnableSampling()
	addTools(s)
	s.AddPrompt(mcp.NewPrompt("greeting", mcp.WithArgument("name", mcp.RequiredArgument())), greeting)
	for _, uri := range []string{watched, "test://a", "test://b", "test://c"} {
		s.AddResource(mcp.NewResource(uri, uri, mcp.WithMIMEType("text/plain")), read)
	}
	s.AddResourceTemplate(mcp.NewResourceTemplate("test://template/{id}", "template"), read)
	if err := server.ServeStdio(s); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func addTools(s *server.MCPServer) {
	s.AddTool(mcp.NewTool("echo", mcp.WithString("text", mcp.Required())),
		func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText(r.GetString("text", "")), nil
		})
	s.AddTool(mcp.NewTool("picture"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultImage("a picture", "iVBORw0KGgo=", "image/png"), nil
	})
	s.AddTool(mcp.NewTool("fail"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultError("failed as asked"), nil
	})
	s.AddTool(mcp.NewTool("raise"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, errors.New("raised as asked")
	})
	s.AddTool(mcp.NewTool("progress"), progress)
	s.AddTool(mcp.NewTool("log"), logging)
	s.AddTool(mcp.NewTool("wait"), func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if err := step(ctx, r, 1); err != nil {
			return nil, err
		}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	s.AddTool(mcp.NewTool("ask"), ask)
	s.AddTool(mcp.NewTool("update"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		s.SendNotificationToAllClients(mcp.MethodNotificationResourceUpdated, map[string]any{"uri": watched})
		return mcp.NewToolResultText("updated"), nil
	})
	s.AddTool(mcp.NewTool("change"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		s.AddPrompt(mcp.NewPrompt("another", mcp.WithArgument("name")), greeting)
		return mcp.NewToolResultText("changed"), nil
	})
}

// settle waits until notifications are out: the library writes them on another
// goroutine than results, which may overtake them.
func settle() { time.Sleep(50 * time.Millisecond) }

// step tells how far a call is, if the client wants to know.
func step(ctx context.Context, r mcp.CallToolRequest, done int) error {
	if r.Params.Meta == nil || r.Params.Meta.ProgressToken == nil {
		return nil
	}
	return server.ServerFromContext(ctx).SendNotificationToClient(ctx, "notifications/progress", map[string]any{
		"progressToken": r.Params.Meta.ProgressToken, "progress": done, "total": 3,
	})
}

func progress(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	for i := range 3 {
		if err := step(ctx, r, i+1); err != nil {
			return nil, err
		}
	}
	settle()
	return mcp.NewToolResultText("three steps"), nil
}

func logging(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	for _, level := range []mcp.LoggingLevel{mcp.LoggingLevelDebug, mcp.LoggingLevelError} {
		note := mcp.NewLoggingMessageNotification(level, "mcpgoserver", "a message")
		if err := server.ServerFromContext(ctx).SendLogMessageToClient(ctx, note); err != nil {
			return nil, err
		}
	}
	settle()
	return mcp.NewToolResultText("two messages"), nil
}

// ask asks all that a client can be asked, in the way of either era.
func ask(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	user := server.ElicitationResponse(r.Params.InputResponses, "user")
	model := server.SamplingResponse(r.Params.InputResponses, "model")
	roots := server.RootsResponse(r.Params.InputResponses, "roots")
	if user == nil || model == nil || roots == nil {
		return server.NewInputRequestBuilder("asked").
			Elicit("user", mcp.ElicitationParams{
				Message: "Who are you?",
				RequestedSchema: map[string]any{
					"type": "object", "required": []string{"name"},
					"properties": map[string]any{"name": map[string]any{"type": "string"}},
				},
			}).
			Sample("model", mcp.CreateMessageParams{
				Messages:  []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.NewTextContent("What is the capital?")}},
				MaxTokens: 100,
			}).
			Roots("roots").
			ToolResult(), nil
	}
	return mcp.NewToolResultText(fmt.Sprintf("%v; %v; %v; %s", user.Content, model.Content, roots.Roots, r.Params.RequestState)), nil
}

func greeting(_ context.Context, r mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	return mcp.NewGetPromptResult("A greeting", []mcp.PromptMessage{
		mcp.NewPromptMessage(mcp.RoleUser, mcp.NewTextContent("Hello, "+r.Params.Arguments["name"]+"!")),
	}), nil
}

func read(_ context.Context, r mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
	return []mcp.ResourceContents{mcp.TextResourceContents{URI: r.Params.URI, MIMEType: "text/plain", Text: "content of " + r.Params.URI}}, nil
}

type completer struct{}

func (completer) CompletePromptArgument(context.Context, string, mcp.CompleteArgument, mcp.CompleteContext) (*mcp.Completion, error) {
	return &mcp.Completion{Values: []string{"world"}, Total: 1}, nil
}
