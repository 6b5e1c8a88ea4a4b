package config

import (
	"regexp"
	"slices"
	"strings"
)

// A place is a line and a column of a file. Both count from one, columns in
// characters.
type place struct{ line, column int }

type kind uint8

const (
	null kind = iota
	text
	number
	boolean
	list
	table
)

// String names a kind as it is spoken of in errors.
func (k kind) String() string {
	return [...]string{"nothing", "text", "a number", "true or false", "a list", "a mapping"}[k]
}

// A node is a value as it stands in a file, whatever the file's syntax. Once read,
// it is not changed.
type node struct {
	kind    kind
	text    string         // of a scalar; of numbers and booleans as it is written
	items   []*node        // of a list
	members []member       // of a table, in their order
	index   map[string]int // of members, by key
	dropped []member       // members whose key stood there before
	at      place
	end     place // behind the last character; zero if the syntax does not tell
	flow    bool  // ends before the next , ] or } even without quotes
	secret  bool  // not to be shown
}

// A member is a key of a table with its value.
type member struct {
	key   string
	at    place // of the key
	value *node
}

func (n *node) scalar() bool { return n.kind == text || n.kind == number || n.kind == boolean }

// get returns the value of a key, or nil.
func (n *node) get(key string) *node {
	if n == nil {
		return nil
	}
	if i, ok := n.index[key]; ok {
		return n.members[i].value
	}
	return nil
}

func (n *node) has(keys ...string) bool {
	for _, k := range keys {
		if n.get(k) != nil {
			return true
		}
	}
	return false
}

// secretTables are the keys of mappings whose values may all be secret.
var secretTables = map[string]bool{
	"env": true, "environment": true, "headers": true, "http_headers": true,
	"auth": true, "oauth": true, "tokens": true,
}

// onlyReference matches what is no secret because it only refers to one.
var onlyReference = regexp.MustCompile(`^(?:Bearer |Basic )?\$\{(?:(?:env|file|input):)?[^{}:]*\}$`)

// hide marks what must not be shown in an excerpt.
func (n *node) hide(key string, secret bool) {
	secret = secret || secretTables[key] || n.kind != table && secretName(key) && !strings.HasSuffix(key, "_env_var")
	n.secret = (secret || n.kind == text && secretText(n.text)) && !onlyReference.MatchString(n.text)
	for i, item := range n.items {
		flag := ""
		if i > 0 && strings.HasPrefix(n.items[i-1].text, "-") && !strings.Contains(n.items[i-1].text, "=") {
			flag = n.items[i-1].text
		}
		item.hide(flag, secret)
	}
	for _, m := range slices.Concat(n.members, n.dropped) {
		m.value.hide(m.key, secret)
	}
}

// repeats tells whether a key stands twice somewhere in a table.
func (n *node) repeats() bool {
	return len(n.dropped) > 0 || slices.ContainsFunc(n.items, (*node).repeats) ||
		slices.ContainsFunc(n.members, func(m member) bool { return m.value.repeats() })
}
