package everything

import (
	"context"
	"fmt"

	"github.com/dragoman-mcp/dragoman/protocol"
)

// changingTools change the server itself, as its operator might do: lists are
// not to change by what clients do, but a test must be able to make them.
func changingTools() []*tool {
	return []*tool{
		changingTool("test_trigger_tool_change", "tool", protocol.MethodListTools, protocol.NoteToolsChanged),
		changingTool("test_trigger_prompt_change", "prompt", protocol.MethodListPrompts, protocol.NotePromptsChanged),
		changingTool("test_trigger_resource_change", "resource", protocol.MethodListResources, protocol.NoteResourcesChanged),
		{
			name: "update_resource", title: "Update a resource",
			description: "Gives a resource a new content, and notifies its subscribers.",
			input: `{"type":"object","properties":{
				"uri":{"type":"string","description":"the resource; ` + watched + ` if left out"}}}`,
			run: updateResource,
		},
		contentTool(addedTool, "Added tool", "Is there only after test_trigger_tool_change.", func(*call) []block {
			return []block{text("This tool was added while the server ran.")}
		}),
	}
}

func changingTool(name, kind, list, note string) *tool {
	return &tool{
		name: name, title: "Change the list of " + kind + "s",
		description: "Adds a " + kind + " or takes it away again, and notifies all clients.",
		run: func(ctx context.Context, c *call) (*toolResult, error) {
			c.server.change(ctx, list, note)
			return newTextResult("The list of " + kind + "s has changed."), nil
		},
	}
}

func updateResource(ctx context.Context, c *call) (*toolResult, error) {
	args, err := arguments[struct {
		URI string `json:"uri"`
	}](c)
	if err != nil {
		return nil, err
	}
	uri := args.URI
	if uri == "" {
		uri = watched
	}
	if !c.server.knows(uri) {
		return nil, fmt.Errorf("there is no resource %s; resources/list names those there are", uri)
	}
	c.server.update(ctx, uri)
	return newTextResult("Updated " + uri + "."), nil
}
