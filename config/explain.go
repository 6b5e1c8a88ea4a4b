package config

import (
	"fmt"
	"strconv"
	"strings"
)

// expect reports a value of the wrong kind, and returns false.
func (r *reader) expect(n *node, where, what string) bool {
	got, hint := n.kind.String(), ""
	if n.scalar() {
		got = show(n)
	}
	switch {
	case what == "a list" && n.scalar():
		hint = "write a list, as in [one, two]"
	case n.kind == text && what == "a whole number" && plainNumber.MatchString(n.text),
		n.kind == text && what == "true or false" && (n.text == "true" || n.text == "false"):
		hint = "leave out the quotes"
	case n.kind == text && what == "true or false":
		switch strings.ToLower(n.text) {
		case "yes", "on", "y":
			hint = "write true"
		case "no", "off", "n":
			hint = "write false"
		}
	}
	if where == "" {
		where = "the file"
	}
	r.fail(n.at, fmt.Sprintf("%s: %s is expected, not %s", where, what, got), hint)
	return false
}

// bad reports a value that a check did not like; with an empty message it does not.
func (r *reader) bad(n *node, where, message, hint string) {
	if message != "" {
		r.fail(n.at, fmt.Sprintf("%s: %s %s", where, show(n), message), hint)
	}
}

// show returns a scalar as it stands in the file, unless it may be a secret.
func show(n *node) string {
	switch {
	case n.secret:
		return "the value"
	case n.kind == text:
		return strconv.Quote(clip(showText(n.text)))
	}
	return clip(showText(n.text))
}

func join(where, name string) string {
	if where == "" {
		return name
	}
	return where + "." + name
}
