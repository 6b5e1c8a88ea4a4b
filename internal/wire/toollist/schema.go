package toollist

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman"
)

// annotation is the keyword by which a schema asks for a header.
const annotation = "x-mcp-header"

// tokenChars are the characters of which the name of a header may consist.
const tokenChars = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" // #nosec G101 -- the characters of a token in HTTP

// maxParams bounds the headers of one tool. Servers take about a hundred in all.
const maxParams = 128

// dataKeywords are those of JSON Schema below which there are values, not
// schemas.
var dataKeywords = []string{"default", "const", "enum", "examples", "example", "required", "dependentRequired"}

// mapKeywords are those whose members have names of their own, with a schema
// behind each.
var mapKeywords = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}

// ParamHeaders returns the headers that a tool's inputSchema asks for, in the
// order of the schema. The error says which annotation is invalid and why; then
// the tool must not be offered over HTTP. A schema that has none is not looked
// at further.
func ParamHeaders(schema []byte) ([]ParamHeader, error) {
	// Without escapes there is one way to spell it.
	if !bytes.Contains(schema, []byte(annotation)) && !bytes.Contains(schema, []byte(`\u`)) {
		return nil, nil
	}
	if !json.Valid(schema) {
		return nil, errors.New("the schema is not valid JSON")
	}
	w := walker{names: make(map[string]int)}
	if err := w.schema(bytes.TrimSpace(schema), true); err != nil {
		return nil, err
	}
	if len(w.found) > 0 && w.twice != nil {
		return nil, w.twice
	}
	return w.found, nil
}

// A walker goes over a schema once.
type walker struct {
	depth int
	path  []string       // keywords and names from the root
	found []ParamHeader  // in the order of the schema
	names map[string]int // header names in lower case, and their places in found
	twice error          // a member that is there twice: bad if anything was found
}

// schema reads a schema, or an array of schemas. It is open if it is reached
// through properties alone; then every other element of the path is the name of
// an argument.
func (w *walker) schema(text []byte, open bool) error {
	if w.depth++; w.depth > dragoman.MaxDepth {
		return fmt.Errorf("the schema is more than %d levels deep", dragoman.MaxDepth)
	}
	defer func() { w.depth-- }()
	for _, item := range dragoman.Items(text) {
		if err := w.nested(item, false); err != nil {
			return err
		}
	}
	var header, kind []byte
	err := w.members(text, func(keyword string, value []byte) error {
		switch {
		case keyword == annotation:
			header = value
		case keyword == "type":
			kind = value
		case slices.Contains(dataKeywords, keyword):
		case slices.Contains(mapKeywords, keyword):
			return w.named(value, open && keyword == "properties")
		default:
			return w.nested(value, false)
		}
		return nil
	})
	if err != nil || header == nil {
		return err
	}
	return w.add(open, header, kind)
}

// nested reads a value where a schema or an array of some may stand.
func (w *walker) nested(value []byte, open bool) error {
	if value[0] != '{' && value[0] != '[' {
		return nil
	}
	return w.schema(value, open)
}

// named reads an object whose members are schemas under names.
func (w *walker) named(text []byte, open bool) error {
	w.depth++
	defer func() { w.depth-- }()
	return w.members(text, func(_ string, value []byte) error { return w.nested(value, open) })
}

// members calls f for each member of an object.
func (w *walker) members(object []byte, f func(name string, value []byte) error) error {
	seen := make(map[string]bool)
	for name, value := range dragoman.Members(object) {
		w.path = append(w.path, name)
		if seen[name] && w.twice == nil {
			w.twice = w.wrong("it is there twice, so readers disagree about it")
		}
		seen[name] = true
		if err := f(name, value); err != nil {
			return err
		}
		w.path = w.path[:len(w.path)-1]
	}
	return nil
}

// add checks an annotation of the schema that was read last, and notes it.
func (w *walker) add(open bool, header, kind []byte) error {
	name, ok := dragoman.Text(header)
	typ, _ := dragoman.Text(kind)
	folded := strings.ToLower(name)
	first, taken := w.names[folded]
	switch {
	case !ok:
		return w.bad("is not a string")
	case name == "":
		return w.bad("is empty")
	case strings.Trim(name, tokenChars) != "":
		return w.bad("is %.200q, which cannot be part of a header name", name)
	case !open:
		return w.bad("is %.200q on a schema that is not reached through properties alone", name)
	case len(w.path) == 0:
		return w.bad("is %.200q on the whole schema, not on a property", name)
	case typ != "string" && typ != "integer" && typ != "boolean":
		return w.bad("is %.200q on a property whose type is not string, integer or boolean", name)
	case taken:
		return w.bad("is %.200q, which the argument %.200s has too", name, strings.Join(w.found[first].Path, "."))
	case len(w.found) == maxParams:
		return w.bad("is one more than the %d that are supported", maxParams)
	}
	w.names[folded] = len(w.found)
	w.found = append(w.found, ParamHeader{Name: name, Path: w.arguments(), Type: typ})
	return nil
}

// arguments returns the path without the keywords, in an open schema.
func (w *walker) arguments() []string {
	names := make([]string, 0, len(w.path)/2)
	for i := 1; i < len(w.path); i += 2 {
		names = append(names, w.path[i])
	}
	return names
}

// bad makes the error for an annotation of the schema that was read last.
func (w *walker) bad(format string, args ...any) error {
	return w.wrong(annotation + " " + fmt.Sprintf(format, args...))
}

func (w *walker) wrong(reason string) error {
	return fmt.Errorf("schema at %s: %s", w.where(), reason)
}

// where says where the walker is.
func (w *walker) where() string {
	if len(w.path) == 0 {
		return "its root"
	}
	return fmt.Sprintf("%.200s", strings.Join(w.path, "."))
}
