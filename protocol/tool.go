package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/dragoman-mcp/dragoman"
)

// A CheckError says what is wrong with a tool message, and where.
type CheckError struct {
	Path   string // such as "params.name"
	Reason string
}

// Error implements error.
func (e *CheckError) Error() string { return "protocol: " + e.Path + " " + e.Reason }

func checkError(path, reason string, args ...any) error {
	return &CheckError{Path: path, Reason: fmt.Sprintf(reason, args...)}
}

// CheckToolRequest reports whether m is a tool request: a JSON-RPC 2.0 request
// with the method tools/call that names a tool and has arguments only as an
// object.
func CheckToolRequest(m *dragoman.Message) error {
	if m.Kind() != dragoman.Request {
		return checkError("message", "is a %s, not a request", m.Kind())
	}
	if m.Method() != MethodCallTool {
		return checkError("method", "is %q, not %q", m.Method(), MethodCallTool)
	}
	if m.Params() == nil {
		return checkError("params", "is missing; it must be an object with the tool's name")
	}
	switch name := m.Get("name"); {
	case name == nil:
		return checkError("params.name", "is missing; it must name the tool")
	case name[0] != '"':
		return checkError("params.name", "is %s, not a string", typeOf(name))
	case m.Name() == "":
		return checkError("params.name", "is empty; it must name the tool")
	}
	// Go programs write an empty map as null, so that counts as absent.
	if args := m.Get("arguments"); args != nil && args[0] != '{' && args[0] != 'n' {
		return checkError("params.arguments", "is %s, not an object", typeOf(args))
	}
	return nil
}

// CheckToolResponse reports whether m is a tool response: a result with a
// content array that is not empty, whose items are objects with a type, and
// whose other known members have the right types.
func CheckToolResponse(m *dragoman.Message) error {
	if m.Kind() != dragoman.Response || m.IsError() {
		return checkError("message", "is not a response with a result")
	}
	if result := m.Result(); result[0] != '{' {
		return checkError("result", "is %s, not an object", typeOf(result))
	}
	if err := checkContent(m.Get("content")); err != nil {
		return err
	}
	if v := m.Get("isError"); v != nil && v[0] != 't' && v[0] != 'f' {
		return checkError("result.isError", "is %s, not a boolean", typeOf(v))
	}
	return nil
}

// noContent is the content of a tool response that has nothing to say.
const noContent = `[{"type":"text","text":""}]`

// ToolResponse returns a response with a result as one that passes
// [CheckToolResponse]: servers may leave the content empty, tool responses may
// not. The error says why it is none.
func ToolResponse(m *dragoman.Message) (*dragoman.Message, error) {
	err := CheckToolResponse(m)
	if err == nil || m.IsError() || m.Result()[0] != '{' || !EmptyContent(m.Get("content")) {
		return m, err
	}
	filled, err := m.Edit().Set("content", []byte(noContent)).Message()
	if err != nil {
		return m, err
	}
	return filled, CheckToolResponse(filled)
}

// EmptyContent reports whether content is absent, null or an array without items.
func EmptyContent(content json.RawMessage) bool {
	return len(content) == 0 || content[0] == 'n' ||
		content[0] == '[' && bytes.TrimLeft(content[1:], " \t\r\n")[0] == ']'
}

func checkContent(content json.RawMessage) error {
	const path = "result.content"
	if content == nil {
		return checkError(path, "is missing; it must be an array that is not empty")
	}
	if content[0] != '[' {
		return checkError(path, "is %s, not an array", typeOf(content))
	}
	i := 0
	for _, item := range dragoman.Items(content) {
		if item[0] != '{' {
			return checkError(fmt.Sprintf("%s[%d]", path, i), "is %s, not an object", typeOf(item))
		}
		if member, reason := checkBlock(item); reason != "" {
			return checkError(fmt.Sprintf("%s[%d].%s", path, i, member), "%s", reason)
		}
		i++
	}
	if i == 0 {
		return checkError(path, "is empty; a tool response has at least one item")
	}
	return nil
}

// blockMembers says which members a content block of each type must have, and
// by which character their JSON text begins.
var blockMembers = map[string][]struct {
	name  string
	first byte
}{
	"text":          {{"text", '"'}},
	"image":         {{"data", '"'}, {"mimeType", '"'}},
	"audio":         {{"data", '"'}, {"mimeType", '"'}},
	"resource":      {{"resource", '{'}},
	"resource_link": {{"uri", '"'}, {"name", '"'}},
}

// checkBlock returns which member of a content block is wrong, and why, or "".
func checkBlock(block json.RawMessage) (member, reason string) {
	kind := dragoman.Member(block, "type")
	switch {
	case kind == nil:
		return "type", "is missing"
	case kind[0] != '"':
		return "type", "is " + typeOf(kind) + ", not a string"
	}
	name, _ := dragoman.Text(kind)
	for _, need := range blockMembers[name] {
		switch v := dragoman.Member(block, need.name); {
		case v == nil:
			return need.name, fmt.Sprintf("is missing in an item of type %q", name)
		case v[0] != need.first:
			return need.name, fmt.Sprintf("is %s, not %s", typeOf(v), typeOf([]byte{need.first}))
		}
	}
	return "", ""
}

// CheckToolError reports whether m is a tool error: an error response with an
// integer code and a message that a person can read.
func CheckToolError(m *dragoman.Message) error {
	if !m.IsError() {
		return checkError("message", "is not an error response")
	}
	var raw struct {
		Error map[string]json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(m.Bytes(), &raw); err != nil {
		return checkError("error", "cannot be read: %v", err)
	}
	switch code := raw.Error["code"]; {
	case code == nil:
		return checkError("error.code", "is missing")
	case typeOf(code) != "a number":
		return checkError("error.code", "is %s, not an integer", typeOf(code))
	case bytes.ContainsAny(code, ".eE"):
		return checkError("error.code", "is %s, not an integer", code)
	}
	message := raw.Error["message"]
	if message == nil {
		return checkError("error.message", "is missing; it must say what went wrong")
	}
	var text string
	if message[0] != '"' || json.Unmarshal(message, &text) != nil {
		return checkError("error.message", "is %s, not a string", typeOf(message))
	}
	if strings.TrimSpace(text) == "" {
		return checkError("error.message", "is empty; it must say what went wrong")
	}
	return nil
}

// typeOf names the type of a valid JSON value, with its article.
func typeOf(v []byte) string {
	switch v[0] {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}
