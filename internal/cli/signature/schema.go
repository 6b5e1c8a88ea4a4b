// Package signature shows the schema of a tool's arguments as the signature of a call, in one
// line, and converts the words of a command line to values that fit it.
package signature

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// A node is what a JSON Schema says that is of use here. What it says besides is for the
// server to judge.
type node struct {
	Type       oneOrMany                  `json:"type"`
	Properties ordered                    `json:"properties"`
	Required   []string                   `json:"required"`
	Additional json.RawMessage            `json:"additionalProperties"`
	Patterns   json.RawMessage            `json:"patternProperties"`
	Items      json.RawMessage            `json:"items"`
	Enum       []json.RawMessage          `json:"enum"`
	Const      json.RawMessage            `json:"const"`
	Default    json.RawMessage            `json:"default"`
	AnyOf      []json.RawMessage          `json:"anyOf"`
	OneOf      []json.RawMessage          `json:"oneOf"`
	AllOf      []json.RawMessage          `json:"allOf"`
	Ref        string                     `json:"$ref"`
	Defs       map[string]json.RawMessage `json:"$defs"`
	OldDefs    map[string]json.RawMessage `json:"definitions"`
}

// oneOrMany is a name, or a list of names.
type oneOrMany []string

// UnmarshalJSON implements json.Unmarshaler.
func (o *oneOrMany) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '[' {
		return json.Unmarshal(text, (*[]string)(o))
	}
	var one string
	err := json.Unmarshal(text, &one)
	*o = oneOrMany{one}
	return err
}

// ordered are members in the order in which they are written, which is how people
// who wrote them meant them to be read.
type ordered []member

type member struct {
	name   string
	schema json.RawMessage
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *ordered) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		m := member{}
		m.name, _ = name.(string)
		if err := d.Decode(&m.schema); err != nil {
			return err
		}
		*o = append(*o, m)
	}
	return nil
}

// A Tool is how one is called.
type Tool struct {
	name string
	root node
}

// New reads the schema of a tool's arguments. Of one that cannot be read nothing is known.
func New(name string, inputSchema json.RawMessage) *Tool {
	t := &Tool{name: name}
	_ = json.Unmarshal(inputSchema, &t.root) // then it says nothing
	return t
}

// maxDepth is how far references and parts are followed. A schema may go in a circle.
const maxDepth = 8

// read reads a part of the schema, through references within it.
func (t *Tool) read(text json.RawMessage, depth int) (n node) {
	_ = json.Unmarshal(text, &n) // then it says nothing
	if n.Ref == "" || depth > maxDepth {
		return n
	}
	for prefix, defs := range map[string]map[string]json.RawMessage{"#/$defs/": t.root.Defs, "#/definitions/": t.root.OldDefs} {
		if name, ok := strings.CutPrefix(n.Ref, prefix); ok && defs[name] != nil {
			return t.read(defs[name], depth+1)
		}
	}
	return n
}

// maxChoices is how many alternatives of a part are looked at. Parts may refer to each other
// so that there is no end of them.
const maxChoices = 16

// choices returns the alternatives of a part, those within others included.
func (t *Tool) choices(n *node) []node { return t.addChoices(nil, n, 0) }

func (t *Tool) addChoices(list []node, n *node, depth int) []node {
	parts := slices.Concat(n.AnyOf, n.OneOf)
	if len(n.AllOf) == 1 {
		parts = append(parts, n.AllOf[0])
	}
	if len(parts) == 0 || depth > maxDepth || len(n.Type) > 0 {
		return append(list, *n)
	}
	for _, part := range parts {
		if len(list) < maxChoices {
			inner := t.read(part, depth)
			list = t.addChoices(list, &inner, depth+1)
		}
	}
	return list
}

// types returns the types that a part may have. "any" stands for whatever.
func (t *Tool) types(n *node) (list []string) {
	for _, c := range t.choices(n) {
		values := c.Enum
		if c.Const != nil {
			values = []json.RawMessage{c.Const}
		}
		switch {
		case len(c.Type) > 0:
			list = append(list, c.Type...)
		case len(values) > 0:
			for _, v := range values {
				list = append(list, typeOf(v))
			}
		case len(c.Properties) > 0:
			list = append(list, "object")
		default:
			list = append(list, "any")
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// typeOf returns the type of a JSON text.
func typeOf(text json.RawMessage) string {
	switch text = bytes.TrimSpace(text); {
	case len(text) == 0:
		return "any"
	case text[0] == '"':
		return "string"
	case text[0] == '{':
		return "object"
	case text[0] == '[':
		return "array"
	case text[0] == 't', text[0] == 'f':
		return "boolean"
	case text[0] == 'n':
		return "null"
	case bytes.ContainsAny(text, ".eE"):
		return "number"
	}
	return "integer"
}

// short are the names of types in signatures.
var short = map[string]string{"string": "str", "integer": "int", "number": "num", "boolean": "bool", "object": "obj", "array": "list"}

// maxShown is how many values of an enumeration are shown.
const maxShown = 5

// maxLists is how many lists within lists a signature shows.
const maxLists = 2

// typeName names the type of a part, and says whether it may be null.
func (t *Tool) typeName(n *node, depth int) (name string, nullable bool) {
	var names []string
	for _, c := range t.choices(n) {
		values := c.Enum
		if c.Const != nil {
			values = []json.RawMessage{c.Const}
		}
		if len(values) > 0 && len(values) <= maxShown {
			for _, v := range values {
				names = append(names, plainValue(v))
			}
			continue
		}
		if len(c.Type) == 0 {
			names = append(names, t.types(&c)...)
		}
		for _, one := range c.Type {
			if one == "array" && c.Items != nil && depth < maxLists {
				items := t.read(c.Items, depth)
				inner, _ := t.typeName(&items, depth+1)
				one = "[" + inner + "]"
			}
			names = append(names, one)
		}
	}
	var list []string
	for _, one := range names {
		if s, ok := short[one]; ok {
			one = s
		}
		if one == "null" {
			nullable = true
		} else if !slices.Contains(list, one) {
			list = append(list, one)
		}
	}
	return strings.Join(list, "|"), nullable
}

// maxDefault is the longest default that is shown.
const maxDefault = 20

// String returns the signature, as in read_file(path:str, limit:int?). What may be left out
// has a question mark, or its default.
func (t *Tool) String() string {
	var parts []string
	for _, optional := range []bool{false, true} {
		for _, p := range t.root.Properties {
			if slices.Contains(t.root.Required, p.name) == optional {
				continue
			}
			n := t.read(p.schema, 0)
			kind, _ := t.typeName(&n, 0)
			text := p.name + ":" + kind
			if optional {
				if value := plainValue(n.Default); n.Default != nil && len(value) <= maxDefault {
					text += "=" + value
				} else {
					text += "?"
				}
			}
			parts = append(parts, text)
		}
	}
	return t.name + "(" + strings.Join(parts, ", ") + ")"
}

// plainValue writes a value as it would be on a command line.
func plainValue(text json.RawMessage) string {
	var s string
	if json.Unmarshal(text, &s) != nil {
		return string(text)
	}
	if s == "" || strings.ContainsAny(s, " ,()|?=\"") {
		return strconv.Quote(s)
	}
	return s
}
