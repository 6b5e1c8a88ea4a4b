package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/inspect/rawclient"
	"github.com/dragoman-mcp/dragoman/internal/util/jsonschema"
	"github.com/dragoman-mcp/dragoman/internal/util/lazy"
	"github.com/dragoman-mcp/dragoman/internal/wire/toollist"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// What hosts take.
const (
	maxDescription = 1024 // characters
	maxDepth       = 10   // levels of a schema
	maxTools       = 128
	maxTokens      = 25_000
)

var (
	goodName     = lazy.Regexp(`^[a-zA-Z0-9_-]{1,64}$`)
	goodProperty = lazy.Regexp(`^[a-zA-Z0-9_.-]{1,64}$`)
)

// A tool is an entry of the list.
type tool struct {
	Name         string
	Description  string
	InputSchema  json.RawMessage
	OutputSchema json.RawMessage

	input, output *document // the schemas; with nothing in them if there are none
}

// toolsOf reads a list. What cannot be read has no name and no schema, which rules look at.
func toolsOf(p *rawclient.Pages) (list []tool) {
	for _, entry := range p.Entries {
		var t tool
		_ = json.Unmarshal(entry, &t) // as above
		list = append(list, t)
	}
	return list
}

// toolList reads the tools, once.
func (r *run) toolList() []tool {
	if r.read == nil && r.tools != nil {
		r.read = toolsOf(r.tools)
		for i := range r.read {
			t := &r.read[i]
			t.input, t.output = readSchema(t.InputSchema), readSchema(t.OutputSchema)
		}
	}
	return r.read
}

// eachTool looks at every tool. look returns what is wrong with one, or "".
func eachTool(look func(*tool) string) func(context.Context, *run) outcome {
	return func(ctx context.Context, r *run) outcome {
		list := r.toolList()
		var bad []Finding
		for i := range list {
			if ctx.Err() != nil {
				return skip("it was interrupted")
			}
			t := &list[i]
			if problem := look(t); problem != "" {
				bad = append(bad, Finding{Text: t.Name + ": " + problem, Tool: t.Name})
			}
		}
		return found(bad)
	}
}

func toolName(t *tool) string {
	switch {
	case t.Name == "":
		return "a tool has no name"
	case utf8.RuneCountInString(t.Name) > 64:
		return fmt.Sprintf("the name has %d characters", utf8.RuneCountInString(t.Name))
	case !goodName().MatchString(t.Name):
		return "the name has other characters"
	}
	return ""
}

func toolUnique(ctx context.Context, r *run) outcome {
	seen := map[string]int{}
	return eachTool(func(t *tool) string {
		if seen[t.Name]++; seen[t.Name] == 2 {
			return "there is another one of that name"
		}
		return ""
	})(ctx, r)
}

func toolDescription(t *tool) string {
	if strings.TrimSpace(t.Description) == "" {
		return "there is no description, which is all that a model goes by"
	}
	return ""
}

func toolDescriptionSize(t *tool) string {
	if n := utf8.RuneCountInString(t.Description); n > maxDescription {
		return fmt.Sprintf("the description has %d characters", n)
	}
	return ""
}

func schemaObject(t *tool) string {
	top := members(t.InputSchema)
	switch {
	case t.InputSchema == nil:
		return "there is no inputSchema"
	case top == nil:
		return "inputSchema is no object"
	case string(top["type"]) != `"object"`:
		return `inputSchema has no "type":"object" at the top`
	}
	return ""
}

func outputObject(t *tool) string {
	if t.OutputSchema != nil && string(members(t.OutputSchema)["type"]) != `"object"` {
		return `outputSchema has no "type":"object" at the top`
	}
	return ""
}

func schemaUnion(t *tool) string {
	top := members(t.InputSchema)
	for _, word := range []string{"anyOf", "oneOf", "allOf", "not", "enum"} {
		if top[word] != nil {
			return "there is " + word + " at the top"
		}
	}
	return ""
}

func schemaRef(t *tool) string {
	for _, d := range []*document{t.input, t.output} {
		for k, i := range d.refs {
			switch to := d.to[k]; {
			case to.foreign:
				return d.path(i) + " refers to " + d.ref(i) + ", another document, which nobody loads"
			case to.missing:
				return d.path(i) + " refers to " + d.ref(i) + ", which is not there"
			}
		}
	}
	return ""
}

func schemaRecursive(t *tool) string {
	if i := t.input.leadsBack(); i >= 0 {
		return t.input.path(i) + " refers to " + t.input.ref(i) + ", and that leads back"
	}
	return ""
}

func schemaProperty(t *tool) string {
	for i, n := range t.input.nodes {
		properties, _ := n.schema["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			if !goodProperty().MatchString(name) {
				return fmt.Sprintf("%s has a property %q", t.input.path(i), name)
			}
		}
	}
	return ""
}

func schemaRequired(t *tool) string {
	for i, n := range t.input.nodes {
		properties, has := n.schema["properties"].(map[string]any)
		required, _ := n.schema["required"].([]any)
		for _, name := range required {
			text, _ := name.(string)
			if _, ok := properties[text]; has && !ok {
				return fmt.Sprintf("%s requires %q, which is no property", t.input.path(i), text)
			}
		}
	}
	return ""
}

func schemaDepth(t *tool) string {
	deepest := 0
	for _, n := range t.input.nodes {
		deepest = max(deepest, n.depth)
	}
	if deepest > maxDepth {
		return fmt.Sprintf("inputSchema is %d levels deep", deepest)
	}
	return ""
}

func schemaValid(t *tool) string {
	for _, s := range []struct {
		name string
		text json.RawMessage
		read *document
	}{{"inputSchema", t.InputSchema, t.input}, {"outputSchema", t.OutputSchema, t.output}} {
		if s.text == nil || !s.read.whole() {
			continue // which another rule looks at
		}
		if s.read.large {
			return fmt.Sprintf("%s has more than %d schemas or %d references, which no host takes", s.name, maxSchemas, maxRefs)
		}
		if err := jsonschema.Valid(s.text); err != nil {
			return s.name + ": " + err.Error()
		}
	}
	return ""
}

func toolHeader(t *tool) string {
	if _, err := toollist.ParamHeaders(t.InputSchema); err != nil && members(t.InputSchema) != nil {
		return err.Error()
	}
	return ""
}

func toolsCount(_ context.Context, r *run) outcome {
	n := len(r.tools.Entries)
	return verify(n <= maxTools, nil, "there are %d", n)
}

func toolsSize(_ context.Context, r *run) outcome {
	tokens := r.tools.Tokens()
	return verify(tokens <= maxTokens, nil, "it costs about %d, %d bytes", tokens, r.tools.Bytes)
}

// call calls the tool that the user has named, once.
func (r *run) call(ctx context.Context) *rawclient.Exchange {
	if r.called == nil {
		arguments := r.Arguments
		if arguments == nil {
			arguments = json.RawMessage("{}")
		}
		meta := rawclient.Object{}
		if r.main() == r.modern {
			meta = r.modern.Meta()
		}
		meta["progressToken"] = "dragoman-call"
		r.called = r.ask(ctx, r.main(), protocol.MethodCallTool, rawclient.Object{"name": r.Call, "arguments": arguments, "_meta": meta})
	}
	return r.called
}

func callContent(ctx context.Context, r *run) outcome {
	x := r.call(ctx)
	content := members(x.Result())["content"]
	switch {
	case x.Result() == nil:
		return skip("the tool was not called: " + x.Summary())
	case protocol.EmptyContent(content):
		return fail(x, "there is no content, or it is empty")
	}
	return pass()
}

func callStructured(ctx context.Context, r *run) outcome {
	x := r.call(ctx)
	result := members(x.Result())
	list := r.toolList()
	i := slices.IndexFunc(list, func(t tool) bool { return t.Name == r.Call })
	switch {
	case x.Result() == nil:
		return skip("the tool was not called: " + x.Summary())
	case i < 0 || list[i].OutputSchema == nil:
		return skip("the tool has no outputSchema")
	case string(result["isError"]) == "true":
		return skip("the tool has failed")
	case result["structuredContent"] == nil:
		return fail(x, "there is an outputSchema, and no structuredContent")
	}
	err := new(jsonschema.Checker).Check(list[i].OutputSchema, result["structuredContent"])
	if e, bad := errors.AsType[*jsonschema.Error](err); bad {
		return fail(x, "%s %s", e.Path(), e.Reason())
	}
	return pass()
}
