package httpx

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
		return nil, errors.New("httpx: the schema is not valid JSON")
	}
	w := walker{dec: json.NewDecoder(bytes.NewReader(schema)), names: make(map[string]int)}
	if err := w.schema(true); err != nil {
		return nil, err
	}
	if len(w.found) > 0 && w.twice != nil {
		return nil, w.twice
	}
	return w.found, nil
}

// A walker goes over a schema once.
type walker struct {
	dec   *json.Decoder
	depth int
	path  []string       // keywords and names from the root
	found []ParamHeader  // in the order of the schema
	names map[string]int // header names in lower case, and their places in found
	twice error          // a member that is there twice: bad if anything was found
}

// schema reads the schema, or array of schemas, that comes next. It is open if
// it is reached through properties alone; then every other element of the path
// is the name of an argument.
func (w *walker) schema(open bool) error {
	start, err := w.dec.Token()
	if err != nil {
		return err
	}
	switch start {
	case json.Delim('['):
		return w.inside(func() error { return w.schema(false) })
	case json.Delim('{'):
	default:
		return nil
	}
	var header, kind any
	asks := false
	err = w.members(func(keyword string) (err error) {
		switch {
		case keyword == annotation:
			asks = true
			header, err = w.scalar()
		case keyword == "type":
			kind, err = w.scalar()
		case slices.Contains(dataKeywords, keyword):
			err = skipValue(w.dec)
		case slices.Contains(mapKeywords, keyword):
			err = w.named(open && keyword == "properties")
		default:
			err = w.schema(false)
		}
		return err
	})
	if err != nil || !asks {
		return err
	}
	return w.add(open, header, kind)
}

// named reads an object whose members are schemas under names.
func (w *walker) named(open bool) error {
	start, err := w.dec.Token()
	switch {
	case err != nil:
		return err
	case start == json.Delim('{'):
		return w.members(func(string) error { return w.schema(open) })
	case start == json.Delim('['):
		return skipRest(w.dec)
	}
	return nil
}

// members calls f for each member of the object whose brace has been read; f
// reads the value.
func (w *walker) members(f func(name string) error) error {
	seen := make(map[string]bool)
	return w.inside(func() error {
		t, err := w.dec.Token()
		if err != nil {
			return err
		}
		name := t.(string)
		w.path = append(w.path, name)
		if seen[name] && w.twice == nil {
			w.twice = w.wrong("it is there twice, so readers disagree about it")
		}
		seen[name] = true
		err = f(name)
		w.path = w.path[:len(w.path)-1]
		return err
	})
}

// inside calls f for each part of an array or object whose beginning has been
// read, and reads its end.
func (w *walker) inside(f func() error) error {
	if w.depth++; w.depth > dragoman.MaxDepth {
		return fmt.Errorf("httpx: the schema is more than %d levels deep", dragoman.MaxDepth)
	}
	for w.dec.More() {
		if err := f(); err != nil {
			return err
		}
	}
	w.depth--
	_, err := w.dec.Token()
	return err
}

// scalar reads the next value and returns it if it is no array or object, else
// nil.
func (w *walker) scalar() (any, error) {
	t, err := w.dec.Token()
	if d, ok := t.(json.Delim); ok && err == nil && (d == '{' || d == '[') {
		return nil, skipRest(w.dec)
	}
	return t, err
}

// add checks an annotation of the schema that was read last, and notes it.
func (w *walker) add(open bool, header, kind any) error {
	name, ok := header.(string)
	typ, _ := kind.(string)
	folded := strings.ToLower(name)
	first, taken := w.names[folded]
	switch {
	case !ok:
		return w.bad("is not a string")
	case name == "":
		return w.bad("is empty")
	case !isToken(name):
		return w.bad("is %q, which cannot be part of a header name", clip(name))
	case !open:
		return w.bad("is %q on a schema that is not reached through properties alone", clip(name))
	case len(w.path) == 0:
		return w.bad("is %q on the whole schema, not on a property", clip(name))
	case typ != "string" && typ != "integer" && typ != "boolean":
		return w.bad("is %q on a property whose type is not string, integer or boolean", clip(name))
	case taken:
		return w.bad("is %q, which the argument %s has too", clip(name), clip(strings.Join(w.found[first].Path, ".")))
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
	return fmt.Errorf("httpx: schema at %s: %s", w.where(), reason)
}

// where says where the walker is.
func (w *walker) where() string {
	if len(w.path) == 0 {
		return "its root"
	}
	return clip(strings.Join(w.path, "."))
}
