package syntax

import (
	"errors"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/dragoman-mcp/dragoman/internal/util/lazy"
)

// A tomlSection is a table of a TOML file with a header of its own: [a.b].
type tomlSection struct {
	path     []string
	from, to int // offsets of its header, and of the end of its last value
}

// putTOML writes a member as a section of its own, in place of those that it had.
func putTOML(src *Source, text string, path []string, m Member) (string, error) {
	if m.Value.Kind != Table {
		return "", errors.New("only a table can be put into TOML")
	}
	whole := append(slices.Clone(path), m.Key)
	eol := lineEnd(text)
	section := renderTOML(whole, m.Value, eol)
	sections, err := tomlSections(text)
	if err != nil {
		return "", err
	}
	olds := slices.DeleteFunc(slices.Clone(sections), func(s tomlSection) bool {
		return len(s.path) < len(whole) || !slices.Equal(s.path[:len(whole)], whole)
	})
	for i, s := range slices.Backward(olds) {
		if i == 0 {
			return text[:s.from] + strings.TrimSuffix(section, eol) + text[s.to:], nil
		}
		text = text[:s.from] + strings.TrimPrefix(text[s.to:], eol)
	}
	_, missing, err := descend(src.Root, path)
	if err != nil {
		return "", err
	}
	if len(missing) == 0 && len(path) > 0 && !slices.ContainsFunc(sections, func(s tomlSection) bool { return len(s.path) >= len(path) && slices.Equal(s.path[:len(path)], path) }) {
		return "", errors.New("the servers are written in one line there; put this in by hand:\n" + renderTOML([]string{m.Key}, m.Value, eol))
	}
	text = strings.TrimRight(text, " \t\r\n")
	if text != "" {
		text += eol + eol
	}
	return text + section, nil
}

// tomlSections returns the sections of a text that has been parsed before.
func tomlSections(text string) (sections []tomlSection, err error) {
	var p unstable.Parser
	p.Reset([]byte(text))
	for p.NextExpression() {
		e := p.Expression()
		if e.Kind != unstable.Table && e.Kind != unstable.ArrayTable {
			continue
		}
		var s tomlSection
		first := -1
		for it := e.Key(); it.Next(); {
			if first < 0 {
				first = int(it.Node().Raw.Offset)
			}
			s.path = append(s.path, string(it.Node().Data))
		}
		s.from, _ = lineStart(text, first)
		sections = append(sections, s)
	}
	for i := range sections {
		end := len(text)
		if i+1 < len(sections) {
			end = sections[i+1].from
		}
		sections[i].to = sections[i].from + lastValue(text[sections[i].from:end])
	}
	return sections, p.Error()
}

// lastValue returns where the lines of a section end that are not blank or comments: those
// at its end are about what follows.
func lastValue(section string) int {
	end := len(section)
	for end > 0 {
		begin := lineBegin(section, end)
		line := strings.TrimSpace(section[begin:end])
		if line != "" && line[0] != '#' {
			return len(strings.TrimRight(section[:end], " \t\r"))
		}
		if begin == 0 {
			break
		}
		end = begin - 1
	}
	return end
}

var bareKey = lazy.Regexp(`^[A-Za-z0-9_-]+$`)

func tomlKey(key string) string {
	if bareKey().MatchString(key) {
		return key
	}
	return quoteJSON(key)
}

// renderTOML returns a table as a section.
func renderTOML(path []string, n *Node, eol string) string {
	keys := make([]string, len(path))
	for i, key := range path {
		keys[i] = tomlKey(key)
	}
	var b strings.Builder
	b.WriteString("[" + strings.Join(keys, ".") + "]" + eol)
	for _, m := range n.Members {
		b.WriteString(tomlKey(m.Key) + " = " + tomlValue(m.Value) + eol)
	}
	return b.String()
}

func tomlValue(n *Node) string {
	var parts []string
	switch n.Kind {
	case Table:
		for _, m := range n.Members {
			parts = append(parts, tomlKey(m.Key)+" = "+tomlValue(m.Value))
		}
		return "{ " + strings.Join(parts, ", ") + " }"
	case List:
		for _, item := range n.Items {
			parts = append(parts, tomlValue(item))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case Text:
		return quoteJSON(n.Text)
	}
	return n.Text
}
