package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A tool is a row of the table of tools.
type tool struct {
	name        string
	title       string
	description string
	input       string // schema; if empty, there are no arguments
	output      string // schema; if empty, there is no structured content
	readOnly    bool
	sealed      bool // answers count only with a state, see era.Call
	run         func(ctx context.Context, c *call) (*toolResult, error)

	in, out *schema // input and output; set once, by allTools
}

// A toolResult is what a tool returns. An error that a tool returns instead
// becomes a result with isError, so that a model can see it.
type toolResult struct {
	text       string          // the one text, in place of Content
	Content    []block         `json:"content"`
	Structured json.RawMessage `json:"structuredContent,omitempty"`
	IsError    bool            `json:"isError,omitempty"`
}

func newTextResult(s string) *toolResult { return &toolResult{text: s} }

// allTools returns the table of tools, in the order in which they are listed.
func allTools() []*tool {
	tools := slices.Concat(plainTools(), contentTools(), timedTools(), askingTools(), roundTools(), changingTools())
	for _, t := range tools {
		if t.input == "" {
			t.input = nothing
		}
		t.in = newSchema(t.input)
		if t.output != "" {
			t.out = newSchema(t.output)
		}
	}
	return tools
}

// addedTool is in the list only after test_trigger_tool_change.
const addedTool = "test_added_tool"

func (s *Server) listedTools() []*tool {
	if s.hasAdded(protocol.MethodListTools) {
		return s.tools
	}
	return slices.DeleteFunc(slices.Clone(s.tools), func(t *tool) bool { return t.name == addedTool })
}

func (s *Server) findTool(name string) *tool {
	i := slices.IndexFunc(s.tools, func(t *tool) bool { return t.name == name })
	if i < 0 || name == addedTool && !s.hasAdded(protocol.MethodListTools) {
		return nil
	}
	return s.tools[i]
}

// definition returns how a tool is listed.
func (t *tool) definition(rev protocol.Revision) object {
	d := object{"name": t.name, "description": t.description, "inputSchema": t.in.text}
	if out := wrapSchema(rev, t.out); out != nil {
		d["outputSchema"] = out
	}
	if rev.HasToolAnnotations() {
		d["annotations"] = object{"title": t.title, "readOnlyHint": t.readOnly, "openWorldHint": false}
	}
	if rev.HasTitles() {
		d["title"] = t.title
	}
	if rev.HasIcons() && t.name == "echo" {
		d["icons"] = []any{object{"src": "data:image/png;base64," + redPixel, "mimeType": "image/png", "sizes": []string{"1x1"}}}
	}
	return d
}

func listTools(_ context.Context, c *call) (any, error) {
	var all []object
	for _, t := range c.server.listedTools() {
		all = append(all, t.definition(c.rev))
	}
	return page(c, "tools", all)
}

func callTool(ctx context.Context, c *call) (any, error) {
	if err := protocol.CheckToolRequest(c.req); err != nil {
		var wrong *protocol.CheckError
		if errors.As(err, &wrong) {
			return nil, invalid("%s %s", wrong.Path, wrong.Reason)
		}
	}
	t := c.server.findTool(c.req.Name())
	if t == nil {
		return nil, invalid("unknown tool: %s; tools/list names those there are", c.req.Name())
	}
	if c.modern != nil {
		c.modern.Sealed = t.sealed
	}
	if err := t.in.check(c.req.Get("arguments")); err != nil {
		return nil, err
	}
	result, err := t.run(ctx, c)
	if err != nil {
		return nil, err
	}
	if result.Content == nil {
		result.Content = []block{text(result.text)}
	}
	result.Content = adapt(c.rev, result.Content)
	result.Structured = wrapValue(c.rev, result.Structured)
	return result, nil
}

// arguments decodes the arguments of a tool, which have been checked.
func arguments[T any](c *call) (args T, err error) {
	if text := c.req.Get("arguments"); text != nil {
		err = json.Unmarshal(text, &args)
	}
	return args, err
}

// plainTools are the tools that only compute.
func plainTools() []*tool {
	return []*tool{{
		name: "echo", title: "Echo", readOnly: true,
		description: "Sends its text back.",
		input: `{"type":"object","properties":{
			"text":{"type":"string","description":"what to send back"}},"required":["text"]}`,
		run: echo,
	}, {
		name: "add", title: "Add", readOnly: true,
		description: "Adds two numbers, and returns the sum also as structured content.",
		input: `{"type":"object","properties":{
			"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]}`,
		output: `{"type":"object","properties":{"sum":{"type":"number"}},"required":["sum"]}`,
		run:    add,
	}, {
		name: "levels", title: "Log levels", readOnly: true,
		description: "Lists the levels of log messages as structured content that is an array, where the revision allows that.",
		output:      `{"type":"array","items":{"type":"string"}}`,
		run:         levels,
	}, {
		name: "reflect", title: "Reflect", readOnly: true,
		description: "Sends its arguments back as structured content, byte for byte.",
		input:       `{"type":"object"}`,
		output:      `{"type":"object"}`,
		run:         returnArguments,
	}, {
		name: "large", title: "Large result", readOnly: true,
		description: "Returns a text of the given size, for trying out limits.",
		input: `{"type":"object","properties":{
			"bytes":{"type":"integer","minimum":0,"maximum":67108864,"description":"size of the text"}},"required":["bytes"]}`,
		run: large,
	}, {
		name: "raise", title: "Raise an error", readOnly: true,
		description: "Answers with a JSON-RPC error instead of a result.",
		input: `{"type":"object","properties":{
			"code":{"type":"integer"},"message":{"type":"string"},
			"reason":{"type":"string","description":"goes into data.reason"}},"required":["code","message"]}`,
		run: raise,
	}, {
		name: "test_error_handling", title: "Failing tool", readOnly: true,
		description: "Always fails, with a result that says so.",
		run: func(context.Context, *call) (*toolResult, error) {
			return &toolResult{Content: []block{text("This tool intentionally returns an error for testing")}, IsError: true}, nil
		},
	}, {
		name: "json_schema_2020_12_tool", title: "JSON Schema 2020-12", readOnly: true,
		description: "Has an input schema with the vocabulary of JSON Schema 2020-12, which must arrive unchanged.",
		input:       wideSchema,
		run: func(_ context.Context, c *call) (*toolResult, error) {
			return newTextResult("Called with " + string(c.req.Get("arguments"))), nil
		},
	}, {
		name: "test_x_mcp_header", title: "Mirrored header", readOnly: true,
		description: "Has an argument that clients on HTTP repeat in a header.",
		input: `{"type":"object","properties":{
			"region":{"type":"string","description":"repeated in Mcp-Param-Region","x-mcp-header":"Region"},
			"level":{"type":"integer","description":"not repeated"}}}`,
		run: header,
	}}
}

const wideSchema = `{
	"$schema":"https://json-schema.org/draft/2020-12/schema",
	"type":"object",
	"$defs":{"address":{"$anchor":"addressDef","type":"object",
		"properties":{"street":{"type":"string"},"city":{"type":"string"}}}},
	"properties":{
		"name":{"type":"string"},
		"address":{"$ref":"#/$defs/address"},
		"contactMethod":{"type":"string","enum":["phone","email"]},
		"phone":{"type":"string"},
		"email":{"type":"string"}},
	"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],
	"if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},
	"then":{"required":["phone"]},
	"else":{"required":["email"]},
	"additionalProperties":false}`

func echo(_ context.Context, c *call) (*toolResult, error) {
	// Not by a struct, for which "Text" would be the same name.
	args, err := arguments[map[string]json.RawMessage](c)
	if err != nil {
		return nil, err
	}
	var text string
	err = json.Unmarshal(args["text"], &text)
	return newTextResult(text), err
}

func add(_ context.Context, c *call) (*toolResult, error) {
	args, err := arguments[struct {
		A float64 `json:"a"`
		B float64 `json:"b"`
	}](c)
	if err != nil {
		return nil, err
	}
	return structured(object{"sum": args.A + args.B})
}

func returnArguments(_ context.Context, c *call) (*toolResult, error) {
	args := c.req.Get("arguments")
	if args == nil {
		args = json.RawMessage("{}")
	}
	return &toolResult{Content: []block{text(string(args))}, Structured: args}, nil
}

func levels(context.Context, *call) (*toolResult, error) { return structured(protocol.LogLevels) }

// structured is a result with structured content, and the same as text for
// those who do not know of it.
func structured(value any) (*toolResult, error) {
	b, err := json.Marshal(value)
	return &toolResult{Content: []block{text(string(b))}, Structured: b}, err
}

func large(_ context.Context, c *call) (*toolResult, error) {
	args, err := arguments[struct {
		Bytes int `json:"bytes"`
	}](c)
	if err != nil {
		return nil, err
	}
	return newTextResult(strings.Repeat("x", args.Bytes)), nil
}

func raise(_ context.Context, c *call) (*toolResult, error) {
	args, err := arguments[struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Reason  json.RawMessage `json:"reason"`
	}](c)
	if err != nil {
		return nil, err
	}
	e := &dragoman.Error{Code: args.Code, Message: args.Message}
	if args.Reason != nil {
		e = failure(args.Code, object{"reason": args.Reason}, "%s", args.Message)
	}
	return nil, e
}

func header(_ context.Context, c *call) (*toolResult, error) {
	args, err := arguments[struct {
		Region string `json:"region"`
	}](c)
	return newTextResult(fmt.Sprintf("region=%s", args.Region)), err
}
