package syntax

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// A tomlBuilder makes a tree of the expressions of a TOML file.
type tomlBuilder struct {
	src    *Source
	parser unstable.Parser
	lines  *lineIndex
}

// parseTOML returns nil if the text is not TOML. The library's decoder says what
// is wrong with a file; its parser, which does not check everything, gives the
// places.
func parseTOML(src *Source, data []byte) *Node {
	var all map[string]any
	if err := toml.Unmarshal(data, &all); err != nil {
		at, wrong := Position{1, 1}, new(toml.DecodeError)
		if errors.As(err, &wrong) {
			at.Line, at.Column = wrong.Position()
		}
		at.Line = min(max(at.Line, 1), len(src.lines))
		text := src.lines[at.Line-1]
		at.Column = utf8.RuneCountInString(text[:min(max(at.Column-1, 0), len(text))]) + 1 // it was in bytes
		src.Fail(at, "the file is not TOML: "+strings.TrimPrefix(err.Error(), "toml: "), "")
		return nil
	}
	b := &tomlBuilder{src: src, lines: &lineIndex{text: string(data), at: Position{1, 1}}}
	b.parser.Reset(data)
	root := &Node{Kind: Table, At: Position{1, 1}}
	current := root
	for b.parser.NextExpression() {
		e := b.parser.Expression()
		switch e.Kind {
		case unstable.KeyValue:
			b.set(current, e, 0)
		case unstable.Table, unstable.ArrayTable:
			current = root
			for it := e.Key(); it.Next(); {
				current = b.child(current, it.Node(), it.IsLast() && e.Kind == unstable.ArrayTable)
			}
		}
		if src.nodes > MaxNodes {
			return nil
		}
	}
	return root
}

func (b *tomlBuilder) place(n *unstable.Node) Position { return b.lines.place(int(n.Raw.Offset)) }

// child returns the table behind a key, or the last one of the list behind it. With
// another set, one more is added to the list.
func (b *tomlBuilder) child(n *Node, k *unstable.Node, another bool) *Node {
	name, at := string(k.Data), b.place(k)
	next := n.Get(name)
	if next == nil {
		next = &Node{Kind: Table, At: at}
		if another {
			next.Kind = List
		}
		b.src.count(at, 0)
		b.src.add(n, Member{Key: name, At: at, Value: next})
	}
	if next.Kind != List {
		return next
	}
	if another || len(next.Items) == 0 {
		b.src.count(at, 0)
		next.Items = append(next.Items, &Node{Kind: Table, At: at})
	}
	return next.Items[len(next.Items)-1]
}

// set puts a key with its value into a table.
func (b *tomlBuilder) set(n *Node, e *unstable.Node, depth int) {
	for it := e.Key(); it.Next(); {
		if k, at := it.Node(), b.place(it.Node()); it.IsLast() {
			b.src.add(n, Member{Key: string(k.Data), At: at, Value: b.value(e.Value(), at, depth+1)})
		} else {
			n = b.child(n, k, false)
		}
	}
}

// value turns a value into a node. at is the place of its key, for values that do
// not tell their own.
func (b *tomlBuilder) value(v *unstable.Node, at Position, depth int) *Node {
	n := &Node{At: at, flow: true}
	if v.Raw.Length > 0 {
		n.At = b.place(v)
	}
	if !b.src.count(n.At, depth) {
		return n
	}
	switch v.Kind {
	case unstable.InlineTable:
		n.Kind = Table
		for it := v.Children(); it.Next(); {
			if it.Node().Kind == unstable.KeyValue {
				b.set(n, it.Node(), depth)
			}
		}
	case unstable.Array:
		n.Kind = List
		for it := v.Children(); it.Next(); {
			if it.Node().Kind != unstable.Comment {
				n.Items = append(n.Items, b.value(it.Node(), n.At, depth+1))
			}
		}
	case unstable.Bool:
		n.Kind, n.Text = Boolean, string(v.Data)
	case unstable.Integer, unstable.Float:
		n.Kind, n.Text = Number, strings.ReplaceAll(string(v.Data), "_", "")
	default:
		n.Kind, n.Text = Text, string(v.Data)
	}
	if v.Raw.Length > 0 && n.Scalar() {
		n.end = b.lines.place(int(v.Raw.Offset + v.Raw.Length))
	}
	return n
}
