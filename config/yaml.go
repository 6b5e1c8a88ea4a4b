package config

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

var yamlLine = regexp.MustCompile(`(?s)^yaml: (?:line (\d+): )?(.*)$`)

// yamlBreak matches what ends a line in YAML.
var yamlBreak = regexp.MustCompile("\r\n|[\n\r\u0085\u2028\u2029]")

// parseYAML returns nil if the text is not YAML.
func parseYAML(src *source, data []byte) *node {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return &node{kind: table, at: place{1, 1}}
	} else if err != nil {
		yamlFailure(src, err)
		return nil
	}
	if err := dec.Decode(&second); err == nil {
		src.fail(place{second.Line, max(second.Column, 1)}, "a second document begins here", "a configuration is one document: remove the line with ---")
		return nil
	} else if !errors.Is(err, io.EOF) {
		yamlFailure(src, err)
		return nil
	}
	n := fromYAML(src, doc.Content[0], false, 0)
	if src.nodes > MaxNodes {
		return nil
	}
	if n.kind == null {
		n.kind = table // a file that says nothing
	}
	return n
}

// yamlFailure reports what the parser says. It knows no columns, and often only the
// line in which the mapping begins that has the mistake, so we look for the line
// with which the mistake begins.
func yamlFailure(src *source, err error) {
	line, message := yamlMessage(err)
	bad := len(src.lines)
	for good := min(line, bad) - 1; bad-good > 1; {
		middle := (good + bad) / 2
		var n yaml.Node
		err := yaml.Unmarshal([]byte(strings.Join(src.lines[:middle], "\n")), &n)
		if _, same := yamlMessage(err); err != nil && same == message {
			bad = middle
		} else {
			good = middle
		}
	}
	text := src.lines[bad-1]
	indent := len(text) - len(strings.TrimLeft(text, " \t"))
	hint := ""
	switch {
	case strings.Contains(message, "cannot start any token") && strings.Contains(text[:indent], "\t"):
		hint = "indent with spaces, not with tabs"
	case strings.Contains(message, "expected key"):
		hint = "is it indented as its neighbours are?"
	case strings.Contains(message, "mapping values are not allowed"):
		hint = "text with a colon in it needs quotes"
	}
	src.fail(place{bad, indent + 1}, "the file is not YAML: "+message, hint)
}

// yamlMessage takes an error of the parser apart. The line counts from one.
func yamlMessage(err error) (line int, message string) {
	if err == nil {
		return 1, ""
	}
	m := yamlLine.FindStringSubmatch(err.Error())
	if m == nil {
		return 1, err.Error()
	}
	line, _ = strconv.Atoi(m[1])
	return max(line, 1), m[2]
}

// fromYAML turns a node of the YAML library into one of ours. An alias becomes a
// copy of what it stands for.
func fromYAML(src *source, y *yaml.Node, flow bool, depth int) *node {
	n := &node{at: place{y.Line, max(y.Column, 1)}, flow: flow}
	if !src.count(n.at, depth) {
		return n
	}
	flow = flow || y.Style&yaml.FlowStyle != 0
	switch y.Kind {
	case yaml.AliasNode:
		return fromYAML(src, y.Alias, flow, depth+1)
	case yaml.SequenceNode:
		n.kind = list
		for _, item := range y.Content {
			n.items = append(n.items, fromYAML(src, item, flow, depth+1))
		}
	case yaml.MappingNode:
		n.kind = table
		yamlTable(src, n, y, flow, depth)
	default:
		n.kind, n.text = yamlScalar(y), y.Value
	}
	return n
}

func yamlTable(src *source, n *node, y *yaml.Node, flow bool, depth int) {
	var merged []*node
	for i := 0; i+1 < len(y.Content) && src.nodes <= MaxNodes; i += 2 {
		k, at := y.Content[i], place{y.Content[i].Line, max(y.Content[i].Column, 1)}
		value := fromYAML(src, y.Content[i+1], flow, depth+1)
		switch {
		case k.ShortTag() == "!!merge":
			if value.kind == list {
				merged = append(merged, value.items...)
			} else {
				merged = append(merged, value)
			}
		case k.Kind != yaml.ScalarNode:
			src.fail(at, "a key is a word or a text", "")
		default:
			src.add(n, member{key: k.Value, at: at, value: value})
		}
	}
	for _, from := range merged {
		if from.kind != table {
			src.fail(from.at, "<< takes a mapping", "")
		}
		for _, m := range from.members {
			if !n.has(m.key) {
				src.add(n, m)
			}
		}
	}
}

func yamlScalar(y *yaml.Node) kind {
	switch y.ShortTag() {
	case "!!null":
		return null
	case "!!bool":
		return boolean
	case "!!int", "!!float":
		return number
	}
	return text
}
