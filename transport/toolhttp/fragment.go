package toolhttp

import (
	"encoding/json"
	"slices"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// fragment returns the part of a result that a notification carries, as JSON text,
// or nil if it carries none.
func fragment(note *dragoman.Message) []byte {
	if note.Method() != protocol.NoteProgress {
		return nil
	}
	content, message := note.Get("content"), note.Get("message")
	if message != nil && (message[0] != '"' || string(message) == `""`) {
		message = nil
	}
	var f struct {
		Content json.RawMessage            `json:"content"`
		Meta    map[string]json.RawMessage `json:"_meta,omitempty"`
	}
	f.Meta = make(map[string]json.RawMessage)
	switch {
	case !protocol.EmptyContent(content):
		f.Content = content
		if message != nil {
			f.Meta["message"] = message
		}
	case message != nil:
		f.Content = slices.Concat(json.RawMessage(`[{"type":"text","text":`), message, json.RawMessage(`}]`))
	default:
		return nil
	}
	for _, name := range [...]string{"progress", "total"} {
		if n := note.Get(name); n != nil {
			f.Meta[name] = n
		}
	}
	m, err := dragoman.NewResult(dragoman.IntID(1), f)
	if err != nil || protocol.CheckToolResponse(m) != nil {
		return nil // it would be no fragment of a result
	}
	return m.Result()
}
