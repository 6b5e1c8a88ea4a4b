package syntax

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/dragoman-mcp/dragoman/internal/util/lazy"
)

var (
	yamlError = lazy.Regexp(`(?s)^(?:yaml: )?(?:line (\d+): )?(.*)$`)
	yamlBreak = lazy.Regexp("\r\n|[\n\r\u0085\u2028\u2029]") // ends a line
	yamlKinds = map[string]Kind{"!!null": Null, "!!bool": Boolean, "!!int": Number, "!!float": Number}
)

func yamlPlace(y *yaml.Node) Position { return Position{y.Line, max(y.Column, 1)} }

// parseYAML returns nil if the text is not YAML.
func parseYAML(src *Source, data []byte) *Node {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return &Node{Kind: Table, At: Position{1, 1}}
	}
	if err == nil {
		err = dec.Decode(&second)
	}
	switch {
	case err == nil:
		src.Fail(yamlPlace(&second), "a second document begins here", "a configuration is one document: remove the line with ---")
		return nil
	case !errors.Is(err, io.EOF):
		yamlFailure(src, err)
		return nil
	}
	n := fromYAML(src, doc.Content[0], false, 0)
	if src.nodes > MaxNodes {
		return nil
	}
	if n.Kind == Null {
		n.Kind = Table // a file that says nothing
	}
	return n
}

// yamlFailure reports what the parser says. It knows no columns, and often only the
// line in which the mapping begins that has the mistake, so we look for the line
// with which the mistake begins.
func yamlFailure(src *Source, err error) {
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
	src.Fail(Position{bad, indent + 1}, "the file is not YAML: "+message, hint)
}

// yamlMessage takes an error of the parser apart. The line counts from one.
func yamlMessage(err error) (line int, message string) {
	m := yamlError().FindStringSubmatch(fmt.Sprint(err))
	line, _ = strconv.Atoi(m[1])
	return max(line, 1), m[2]
}

// fromYAML turns a node of the YAML library into one of ours. An alias becomes a
// copy of what it stands for.
func fromYAML(src *Source, y *yaml.Node, flow bool, depth int) *Node {
	n := &Node{At: yamlPlace(y), flow: flow}
	if !src.count(n.At, depth) {
		return n
	}
	flow = flow || y.Style&yaml.FlowStyle != 0
	switch y.Kind {
	case yaml.AliasNode:
		return fromYAML(src, y.Alias, flow, depth+1)
	case yaml.SequenceNode:
		n.Kind = List
		for _, item := range y.Content {
			n.Items = append(n.Items, fromYAML(src, item, flow, depth+1))
		}
	case yaml.MappingNode:
		n.Kind = Table
		yamlTable(src, n, y, flow, depth)
	default:
		n.Kind, n.Text = Text, y.Value
		if kind, ok := yamlKinds[y.ShortTag()]; ok {
			n.Kind = kind
		}
	}
	return n
}

func yamlTable(src *Source, n *Node, y *yaml.Node, flow bool, depth int) {
	var merged []*Node
	for i := 0; i+1 < len(y.Content) && src.nodes <= MaxNodes; i += 2 {
		k, value := y.Content[i], fromYAML(src, y.Content[i+1], flow, depth+1)
		switch {
		case k.ShortTag() == "!!merge":
			if value.Kind == List {
				merged = append(merged, value.Items...)
			} else {
				merged = append(merged, value)
			}
		case k.Kind != yaml.ScalarNode:
			src.Fail(yamlPlace(k), "a key is a word or a text", "")
		default:
			src.add(n, Member{Key: k.Value, At: yamlPlace(k), Value: value})
		}
	}
	for _, from := range merged {
		if from.Kind != Table {
			src.Fail(from.At, "<< takes a mapping", "")
		}
		for _, m := range from.Members {
			if !n.Has(m.Key) {
				src.add(n, m)
			}
		}
	}
}
