package syntax

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Remove returns the text of a file in which the table at path does not have the key. The comments
// above the member go with it; all else stays as it is written. The text is read again to be sure of
// that, and a text that cannot be changed so is refused.
func Remove(name string, data []byte, path []string, key string) ([]byte, error) {
	src, err := Read(name, data)
	if err != nil {
		return nil, err
	}
	table, rest, err := descend(src.Root, path)
	if err != nil {
		return nil, &EditError{File: name, Reason: err.Error()}
	}
	m, ok := table.Member(key)
	if len(rest) > 0 || !ok {
		return data, nil
	}
	text := string(data)
	switch syntaxOf(name, bytes.TrimPrefix(data, []byte("\ufeff"))) {
	case "json":
		mark := len(text) - len(strings.TrimPrefix(text, "\ufeff"))
		text = text[:mark] + removeJSON(text[mark:], table, m)
	case "toml":
		text, err = removeTOML(text, append(slices.Clone(path), key))
	default:
		text, err = removeYAML(text, path, key)
	}
	if err != nil {
		return nil, &EditError{File: name, Reason: err.Error()}
	}
	again, err := Read(name, []byte(text))
	if err != nil || !sameButEmpty(again.Root, without(src.Root, path, key)) {
		return nil, &EditError{File: name, Reason: "it is written in a way that cannot be changed here; change it by hand"}
	}
	return []byte(text), nil
}

// without returns a tree in which the table at path does not have the key.
func without(n *Node, path []string, key string) *Node {
	c := n.Empty()
	for _, m := range n.Members {
		switch {
		case len(path) == 0 && m.Key == key:
			continue
		case len(path) > 0 && m.Key == path[0]:
			m.Value = without(m.Value, path[1:], key)
		}
		c.Set(m)
	}
	return c
}

// sameButEmpty is Same, but a table of the first file may be gone that is empty in the second: TOML has
// no place for it.
func sameButEmpty(a, b *Node) bool {
	if Same(a, b) {
		return true
	}
	if a == nil {
		return b.Kind == Table && len(b.Members) == 0
	}
	if b == nil || a.Kind != Table || b.Kind != Table || len(a.Members) > len(b.Members) {
		return false
	}
	return !slices.ContainsFunc(b.Members, func(m Member) bool { return !sameButEmpty(a.Get(m.Key), m.Value) })
}

// removeJSON cuts a member out of JSON, with one of the commas around it, the comments above it and the
// one behind it.
func removeJSON(text string, table *Node, m Member) string {
	i := slices.IndexFunc(table.Members, func(other Member) bool { return other.Key == m.Key })
	before, to := offset(text, table.At)+1, offset(text, m.Value.end)
	comma := skipJSON(text, to, true)
	follows := comma < len(text) && text[comma] == ','
	if follows {
		to = comma + 1
	}
	if i > 0 {
		before = skipJSON(text, offset(text, table.Members[i-1].Value.end), true) // at the comma
		if follows {
			before++
		} else {
			text, to = text[:before]+text[before+1:], to-1
		}
	}
	rest := strings.TrimLeft(text[skipJSON(text, to, false):], " \t")
	from := skipJSON(text, before, false) // what is behind the one before is about that
	switch {
	case text[from] != '\n': // all in one line
		return text[:before] + rest
	case !strings.HasPrefix(rest, "\n"):
		return strings.TrimRight(text[:from], " \t\r") + rest
	}
	return text[:from] + rest
}

// removeTOML cuts the sections of a table out of TOML, with the comments above the first.
func removeTOML(text string, whole []string) (string, error) {
	sections, err := tomlSections(text)
	if err != nil {
		return "", err
	}
	found := false
	for _, s := range slices.Backward(sections) {
		if len(s.path) < len(whole) || !slices.Equal(s.path[:len(whole)], whole) {
			continue
		}
		found = true
		from := commentsAbove(text, s.from, "")
		rest := strings.TrimLeft(text[s.to:], " \t\r\n")
		text = text[:from] + rest
	}
	if !found {
		return "", errors.New("the servers are written in one line there; remove it by hand")
	}
	if text = strings.TrimRight(text, "\r\n"); text != "" {
		text += "\n"
	}
	return text, nil
}

// commentsAbove returns where the comments begin that stand in the lines directly above a line, at its
// indentation.
func commentsAbove(text string, line int, indent string) int {
	for line > 0 {
		begin := lineBegin(text, line-1)
		above := text[begin:line]
		if !strings.HasPrefix(above, indent+"#") {
			break
		}
		line = begin
	}
	return line
}

// removeYAML cuts the lines of a member out of YAML. A mapping in braces has no lines of its own: then
// the whole file is written again, with its comments.
func removeYAML(text string, path []string, key string) (string, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return "", err
	}
	e := yamlEdit{text: text, eol: lineEnd(text)}
	if edited, ok := e.remove(doc.Content[0], path, key, len(text)); ok {
		return edited, nil
	}
	unset(doc.Content[0], path, key)
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(&doc); err != nil {
		return "", err
	}
	return strings.ReplaceAll(b.String(), "\n", e.eol), nil
}

// remove cuts out a member below a mapping whose lines end before the offset end. It returns false if
// the mapping is not written in lines.
func (e *yamlEdit) remove(n *yaml.Node, path []string, key string, end int) (string, bool) {
	if n.Kind != yaml.MappingNode || n.Style&yaml.FlowStyle != 0 {
		return "", false
	}
	indent := strings.Repeat(" ", n.Content[0].Column-1)
	for i := 0; i < len(n.Content); i += 2 {
		k, value := n.Content[i], n.Content[i+1]
		if len(path) > 0 && k.Value != path[0] || len(path) == 0 && k.Value != key {
			continue
		}
		next := end
		if i+2 < len(n.Content) {
			next = lineBegin(e.text, offset(e.text, yamlPlace(n.Content[i+2])))
		}
		from := lineBegin(e.text, offset(e.text, yamlPlace(k)))
		to := e.valueEnd(from, next, len(indent))
		switch {
		case len(path) == 0:
			return e.text[:commentsAbove(e.text, from, indent)] + e.text[to:], true
		case len(path) == 1 && value.Kind == yaml.MappingNode && len(value.Content) == 2 && value.Style&yaml.FlowStyle == 0:
			// Nothing is left below the key, and nothing would be no mapping.
			at := offset(e.text, yamlPlace(k))
			colon := at + strings.IndexByte(e.text[at:], ':') + 1
			rest, ok := e.remove(value, nil, key, to)
			return rest[:colon] + " {}" + rest[colon:], ok && k.Style == 0
		}
		return e.remove(value, path[1:], key, to)
	}
	return "", false
}

// unset removes a member from a tree of the YAML library.
func unset(n *yaml.Node, path []string, key string) {
	for i := 0; i < len(n.Content); i += 2 {
		switch {
		case len(path) > 0 && n.Content[i].Value == path[0]:
			unset(n.Content[i+1], path[1:], key)
		case len(path) == 0 && n.Content[i].Value == key:
			n.Content = slices.Delete(n.Content, i, i+2)
			return
		}
	}
}
