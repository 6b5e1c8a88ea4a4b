package jsonschema

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// MaxViolations is how many violations an Error lists.
const MaxViolations = 5

// A Violation is one thing that is wrong with a value.
type Violation struct {
	Path   string // such as "arguments.items[2].name"
	Reason string // such as "is missing"
}

// text returns both.
func (v Violation) text() string { return v.Path + " " + v.Reason }

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
		b.WriteString(v.text())
	}
	return b.String()
}

// Path returns where the first violation is.
func (e *Error) Path() string { return e.Violations[0].Path }

// Reason returns what is wrong there.
func (e *Error) Reason() string { return e.Violations[0].Reason }

// root is what the value as a whole is called.
const root = "arguments"

// fails notes what is wrong with the value at hand, if that is described. It returns false.
func (r *run) fails(format string, args ...any) bool {
	if r.describing && !r.over() {
		path := root + strings.Join(r.path, "")
		r.found = append(r.found, Violation{Path: path, Reason: fmt.Sprintf(format, args...)})
	}
	return false
}

// enter and leave say that a member is at hand, which need not be there.
func (r *run) enter(name string) {
	if r.describing {
		r.path = append(r.path, nameStep(name))
	}
}

func (r *run) leave() {
	if r.describing {
		r.path = r.path[:len(r.path)-1]
	}
}

// first returns the first thing that is wrong with a value that does not fit a schema.
func (r *run) first(n *node, v any) Violation {
	one := &run{left: r.left, nested: r.nested, path: r.path, describing: true, most: 1}
	one.check(n, v, nil)
	r.left = one.left
	if len(one.found) == 0 { // there are no more steps to find it
		return Violation{root + strings.Join(r.path, ""), "does not fit"}
	}
	return one.found[0]
}

func indexStep(i int) string { return "[" + strconv.Itoa(i) + "]" }

// nameStep spells a name behind a dot, or a strange one in brackets.
func nameStep(name string) string {
	if plain(name) {
		return "." + name
	}
	return "[" + spell(name) + "]"
}

// plain reports whether a name can stand behind a dot.
func plain(name string) bool {
	for _, c := range name {
		if c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c < 0x80 {
			return false
		}
	}
	return name != "" && len(name) <= 100
}

// spell returns JSON values as text.
func spell(list ...any) string {
	parts := make([]string, len(list))
	for i, v := range list {
		b, _ := json.Marshal(v) // it was JSON before
		parts[i] = string(b)
	}
	return clip(strings.Join(parts, ", "))
}

// clip bounds what is repeated of a schema or value.
func clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
