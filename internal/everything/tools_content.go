package everything

import (
	"context"

	"github.com/dragoman-mcp/dragoman/protocol"
)

// contentTools show each kind of content.
func contentTools() []*tool {
	return []*tool{
		contentTool("test_simple_text", "Text", "Returns text.", func(*call) []block {
			return []block{text("This is a simple text response for testing.")}
		}),
		contentTool("test_image_content", "Image", "Returns an image.", func(*call) []block {
			return []block{picture()}
		}),
		contentTool("test_audio_content", "Audio", "Returns audio, or a binary resource where there is no audio.", func(*call) []block {
			return []block{sound()}
		}),
		contentTool("test_embedded_resource", "Embedded resource", "Returns a resource.", func(*call) []block {
			return []block{embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")}
		}),
		contentTool("test_multiple_content_types", "Mixed content", "Returns text, an image and a resource.", func(*call) []block {
			return []block{
				text("Multiple content types test:"),
				picture(),
				embedded("test://mixed-content-resource", "application/json", `{"test":"data","value":123}`),
			}
		}),
		contentTool("links", "Resource links", "Returns links to resources, or their URIs where there are no links.", func(c *call) []block {
			var links []block
			for _, r := range c.server.listedResources() {
				if len(links) < 5 {
					links = append(links, link(r))
				}
			}
			return links
		}),
		contentTool("annotated", "Annotated content", "Returns texts for the user and for the model.", func(*call) []block {
			user, model := text("For the user."), text("For the model.")
			user["annotations"] = object{"audience": []string{"user"}, "priority": 1}
			model["annotations"] = object{"audience": []string{"assistant"}, "priority": 0.3}
			return []block{user, model}
		}),
		contentTool("session", "Session", "Tells in which revision it was called and what the client can do.", describe),
	}
}

func contentTool(name, title, description string, content func(*call) []block) *tool {
	return &tool{
		name: name, title: title, description: description, readOnly: true,
		run: func(_ context.Context, c *call) (*toolResult, error) {
			return &toolResult{Content: content(c)}, nil
		},
	}
}

func describe(c *call) []block {
	can := ""
	for _, q := range []struct {
		name string
		question
	}{
		{" sampling", question{method: protocol.MethodCreateMessage}},
		{" elicitation", elicitation("", "", nil)},
		{" url", urlElicitation("", "", "")},
		{" roots", roots("")},
	} {
		if c.canAsk(q.question) == nil {
			can += q.name
		}
	}
	return []block{text("revision=" + c.rev.String() + " era=" + c.rev.Era().String() + " can:" + can)}
}
