package everything

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
	Type       string `json:"type"`
	Properties map[string]struct {
		Type    string      `json:"type"`
		Enum    []string    `json:"enum"`
		Minimum json.Number `json:"minimum"`
		Maximum json.Number `json:"maximum"`
	} `json:"properties"`
	Required   []string `json:"required"`
	Additional *bool    `json:"additionalProperties"`
}

// nothing is the schema of a tool without arguments. It takes any, as servers
// do.
const nothing = `{"type":"object","properties":{}}`

// newSchema reads a schema that is part of this package.
func newSchema(text string) *schema {
	s := new(schema)
	if err := json.Unmarshal([]byte(text), s); err != nil {
		panic(fmt.Sprintf("everything: bad schema %s: %v", text, err))
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(text)); err != nil {
		panic(err)
	}
	s.text = compact.Bytes()
	return s
}

// read takes arguments apart, which are an object or nil, and tells what is wrong
// with them.
func (s *schema) read(arguments json.RawMessage) (args map[string]json.RawMessage, err error) {
	if arguments != nil {
		var flat bool
		if args, flat = flatMembers(arguments); !flat {
			if err := json.Unmarshal(arguments, &args); err != nil {
				return nil, fmt.Errorf("arguments cannot be read: %w", err)
			}
		}
	}
	return args, s.check(args)
}

// flatMembers takes a valid object apart if its names and values are as simple as
// those of arguments mostly are: nothing is nested and nothing is escaped.
func flatMembers(object json.RawMessage) (map[string]json.RawMessage, bool) {
	if len(object) == 0 || object[0] != '{' {
		return nil, false
	}
	members := make(map[string]json.RawMessage)
	for rest := object; rest[0] != '}'; {
		rest = bytes.TrimLeft(rest[1:], " ") // behind the brace or comma
		n := simpleString(rest)
		if n < 0 {
			return nil, false
		}
		name := string(rest[1 : n-1])
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
		members[name] = rest[:n:n]
		rest = rest[n:]
	}
	return members, true
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

func (s *schema) check(args map[string]json.RawMessage) error {
	for _, name := range s.Required {
		if args[name] == nil {
			return fmt.Errorf("argument %q is missing; it must be of type %s", name, s.Properties[name].Type)
		}
	}
	if len(args) == 0 {
		return nil
	}
	names := make([]string, 0, 8)
	for name := range args {
		names = append(names, name)
	}
	slices.Sort(names) // of several faults it is always the same that is told
	for _, name := range names {
		if _, ok := s.Properties[name]; !ok {
			if s.Additional != nil && !*s.Additional {
				return fmt.Errorf("there is no argument %q; see the tool's inputSchema", name)
			}
			continue
		}
		if err := s.checkValue(name, args[name]); err != nil {
			return err
		}
	}
	return nil
}

func (s *schema) checkValue(name string, value json.RawMessage) error {
	want := s.Properties[name]
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
