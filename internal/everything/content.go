package everything

import (
	"encoding/json"

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
	case isObject(value) || rev.HasAnyStructuredContent():
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
