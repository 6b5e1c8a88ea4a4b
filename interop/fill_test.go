package interop_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/dragoman-mcp/dragoman/protocol"
)

type object = map[string]any

// What every client here answers when a server asks.
const (
	modelSays = "Paris, says the model."
	rootURI   = "file:///interop"
	refused   = "Refuse to say it" // an elicitation with this message is declined
)

// answer answers a server's question, in either era.
func answer(method string, params object) (object, error) {
	switch method {
	case protocol.MethodPing:
		return object{}, nil
	case protocol.MethodListRoots:
		return object{"roots": []any{object{"uri": rootURI, "name": "interop"}}}, nil
	case protocol.MethodCreateMessage:
		if messages, _ := params["messages"].([]any); len(messages) == 0 {
			return nil, fmt.Errorf("sampling without messages: %v", params)
		}
		return object{
			"role": "assistant", "model": "a-model", "stopReason": "endTurn",
			"content": object{"type": "text", "text": modelSays},
		}, nil
	case protocol.MethodElicit:
		if params["message"] == refused {
			return object{"action": "decline"}, nil
		}
		if params["mode"] == "url" {
			if url, _ := params["url"].(string); url == "" {
				return nil, fmt.Errorf("elicitation by URL without one: %v", params)
			}
			return object{"action": "accept"}, nil
		}
		schema, ok := params["requestedSchema"].(object)
		if !ok {
			return nil, fmt.Errorf("elicitation without a form: %v", params)
		}
		return object{"action": "accept", "content": fill(schema, true)}, nil
	}
	return nil, fmt.Errorf("the server asked %s", method)
}

// fill returns a value that a schema allows: its default or first choice if it
// has one. Of the properties of an object it has all, or only the required.
func fill(schema object, all bool) any {
	if v, ok := schema["default"]; ok {
		return v
	}
	if v, ok := schema["const"]; ok {
		return v
	}
	if values, _ := schema["enum"].([]any); len(values) > 0 {
		return values[0]
	}
	for _, name := range []string{"oneOf", "anyOf"} {
		if choices, _ := schema[name].([]any); len(choices) > 0 {
			return fill(choices[0].(object), all)
		}
	}
	switch schema["type"] {
	case "object":
		return fillObject(schema, all)
	case "array":
		items, ok := schema["items"].(object)
		if !ok {
			return []any{}
		}
		return []any{fill(items, all)}
	case "boolean":
		return true
	case "number", "integer":
		for _, name := range []string{"minimum", "maximum"} {
			if v, ok := schema[name]; ok {
				return v
			}
		}
		return 1
	}
	return fillString(schema)
}

func fillObject(schema object, all bool) object {
	filled := object{}
	required, _ := schema["required"].([]any)
	properties, _ := schema["properties"].(object)
	for name, property := range properties {
		if s, ok := property.(object); ok && (all || slices.Contains(required, any(name))) {
			filled[name] = fill(s, all)
		}
	}
	return filled
}

func fillString(schema object) string {
	switch schema["format"] {
	case "email":
		return "someone@example.com"
	case "uri":
		return "https://example.com/"
	case "date":
		return "2026-11-01"
	case "date-time":
		return "2026-11-01T12:00:00Z"
	}
	return "some text"
}

// decode returns a value as JSON would carry it.
func decode[T any](t *testing.T, value any) (out T) {
	t.Helper()
	text, ok := value.(json.RawMessage)
	if !ok {
		var err error
		if text, err = json.Marshal(value); err != nil {
			t.Fatal(err)
		}
	}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}
