package syntax

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/util/redact"
)

// An EditError says why a file is not changed.
type EditError struct {
	File    string
	At      Position // zero if the reason is not at one place
	Reason  string
	Excerpt string // the line, and a line with a caret below; may be empty
	Hint    string // what to do; may be empty
}

// Error implements error.
func (e *EditError) Error() string {
	if e.At.Line == 0 {
		return fmt.Sprintf("%s: %s", Printable(e.File), Printable(e.Reason))
	}
	text := fmt.Sprintf("%s:%d:%d: %s", Printable(e.File), e.At.Line, e.At.Column, Printable(e.Reason))
	if e.Excerpt != "" {
		text += "\n" + e.Excerpt
	}
	if e.Hint != "" {
		text += "\n    hint: " + Printable(e.Hint)
	}
	return text
}

// Read parses a text that is to be shown or changed. A mistake in it is an *EditError.
func Read(name string, data []byte) (*Source, error) {
	var wrong error
	src := &Source{Name: name, Path: name}
	src.Report = func(p Problem) {
		if wrong == nil && !p.Warning {
			at, excerpt := src.Excerpt(p.At)
			wrong = &EditError{File: name, At: at, Reason: p.Message, Excerpt: excerpt, Hint: p.Hint}
		}
	}
	if len(bytes.TrimSpace(data)) == 0 { // a file that says nothing, in any syntax
		src.lines = []string{""}
		src.Root = &Node{Kind: Table, At: Position{1, 1}}
		return src, nil
	}
	src.Parse(data)
	if wrong == nil && src.Root.Kind != Table {
		at, excerpt := src.Excerpt(src.Root.At)
		wrong = &EditError{File: name, At: at, Reason: "the file is " + src.Root.Kind.String() + ", not a mapping of keys", Excerpt: excerpt}
	}
	return src, wrong
}

// Put returns the text of a file in which the table at path has the member, in place of
// the one with its key. Tables that are missing on the way are made. All else stays as it
// is written, comments too; the text is read again to be sure of that, and a text that
// cannot be changed so is refused.
func Put(name string, data []byte, path []string, m Member) ([]byte, error) {
	src, err := Read(name, data)
	if err != nil {
		return nil, err
	}
	mark := ""
	text, marked := strings.CutPrefix(string(data), "\ufeff")
	if marked {
		mark = "\ufeff"
	}
	var edited string
	switch syntaxOf(name, []byte(text)) {
	case "json":
		edited, err = putJSON(src, text, path, m)
	case "toml":
		edited, err = putTOML(src, text, path, m)
	default:
		edited, err = putYAML(src, text, path, m)
	}
	if err != nil {
		return nil, &EditError{File: name, Reason: err.Error()}
	}
	again, err := Read(name, []byte(edited))
	if err != nil || !Same(again.Root, with(src.Root, path, m)) {
		return nil, &EditError{File: name, Reason: "it is written in a way that cannot be changed here; change it by hand"}
	}
	return []byte(mark + edited), nil
}

var errNotTable = errors.New("what holds the servers there is no mapping")

// descend walks down a path as far as there are tables, and returns the last one with the
// rest of the path.
func descend(n *Node, path []string) (*Node, []string, error) {
	for len(path) > 0 {
		next := n.Get(path[0])
		if next == nil {
			break
		}
		if next.Kind != Table {
			return nil, nil, errNotTable
		}
		n, path = next, path[1:]
	}
	return n, path, nil
}

// wrap returns a member inside tables of its own.
func wrap(path []string, m Member) Member {
	for _, key := range slices.Backward(path) {
		t := &Node{Kind: Table}
		t.Set(m)
		m = Member{Key: key, Value: t}
	}
	return m
}

// with returns a tree in which the table at path has the member.
func with(n *Node, path []string, m Member) *Node {
	c := n.Empty()
	for _, old := range n.Members {
		c.Set(old)
	}
	if len(path) == 0 {
		c.Set(m)
		return c
	}
	if next := n.Get(path[0]); next != nil && next.Kind == Table {
		m = Member{Key: path[0], Value: with(next, path[1:], m)}
	} else {
		m = wrap(path, m)
	}
	c.Set(m)
	return c
}

// Same reports whether two values mean the same, wherever they stand.
func Same(a, b *Node) bool {
	if a == nil || b == nil || a.Kind != b.Kind || a.Scalar() && a.Text != b.Text || len(a.Members) != len(b.Members) {
		return a == b
	}
	for _, m := range a.Members {
		if !Same(m.Value, b.Get(m.Key)) {
			return false
		}
	}
	return slices.EqualFunc(a.Items, b.Items, Same)
}

// offset returns where a place is in a text.
func offset(text string, at Position) int {
	begin := 0
	for range at.Line - 1 {
		i := strings.IndexByte(text[begin:], '\n')
		if i < 0 {
			return len(text)
		}
		begin += i + 1
	}
	column := 1
	for i := range text[begin:] {
		if column == at.Column {
			return begin + i
		}
		column++
	}
	return len(text)
}

// lineStart returns where the line begins that an offset is in, and the white space
// with which it begins.
func lineStart(text string, at int) (begin int, indent string) {
	begin = strings.LastIndexByte(text[:at], '\n') + 1
	rest := text[begin:]
	return begin, rest[:len(rest)-len(strings.TrimLeft(rest, " \t"))]
}

// lineEnd returns how lines of a text end.
func lineEnd(text string) string {
	if strings.Contains(text, "\r\n") {
		return "\r\n"
	}
	return "\n"
}

// NewText returns a value that is text.
func NewText(s string) *Node { return &Node{Kind: Text, Text: s} }

// NewList returns a list of texts.
func NewList(texts ...string) *Node {
	n := &Node{Kind: List}
	for _, s := range texts {
		n.Items = append(n.Items, NewText(s))
	}
	return n
}

// NewTable returns a table of texts, in the order of their keys.
func NewTable(texts map[string]string) *Node {
	n := &Node{Kind: Table}
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		n.Set(Member{Key: key, Value: NewText(texts[key])})
	}
	return n
}

// Mark marks which values must not be shown, as reading a file does.
func (n *Node) Mark(key string) { n.finish(key, false) }

// Inline returns the paths of values in n that look like secrets which stand there
// themselves.
func (n *Node) Inline() (paths []string) {
	n.below(func(key string, child *Node) {
		switch {
		case child.Kind == Text && child.Text != "" && (child.Secret && redact.SecretName(key) || child.Open() != Printable(child.Text) && !child.Secret):
			paths = append(paths, key)
		default:
			for _, p := range child.Inline() {
				paths = append(paths, strings.Trim(key+"."+p, "."))
			}
		}
	})
	return paths
}

// Line returns a line of the file, from one, with a mask wherever a secret may be. What a
// text of several lines keeps secret is masked in each.
func (s *Source) Line(number int) string {
	line := []rune(s.lines[number-1])
	line, _ = cover(line, s.Root.secrets(number, line), 0)
	line, _ = cover(line, shapes(line), 0)
	text := string(line)
	for _, part := range s.folded() {
		text = strings.ReplaceAll(text, part, mask)
	}
	text = redact.Text(text)
	return Printable(strings.TrimSuffix(text, "\r"))
}

// folded returns the lines of secrets that may go over several.
func (s *Source) folded() (parts []string) {
	if s.hidden != nil {
		return *s.hidden
	}
	var walk func(n *Node)
	walk = func(n *Node) {
		if n.Secret && n.Scalar() && strings.ContainsAny(n.Text, "\n ") {
			for _, part := range strings.FieldsFunc(n.Text, func(r rune) bool { return r == '\n' || r == ' ' }) {
				if len(part) > 3 {
					parts = append(parts, part)
				}
			}
		}
		n.below(func(_ string, child *Node) { walk(child) })
	}
	walk(s.Root)
	slices.SortFunc(parts, func(a, b string) int { return len(b) - len(a) })
	s.hidden = &parts
	return parts
}

// Lines returns the lines of the file as they stand there.
func (s *Source) Lines() []string { return s.lines }
