package syntax

import (
	"bytes"
	"strings"

	"go.yaml.in/yaml/v3"
)

// putYAML splices the lines of a member into YAML. A mapping in braces has no lines of
// its own: then the whole file is written again, with its comments.
func putYAML(src *Source, text string, path []string, m Member) (string, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return "", err
	}
	eol := lineEnd(text)
	if len(doc.Content) == 0 || src.Root.Kind == Table && len(src.Root.Members) == 0 && doc.Content[0].Kind != yaml.MappingNode {
		return joinLines(text, eol) + renderYAML(wrap(path, m), "", eol), nil
	}
	if _, _, err := descend(src.Root, path); err != nil && src.Root.Get(path[0]).Kind != Null {
		return "", err
	}
	e := yamlEdit{text: text, eol: eol}
	edited, ok := e.put(doc.Content[0], path, m, len(text))
	if ok {
		return edited, nil
	}
	set(doc.Content[0], path, m)
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(&doc); err != nil {
		return "", err
	}
	return strings.ReplaceAll(b.String(), "\n", eol), nil
}

// joinLines returns a text that ends with a line end, unless it is empty.
func joinLines(text, eol string) string {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += eol
	}
	return text
}

// A yamlEdit changes lines of a text.
type yamlEdit struct{ text, eol string }

// put sets a member below a mapping whose lines end before the offset end. It returns
// false if the mapping is not written in lines.
func (e *yamlEdit) put(n *yaml.Node, path []string, m Member, end int) (string, bool) {
	if n.Kind != yaml.MappingNode || n.Style&yaml.FlowStyle != 0 || len(n.Content) == 0 {
		return "", false
	}
	indent := strings.Repeat(" ", n.Content[0].Column-1)
	key := m.Key
	if len(path) > 0 {
		key = path[0]
	}
	for i := 0; i < len(n.Content); i += 2 {
		k, value := n.Content[i], n.Content[i+1]
		if k.Value != key {
			continue
		}
		next := end
		if i+2 < len(n.Content) {
			next = lineBegin(e.text, offset(e.text, yamlPlace(n.Content[i+2])))
		}
		from := lineBegin(e.text, offset(e.text, yamlPlace(k)))
		to := e.valueEnd(from, next, len(indent))
		switch empty := value.Kind == yaml.ScalarNode && value.Value == "" || value.Kind == yaml.MappingNode && len(value.Content) == 0; {
		case len(path) == 0:
			return e.text[:from] + renderYAML(m, indent, e.eol) + e.text[to:], true
		case empty && value.Anchor == "" && value.Tag != "!!str":
			head, comment := yaml.Node{Kind: yaml.ScalarNode, Value: key}, ""
			for _, c := range []string{k.LineComment, value.LineComment} {
				if c != "" {
					comment = " " + c
				}
			}
			line, _ := yaml.Marshal(&head) // a word always encodes
			first := indent + strings.TrimSuffix(string(line), "\n") + ":" + comment + e.eol
			return e.text[:from] + first + renderYAML(wrap(path[1:], m), indent+"  ", e.eol) + e.text[to:], true
		}
		return e.put(value, path[1:], m, to)
	}
	last := n.Content[len(n.Content)-2]
	to := e.valueEnd(lineBegin(e.text, offset(e.text, yamlPlace(last))), end, len(indent))
	return joinLines(e.text[:to], e.eol) + renderYAML(wrap(path, m), indent, e.eol) + e.text[to:], true
}

// valueEnd returns where the lines end of a key at an indentation that begins at from:
// without blank lines and comments that are about what follows.
func (e *yamlEdit) valueEnd(from, to, indent int) int {
	for to > from {
		begin := lineBegin(e.text, to-1)
		_, blank := lineStart(e.text, begin)
		line := strings.TrimSpace(e.text[begin:to])
		if begin <= from || line != "" && (line[0] != '#' || len(blank) > indent) {
			return to
		}
		to = begin
	}
	return to
}

// set sets a member in a tree of the YAML library.
func set(n *yaml.Node, path []string, m Member) {
	key := m.Key
	if len(path) > 0 {
		key = path[0]
	}
	value := func() *yaml.Node {
		if len(path) > 0 {
			return toYAML(wrap(path[1:], m).table())
		}
		return toYAML(m.Value)
	}
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value != key {
			continue
		}
		if len(path) > 0 && n.Content[i+1].Kind == yaml.MappingNode {
			set(n.Content[i+1], path[1:], m)
		} else {
			n.Content[i+1] = value()
		}
		return
	}
	n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, value())
}

// table returns a member in a table of its own.
func (m Member) table() *Node {
	t := &Node{Kind: Table}
	t.Set(m)
	return t
}

// renderYAML returns the lines of a member.
func renderYAML(m Member, indent, eol string) string {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	_ = enc.Encode(toYAML(m.table())) // such a tree always encodes
	lines := strings.SplitAfter(b.String(), "\n")
	for i, line := range lines {
		if strings.TrimSpace(line) != "" {
			lines[i] = indent + line
		}
	}
	return strings.ReplaceAll(strings.Join(lines, ""), "\n", eol)
}

// toYAML turns a node of ours into one of the YAML library.
func toYAML(n *Node) *yaml.Node {
	y := &yaml.Node{Kind: yaml.ScalarNode, Value: n.Text}
	switch n.Kind {
	case Table:
		y.Kind, y.Value = yaml.MappingNode, ""
		for _, m := range n.Members {
			y.Content = append(y.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: m.Key}, toYAML(m.Value))
		}
	case List:
		y.Kind, y.Value = yaml.SequenceNode, ""
		for _, item := range n.Items {
			y.Content = append(y.Content, toYAML(item))
		}
		if len(n.Items) > 0 && !strings.Contains(strings.Join(texts(n.Items), ""), "\n") && len(strings.Join(texts(n.Items), ", ")) < 80 {
			y.Style = yaml.FlowStyle
		}
	case Text:
		y.Tag = "!!str"
	case Null:
		y.Tag, y.Value = "!!null", "null"
	}
	return y
}

func texts(items []*Node) (list []string) {
	for _, item := range items {
		list = append(list, item.Text)
	}
	return list
}
