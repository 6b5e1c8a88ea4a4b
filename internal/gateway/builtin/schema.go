package builtin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A schema is a JSON schema as it is listed, and those parts of it that
// arguments are checked against. Our tools need no others.
type schema struct {
	text       json.RawMessage
	Type       string               `json:"type"`
	Properties map[string]*property `json:"properties"`
	Required   []string             `json:"required"`
	Additional *bool                `json:"additionalProperties"`
}

// A property is the schema of one argument.
type property struct {
	Type    string      `json:"type"`
	Enum    []string    `json:"enum"`
	Minimum json.Number `json:"minimum"`
	Maximum json.Number `json:"maximum"`
}

// nothing is the schema of a tool without arguments. It takes any, as servers
// do.
const nothing = `{"type":"object","properties":{}}`

// newSchema reads a schema that is part of this package.
func newSchema(text string) *schema {
	s := new(schema)
	if err := json.Unmarshal([]byte(text), s); err != nil {
		panic(fmt.Sprintf("builtin: bad schema %s: %v", text, err))
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(text)); err != nil {
		panic(err)
	}
	s.text = compact.Bytes()
	return s
}

// A member is one of an object: its name and its value as JSON text.
type member struct {
	name  []byte
	value json.RawMessage
}

// members are those of an object, in the order of their names. No two have the
// same one.
type members []member

// get returns the value of a member, or nil if there is none of that name.
func (m members) get(name string) json.RawMessage {
	for i := range m {
		if string(m[i].name) == name {
			return m[i].value
		}
	}
	return nil
}

// read takes arguments apart, which are an object or nil, and returns what is wrong
// with them.
func (s *schema) read(arguments json.RawMessage) (members, error) {
	if arguments == nil {
		return nil, s.check(nil)
	}
	args, flat := flatMembers(arguments)
	if !flat {
		var all map[string]json.RawMessage
		if err := json.Unmarshal(arguments, &all); err != nil {
			return nil, fmt.Errorf("arguments cannot be read: %w", err)
		}
		args = make(members, 0, len(all))
		for name, value := range all {
			args = append(args, member{[]byte(name), value})
		}
		args.sort()
	}
	return args, s.check(args)
}

func (m members) sort() {
	slices.SortStableFunc(m, func(a, b member) int { return bytes.Compare(a.name, b.name) })
}

// flatMembers takes a valid object apart if its names and values are as simple as
// those of arguments mostly are: nothing is nested and nothing is escaped.
func flatMembers(object json.RawMessage) (members, bool) {
	if len(object) == 0 || object[0] != '{' {
		return nil, false
	}
	list := make(members, 0, 4)
	for rest := object; rest[0] != '}'; {
		rest = bytes.TrimLeft(rest[1:], " ") // behind the brace or comma
		n := simpleString(rest)
		if n < 0 {
			return nil, false
		}
		name := rest[1 : n-1]
		if rest = rest[n:]; rest[0] != ':' {
			return nil, false
		}
		rest = bytes.TrimLeft(rest[1:], " ")
		if rest[0] != '"' {
			n = bytes.IndexAny(rest, ",}[{ \t\r\n")
		} else {
			n = simpleString(rest)
		}
		if n <= 0 || rest[n] != ',' && rest[n] != '}' {
			return nil, false
		}
		list = append(list, member{name, rest[:n:n]})
		rest = rest[n:]
	}
	if len(list) < 2 {
		return list, true
	}
	list.sort()
	last := 0 // of several with one name, the last one counts
	for _, v := range list[1:] {
		if !bytes.Equal(v.name, list[last].name) {
			last++
		}
		list[last] = v
	}
	return list[:last+1], true
}

// simpleString returns the length of the string that valid JSON text begins with,
// or -1 if that is no string or is not simple.
func simpleString(text json.RawMessage) int {
	if text[0] == '"' {
		if n := bytes.IndexByte(text[1:], '"') + 2; isSimple(text[1 : n-1]) {
			return n
		}
	}
	return -1
}

// check returns what is wrong with arguments. Of several faults it always returns the
// same.
func (s *schema) check(args members) error {
	for _, name := range s.Required {
		if args.get(name) == nil {
			return fmt.Errorf("argument %q is missing; it must be of type %s", name, s.Properties[name].Type)
		}
	}
	for _, v := range args {
		want := s.Properties[string(v.name)]
		if want == nil {
			if s.Additional != nil && !*s.Additional {
				return fmt.Errorf("there is no argument %q; see the tool's inputSchema", v.name)
			}
			continue
		}
		if err := want.check(v.name, v.value); err != nil {
			return err
		}
	}
	return nil
}

func (want *property) check(name []byte, value json.RawMessage) error {
	got := typeOf(value)
	if want.Type != "" && got != want.Type && !(want.Type == "number" && got == "integer") {
		return fmt.Errorf("argument %q must be of type %s, not %s", name, want.Type, got)
	}
	if want.Enum != nil {
		var one string
		if json.Unmarshal(value, &one) != nil || !slices.Contains(want.Enum, one) {
			return fmt.Errorf("argument %q must be one of %s", name, strings.Join(want.Enum, ", "))
		}
	}
	if want.Minimum == "" && want.Maximum == "" {
		return nil
	}
	if n, err := json.Number(value).Float64(); err == nil {
		if least, err := want.Minimum.Float64(); err == nil && n < least {
			return fmt.Errorf("argument %q must be at least %s", name, want.Minimum)
		}
		if most, err := want.Maximum.Float64(); err == nil && n > most {
			return fmt.Errorf("argument %q must be at most %s", name, want.Maximum)
		}
	}
	return nil
}

// typeOf names the type of a valid JSON value as schemas do.
func typeOf(value json.RawMessage) string {
	value = bytes.TrimSpace(value)
	switch {
	case len(value) == 0 || value[0] == 'n':
		return "null"
	case value[0] == '"':
		return "string"
	case value[0] == '{':
		return "object"
	case value[0] == '[':
		return "array"
	case value[0] == 't' || value[0] == 'f':
		return "boolean"
	case bytes.ContainsAny(value, ".eE"):
		return "number"
	}
	return "integer"
}
