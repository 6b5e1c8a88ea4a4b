package everything

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/dragoman-mcp/dragoman/protocol"
)

// A form is what an elicitation asks the user to fill in.
type form []field

// A field of a form. Choices are by value; a choice may have a title.
type field struct {
	name        string
	kind        string // JSON type; "array" is several of the choices
	description string
	required    bool
	fallback    any // the default, or nil
	choices     []choice
	oldTitles   bool // titles are spelt as enumNames in every revision
}

type choice struct{ value, title string }

// schema returns the form as the JSON schema that a revision understands.
func (f form) schema(rev protocol.Revision) object {
	properties := object{}
	var required []string
	for _, d := range f {
		properties[d.name] = d.schema(rev)
		if d.required {
			required = append(required, d.name)
		}
	}
	schema := object{"type": "object", "properties": properties}
	if required != nil {
		schema["required"] = required
	}
	return schema
}

func (d field) schema(rev protocol.Revision) object {
	kind := d.kind
	if kind == "array" && !rev.HasRichForms() {
		kind = "string" // one of them is the most that can be asked for
	}
	schema := object{"type": kind}
	if d.description != "" {
		schema["description"] = d.description
	}
	if d.fallback != nil && (rev.HasRichForms() || kind == "boolean") {
		schema["default"] = d.fallback
	}
	if d.choices == nil {
		return schema
	}
	options := d.options(rev)
	if kind != "array" {
		for name, value := range options {
			schema[name] = value
		}
		return schema
	}
	if titled, ok := options["oneOf"]; ok {
		schema["items"] = object{"anyOf": titled}
	} else {
		options["type"] = "string"
		schema["items"] = options
	}
	return schema
}

// options returns the members of a schema that list the choices.
func (d field) options(rev protocol.Revision) object {
	var values, titles []string
	var titled []object
	for _, c := range d.choices {
		values, titles = append(values, c.value), append(titles, c.title)
		titled = append(titled, object{"const": c.value, "title": c.title})
	}
	switch {
	case d.choices[0].title == "":
		return object{"enum": values}
	case d.oldTitles || !rev.HasRichForms():
		return object{"enum": values, "enumNames": titles}
	}
	return object{"oneOf": titled}
}

// check returns what is wrong with the content of a form that was filled in.
func (f form) check(content map[string]json.RawMessage) error {
	for _, d := range f {
		value, ok := content[d.name]
		if !ok {
			if d.required {
				return fmt.Errorf("content.%s is missing", d.name)
			}
			continue
		}
		if err := d.check(value); err != nil {
			return err
		}
	}
	return nil
}

func (d field) check(value json.RawMessage) error {
	kind := typeOf(value)
	if kind != d.kind && !(kind == "integer" && d.kind == "number") && !(kind == "string" && d.kind == "array") {
		return fmt.Errorf("content.%s is of type %s, not %s", d.name, kind, d.kind)
	}
	if d.choices == nil {
		return nil
	}
	var chosen []string
	if kind == "string" {
		chosen = make([]string, 1)
		if err := json.Unmarshal(value, &chosen[0]); err != nil {
			return fmt.Errorf("content.%s: %w", d.name, err)
		}
	} else if err := json.Unmarshal(value, &chosen); err != nil {
		return fmt.Errorf("content.%s: %w", d.name, err)
	}
	for _, one := range chosen {
		if !slices.ContainsFunc(d.choices, func(c choice) bool { return c.value == one }) {
			return fmt.Errorf("content.%s: %q is none of the choices", d.name, one)
		}
	}
	return nil
}
