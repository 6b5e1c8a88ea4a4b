package builtin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
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

// check returns what is wrong with arguments, which are an object or nil. Of several faults it
// always returns the same.
func (s *schema) check(arguments json.RawMessage) error {
	var args map[string]json.RawMessage
	if arguments != nil {
		if err := json.Unmarshal(arguments, &args); err != nil {
			return fmt.Errorf("arguments cannot be read: %w", err)
		}
	}
	for _, name := range s.Required {
		if args[name] == nil {
			return fmt.Errorf("argument %q is missing; it must be of type %s", name, s.Properties[name].Type)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		want := s.Properties[name]
		if want == nil {
			if s.Additional != nil && !*s.Additional {
				return fmt.Errorf("there is no argument %q; see the tool's inputSchema", name)
			}
			continue
		}
		if err := want.check(name, args[name]); err != nil {
			return err
		}
	}
	return nil
}

func (want *property) check(name string, value json.RawMessage) error {
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
