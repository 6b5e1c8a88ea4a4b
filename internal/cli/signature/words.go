package signature

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Arguments returns the arguments that words stand for, over those of a JSON object, which
// may be nil: key=value, of the type that the schema says, and key:=json. A key that comes
// again adds to a list.
func (t *Tool) Arguments(base json.RawMessage, words []string) (json.RawMessage, error) {
	values := make(map[string]json.RawMessage)
	if len(base) > 0 {
		if err := json.Unmarshal(base, &values); err != nil || values == nil {
			return nil, errors.New("the arguments are not a JSON object")
		}
	}
	given := make(map[string]bool)
	if err := CheckWords(words); err != nil {
		return nil, err
	}
	for _, word := range words {
		name, text, raw := split(word)
		value, err := t.value(name, text, raw)
		if err != nil {
			return nil, err
		}
		if given[name] {
			if value, err = t.another(name, values[name], value); err != nil {
				return nil, err
			}
		}
		values[name], given[name] = value, true
	}
	for _, name := range t.root.Required {
		if _, ok := values[name]; !ok && len(base) == 0 {
			if strange := t.Unknown(words); len(strange) > 0 {
				return nil, fmt.Errorf("%s is missing, and there is no %s: %s", name, strings.Join(strange, ", "), t)
			}
			return nil, fmt.Errorf("%s is missing: %s", name, t)
		}
	}
	return json.Marshal(values)
}

// split returns the parts of a word, and whether its value is JSON.
func split(word string) (name, text string, raw bool) {
	name, text, _ = strings.Cut(word, "=")
	name, raw = strings.CutSuffix(name, ":")
	return name, text, raw
}

// CheckWords says what is wrong with the form of words, if something is.
func CheckWords(words []string) error {
	for _, word := range words {
		if name, _, _ := split(word); name == "" || !strings.Contains(word, "=") {
			return fmt.Errorf("%q is not of the form key=value or key:=json", word)
		}
	}
	return nil
}

// Unknown returns the keys of words that the schema does not name, and does not say to take
// either.
func (t *Tool) Unknown(words []string) (names []string) {
	r := &t.root
	open := len(r.Additional) > 0 && string(r.Additional) != "false" || len(r.Patterns) > 0
	if open || len(r.Type) == 0 || r.Ref != "" || len(r.AnyOf)+len(r.OneOf)+len(r.AllOf) > 0 {
		return nil
	}
	for _, word := range words {
		name, _, _ := split(word)
		if _, known := t.property(name); !known && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// property returns the schema of an argument, or false.
func (t *Tool) property(name string) (node, bool) {
	i := slices.IndexFunc(t.root.Properties, func(m member) bool { return m.name == name })
	if i < 0 {
		return node{}, false
	}
	return t.read(t.root.Properties[i].schema, 0), true
}

// Names returns the names of the arguments.
func (t *Tool) Names() (list []string) {
	for _, m := range t.root.Properties {
		list = append(list, m.name)
	}
	return list
}

// Values returns the values that an argument is limited to, or nil.
func (t *Tool) Values(name string) (list []string) {
	n, _ := t.property(name)
	for _, c := range t.choices(&n) {
		for _, v := range c.Enum {
			var s string
			if json.Unmarshal(v, &s) != nil {
				s = string(v)
			}
			list = append(list, s)
		}
		if slices.Contains(c.Type, "boolean") {
			list = append(list, "true", "false")
		}
	}
	return list
}

// value returns the value of one word.
func (t *Tool) value(name, text string, raw bool) (json.RawMessage, error) {
	n, known := t.property(name)
	switch {
	case !known && string(t.root.Additional) == "false":
		return nil, fmt.Errorf("there is no argument %s: %s", name, t)
	case raw && !json.Valid([]byte(text)):
		return nil, fmt.Errorf("%s is not JSON; for a text write %s=", name, name)
	case raw:
		return json.RawMessage(text), nil
	case !known:
		return json.Marshal(text)
	}
	if value := t.typed(&n, text); value != nil {
		return value, nil
	}
	kind, _ := t.typeName(&n, 0)
	return nil, fmt.Errorf("%s cannot be %q: it is %s; JSON can be given as %s:=", name, text, kind, name)
}

// typed returns a text as a value of a type that a part may have, or nil. What can be a
// string is one: not every text of digits is a number.
func (t *Tool) typed(n *node, text string) json.RawMessage {
	types := t.types(n)
	has := func(name string) bool { return slices.Contains(types, name) }
	switch {
	case has("string"), has("any") && len(types) == 1:
		quoted, _ := json.Marshal(text) // a string can be encoded
		return quoted
	case text == "true" && has("boolean"), text == "false" && has("boolean"), text == "null" && has("null"):
		return json.RawMessage(text)
	case (has("integer") || has("number")) && isNumber(text, !has("number")):
		return json.RawMessage(text)
	case has("object") && typeOf(json.RawMessage(text)) == "object" && json.Valid([]byte(text)):
		return json.RawMessage(text)
	case has("array"):
		return t.list(n, text)
	}
	return nil
}

// isNumber reports whether a text is a number as JSON writes it.
func isNumber(text string, whole bool) bool {
	if kind := typeOf(json.RawMessage(text)); kind != "integer" && (whole || kind != "number") {
		return false
	}
	return json.Valid([]byte(text))
}

// list returns a text as a list: JSON, or one entry.
func (t *Tool) list(n *node, text string) json.RawMessage {
	if typeOf(json.RawMessage(text)) == "array" && json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	for _, c := range t.choices(n) {
		if !slices.Contains(c.Type, "array") {
			continue
		}
		items := t.read(c.Items, 0)
		if entry := t.typed(&items, text); entry != nil {
			return slices.Concat(json.RawMessage("["), entry, json.RawMessage("]"))
		}
	}
	return nil
}

// another adds the entries of one list to another.
func (t *Tool) another(name string, before, value json.RawMessage) (json.RawMessage, error) {
	var all, more []json.RawMessage
	if json.Unmarshal(before, &all) != nil || json.Unmarshal(value, &more) != nil {
		return nil, fmt.Errorf("%s is given twice, and is no list: %s", name, t)
	}
	return json.Marshal(append(all, more...))
}

// Check says what is wrong with a value of an argument, if something is.
func (t *Tool) Check(name, text string) error {
	_, err := t.value(name, text, false)
	return err
}
