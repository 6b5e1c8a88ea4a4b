package builtin

import (
	"context"
	"encoding/json"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A block is one item of content.
type block = object

// The smallest picture and sound that are worth showing: a red pixel, and one
// millisecond of a tone.
const (
	redPixel  = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mM4IScHAAK2AQUKW6YGAAAAAElFTkSuQmCC"
	shortTone = "UklGRjQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YRAAAAAAAEAfgD5AHwAAwOCAwcDg"
)

func text(s string) block { return block{"type": "text", "text": s} }

func picture() block { return block{"type": "image", "data": redPixel, "mimeType": "image/png"} }

func sound() block { return block{"type": "audio", "data": shortTone, "mimeType": "audio/wav"} }

// embedded is a resource inside of content.
func embedded(uri, mimeType, s string) block {
	return block{"type": "resource", "resource": object{"uri": uri, "mimeType": mimeType, "text": s}}
}

// link points to a resource that can be read.
func link(r *resource) block {
	return block{
		"type": "resource_link", "uri": r.uri, "name": r.name,
		"description": r.description, "mimeType": r.mimeType,
	}
}

// adapt returns content as a revision can say it.
func adapt(rev protocol.Revision, content []block) []block {
	out := make([]block, len(content))
	for i, b := range content {
		switch {
		case b["type"] == "audio" && !rev.HasAudio():
			b = block{"type": "resource", "resource": object{
				"uri": "test://sound", "mimeType": b["mimeType"], "blob": b["data"],
			}}
		case b["type"] == "resource_link" && !rev.HasResourceLinks():
			b = text(b["uri"].(string))
		}
		out[i] = b
	}
	return out
}

// wrapValue returns structured content as a revision can say it. Where only
// objects can be said, any other value is put into one.
func wrapValue(rev protocol.Revision, value json.RawMessage) json.RawMessage {
	switch {
	case value == nil || !rev.HasStructuredContent():
		return nil
	case dragoman.IsObject(value) || rev.HasAnyStructuredContent():
		return value
	}
	return json.RawMessage(`{"result":` + string(value) + `}`)
}

// wrapSchema returns the schema of structured content as a revision can say it.
func wrapSchema(rev protocol.Revision, s *schema) json.RawMessage {
	switch {
	case s == nil || !rev.HasStructuredContent():
		return nil
	case s.Type == "object" || rev.HasAnyStructuredContent():
		return s.text
	}
	return json.RawMessage(`{"type":"object","properties":{"result":` + string(s.text) + `},"required":["result"]}`)
}

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
