package schema

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// MaxViolations is how many violations an Error lists.
const MaxViolations = 5

// A Violation is one thing that is wrong with a value.
type Violation struct {
	Path   string // such as "arguments.items[2].name"
	Reason string // such as "is missing"
}

// An Error says what is wrong with a value.
type Error struct {
	// Violations are the first of them, at least one.
	Violations []Violation
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	for i, v := range e.Violations {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(v.Path)
		b.WriteByte(' ')
		b.WriteString(v.Reason)
	}
	return b.String()
}

// Path returns where the first violation is.
func (e *Error) Path() string { return e.Violations[0].Path }

// Reason returns what is wrong there.
func (e *Error) Reason() string { return e.Violations[0].Reason }

// describe returns what the validator has found in v.
func describe(found *jsonschema.ValidationError, v any) *Error {
	d := describer{value: v}
	d.add(found)
	if len(d.list) == 0 {
		d.note(nil, "does not fit the schema")
	}
	return &Error{Violations: d.list}
}

type describer struct {
	value any
	list  []Violation
}

func (d *describer) note(at []string, reason string) {
	if len(d.list) < MaxViolations {
		d.list = append(d.list, Violation{Path: pathOf(d.value, at), Reason: reason})
	}
}

// add notes a finding, or what it consists of.
func (d *describer) add(e *jsonschema.ValidationError) {
	at := e.InstanceLocation
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			d.note(append(at[:len(at):len(at)], name), "is missing")
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			d.note(append(at[:len(at):len(at)], name), "is not allowed")
		}
	case *kind.AnyOf, *kind.OneOf:
		if len(e.Causes) == 0 {
			d.note(at, "fits more than one of the forms of which one is allowed")
			return
		}
		d.note(at, "fits none of the forms that are allowed: "+d.forms(e.Causes))
	default:
		for _, cause := range e.Causes {
			d.add(cause)
		}
		if len(e.Causes) == 0 {
			d.note(at, reason(e))
		}
	}
}

// forms says why a value does not fit each of several forms.
func (d *describer) forms(causes []*jsonschema.ValidationError) string {
	var parts []string
	for _, cause := range causes[:min(len(causes), MaxViolations)] {
		inner := describer{value: d.value}
		inner.add(cause)
		if len(inner.list) > 0 {
			parts = append(parts, inner.list[0].Path+" "+inner.list[0].Reason)
		}
	}
	return strings.Join(parts, ", or ")
}

// reason says in a few words what a finding without causes is.
func reason(e *jsonschema.ValidationError) string {
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		return "is " + article(k.Got) + ", not " + article(strings.Join(k.Want, " or "))
	case *kind.Enum:
		return "must be one of " + values(k.Want)
	case *kind.Const:
		return "must be " + values([]any{k.Want})
	case *kind.FalseSchema:
		return "is not allowed"
	case *kind.Minimum:
		return "is less than " + decimal(k.Want)
	case *kind.Maximum:
		return "is more than " + decimal(k.Want)
	case *kind.MinLength:
		return fmt.Sprintf("has %d characters; at least %d are needed", k.Got, k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("has %d characters; at most %d are allowed", k.Got, k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("has %d items; at least %d are needed", k.Got, k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("has %d items; at most %d are allowed", k.Got, k.Want)
	case *kind.Pattern:
		return "does not match the pattern " + clip(k.Want)
	}
	// The validator's own words, without the place that it puts before them.
	text := (&jsonschema.ValidationError{ErrorKind: e.ErrorKind}).Error()
	return "is wrong: " + clip(strings.TrimPrefix(text, "at '': "))
}

func article(kind string) string {
	switch {
	case kind == "null":
		return kind
	case strings.HasPrefix(kind, "array"), strings.HasPrefix(kind, "object"), strings.HasPrefix(kind, "integer"):
		return "an " + kind
	}
	return "a " + kind
}

// values returns a list of JSON values as text.
func values(list []any) string {
	parts := make([]string, len(list))
	for i, v := range list {
		b, _ := json.Marshal(v) // it was JSON before
		parts[i] = string(b)
	}
	return clip(strings.Join(parts, ", "))
}

// decimal returns a number as a person would write it.
func decimal(n *big.Rat) string {
	if n.IsInt() {
		return clip(n.Num().String())
	}
	f, _ := n.Float64()
	return fmt.Sprint(f)
}

// clip bounds what is repeated of a schema or value.
func clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
