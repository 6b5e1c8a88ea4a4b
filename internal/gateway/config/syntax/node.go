// Package syntax reads YAML, JSON with comments, and TOML into one tree in which every value
// knows its position. It marks what may be a secret, and shows lines of a file without
// secrets. It does not know what values mean.
package syntax

import (
	"slices"
	"time"
)

// A Position is a line and a column of a file. Both count from one, columns in
// characters.
type Position struct{ Line, Column int }

// A Kind is what a value is.
type Kind uint8

// The kinds of values.
const (
	Null Kind = iota
	Text
	Number
	Boolean
	List
	Table
)

// String names a kind as it is spoken of in errors.
func (k Kind) String() string {
	return [...]string{"nothing", "text", "a number", "true or false", "a list", "a mapping"}[k]
}

// A Node is a value as it stands in a file, whatever the file's syntax. Once read,
// it is not changed: a translation makes copies.
type Node struct {
	Kind    Kind
	Text    string   // of a scalar; of numbers and booleans as it is written
	Items   []*Node  // of a list
	Members []Member // of a table, in their order
	At      Position
	Secret  bool // not to be shown
	Broken  bool // a mistake in it has been reported

	// What a translation of the tree leaves to those who read it.
	Path    string        // how errors name the value, if not by where it is now
	Written string        // the text as it stands in the file, if that is another
	Unit    time.Duration // of a number that stands for a time
	Not     bool          // true means false, and false true

	index   map[string]int // of Members, by key
	dropped []Member       // members whose key stood there before
	end     Position       // behind the last character; zero if the syntax does not tell
	flow    bool           // ends before the next , ] or } even without quotes
}

// A Member is a key of a table with its value.
type Member struct {
	Key   string
	At    Position // of the key
	Value *Node
}

// Scalar reports whether n is text, a number or a boolean.
func (n *Node) Scalar() bool { return n.Kind == Text || n.Kind == Number || n.Kind == Boolean }

// Member returns the member with a key.
func (n *Node) Member(key string) (m Member, ok bool) {
	if n == nil {
		return m, false
	}
	i, ok := n.index[key]
	if ok {
		m = n.Members[i]
	}
	return m, ok
}

// Get returns the value of a key, or nil.
func (n *Node) Get(key string) *Node {
	m, _ := n.Member(key)
	return m.Value
}

// Has reports whether a table has one of the keys.
func (n *Node) Has(keys ...string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return n.Get(key) != nil })
}

// Set puts a member into a table, in place of the one with its key.
func (n *Node) Set(m Member) {
	if i, ok := n.index[m.Key]; ok {
		n.Members[i] = m
		return
	}
	if n.index == nil {
		n.index = map[string]int{}
	}
	n.index[m.Key] = len(n.Members)
	n.Members = append(n.Members, m)
}

// Empty returns a copy of a table without its members.
func (n *Node) Empty() *Node {
	c := *n
	c.Members, c.index = nil, nil
	return &c
}

// As returns a copy of a scalar that is another text.
func (n *Node) As(text string) *Node {
	c := *n
	c.Kind, c.Text, c.Written = Text, text, n.Text
	return &c
}
