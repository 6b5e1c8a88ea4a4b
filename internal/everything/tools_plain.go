package everything

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

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
	text, err := c.argument("text")
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
