package config

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// A tomlBuilder makes a tree of the expressions of a TOML file.
type tomlBuilder struct {
	src    *source
	parser unstable.Parser
	ruler  *ruler
}

// parseTOML returns nil if the text is not TOML. The library's decoder says what
// is wrong with a file; its parser, which does not check everything, gives the
// places.
func parseTOML(src *source, data []byte) *node {
	var all map[string]any
	if err := toml.Unmarshal(data, &all); err != nil {
		at, wrong := place{1, 1}, new(toml.DecodeError)
		if errors.As(err, &wrong) {
			at.line, at.column = wrong.Position()
		}
		at.line = min(max(at.line, 1), len(src.lines))
		text := src.lines[at.line-1]
		at.column = utf8.RuneCountInString(text[:min(max(at.column-1, 0), len(text))]) + 1 // it was in bytes
		src.fail(at, "the file is not TOML: "+strings.TrimPrefix(err.Error(), "toml: "), "")
		return nil
	}
	b := &tomlBuilder{src: src, ruler: newRuler(string(data))}
	b.parser.Reset(data)
	root := &node{kind: table, at: place{1, 1}}
	current := root
	for b.parser.NextExpression() {
		e := b.parser.Expression()
		switch e.Kind {
		case unstable.KeyValue:
			b.set(current, e, 0)
		case unstable.Table, unstable.ArrayTable:
			current = b.open(root, e)
		}
		if src.nodes > MaxNodes {
			return nil
		}
	}
	return root
}

func (b *tomlBuilder) place(n *unstable.Node) place { return b.ruler.place(int(n.Raw.Offset)) }

// open returns the table that a header names.
func (b *tomlBuilder) open(n *node, e *unstable.Node) *node {
	for it := e.Key(); it.Next(); {
		last := it.IsLast()
		n = b.child(n, it.Node(), last && e.Kind == unstable.ArrayTable)
	}
	return n
}

// child returns the table behind a key, or the last one of the list behind it. With
// another set, one more is added to the list.
func (b *tomlBuilder) child(n *node, k *unstable.Node, another bool) *node {
	name, at := string(k.Data), b.place(k)
	next := n.get(name)
	if next == nil {
		next = &node{kind: table, at: at}
		if another {
			next.kind = list
		}
		b.src.count(at, 0)
		b.src.add(n, member{key: name, at: at, value: next})
	}
	if next.kind != list {
		return next
	}
	if another || len(next.items) == 0 {
		b.src.count(at, 0)
		next.items = append(next.items, &node{kind: table, at: at})
	}
	return next.items[len(next.items)-1]
}

// set puts a key with its value into a table.
func (b *tomlBuilder) set(n *node, e *unstable.Node, depth int) {
	for it := e.Key(); it.Next(); {
		k := it.Node()
		if !it.IsLast() {
			n = b.child(n, k, false)
			continue
		}
		at := b.place(k)
		b.src.add(n, member{key: string(k.Data), at: at, value: b.value(e.Value(), at, depth+1)})
	}
}

// value turns a value into a node. at is the place of its key, for values that do
// not tell their own.
func (b *tomlBuilder) value(v *unstable.Node, at place, depth int) *node {
	n := &node{at: at, flow: true}
	if v.Raw.Length > 0 {
		n.at = b.place(v)
	}
	if !b.src.count(n.at, depth) {
		return n
	}
	switch v.Kind {
	case unstable.InlineTable:
		n.kind = table
		for it := v.Children(); it.Next(); {
			if it.Node().Kind == unstable.KeyValue {
				b.set(n, it.Node(), depth)
			}
		}
	case unstable.Array:
		n.kind = list
		for it := v.Children(); it.Next(); {
			if it.Node().Kind != unstable.Comment {
				n.items = append(n.items, b.value(it.Node(), n.at, depth+1))
			}
		}
	case unstable.Bool:
		n.kind, n.text = boolean, string(v.Data)
	case unstable.Integer, unstable.Float:
		n.kind, n.text = number, strings.ReplaceAll(string(v.Data), "_", "")
	default:
		n.kind, n.text = text, string(v.Data)
	}
	if v.Raw.Length > 0 && n.kind != table && n.kind != list {
		n.end = b.ruler.place(int(v.Raw.Offset + v.Raw.Length))
	}
	return n
}
