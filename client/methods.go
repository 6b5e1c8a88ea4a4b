package client

import (
	"context"
	"fmt"
	"strings"

	"github.com/dragoman-mcp/dragoman/protocol"
)

// CallTool calls a tool. args is JSON text or a value to encode, an object
// either way; nil stands for {}. A tool that fails gives a result with IsError,
// not an error. o may be nil.
//
// When ctx ends first, the server is told that the call is cancelled.
func (c *Client) CallTool(ctx context.Context, name string, args any, o *CallOptions) (*ToolResult, error) {
	if args == nil {
		args = struct{}{}
	}
	params, err := encode(struct {
		Name      string `json:"name"`
		Arguments any    `json:"arguments"`
	}{name, raw(args)})
	if err != nil {
		return nil, fmt.Errorf("client: the arguments of %s cannot be encoded: %w", name, err)
	}
	resp, err := c.do(ctx, protocol.MethodCallTool, params, o)
	if err != nil {
		return nil, err
	}
	result, err := decode[ToolResult](c, protocol.MethodCallTool, resp)
	if err == nil {
		result.Raw = resp.Result()
	}
	return result, err
}

// ReadResource reads a resource, which may consist of several.
func (c *Client) ReadResource(ctx context.Context, uri string) ([]ResourceContents, error) {
	result, err := fetch[struct {
		Contents []ResourceContents `json:"contents"`
	}](ctx, c, protocol.MethodReadResource, map[string]string{"uri": uri})
	if err != nil {
		return nil, err
	}
	return result.Contents, nil
}

// GetPrompt returns a prompt with its arguments filled in.
func (c *Client) GetPrompt(ctx context.Context, name string, args map[string]string) (*PromptResult, error) {
	params := map[string]any{"name": name}
	if len(args) > 0 {
		params["arguments"] = args
	}
	return fetch[PromptResult](ctx, c, protocol.MethodGetPrompt, params)
}

// Complete returns how an argument of a prompt, or of the template of a resource,
// may continue. chosen are the other arguments, as far as they are known.
func (c *Client) Complete(ctx context.Context, ref Ref, argument, value string, chosen map[string]string) (*Completion, error) {
	params := map[string]any{"ref": ref.object(), "argument": map[string]string{"name": argument, "value": value}}
	if len(chosen) > 0 {
		params["context"] = map[string]any{"arguments": chosen}
	}
	result, err := fetch[struct {
		Completion Completion `json:"completion"`
	}](ctx, c, protocol.MethodComplete, params)
	if err != nil {
		return nil, err
	}
	return &result.Completion, nil
}

// Subscribe has OnNotification told of changes of a resource, until Unsubscribe.
// It outlives the loss of the conversation; after that, the resource is told as
// changed, because it may have.
func (c *Client) Subscribe(ctx context.Context, uri string) error { return c.side.subscribe(ctx, uri) }

// Unsubscribe ends what Subscribe began.
func (c *Client) Unsubscribe(ctx context.Context, uri string) error {
	return c.side.unsubscribe(ctx, uri)
}

// SetLevel says which log messages OnNotification is to be told: those of that
// level and above.
func (c *Client) SetLevel(ctx context.Context, level string) error {
	if protocol.LogLevel(level) < 0 {
		return fmt.Errorf("client: unknown level %q: use %s", level, strings.Join(protocol.LogLevels, ", "))
	}
	return c.side.setLevel(ctx, level)
}

// Ping asks the server whether it is there.
func (c *Client) Ping(ctx context.Context) error { return c.side.ping(ctx) }
