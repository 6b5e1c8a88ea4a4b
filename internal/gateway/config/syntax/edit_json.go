package syntax

import (
	"bytes"
	"encoding/json"
	"strings"
)

// putJSON splices a member into JSON, with the file's own indentation.
func putJSON(src *Source, text string, path []string, m Member) (string, error) {
	eol, unit := lineEnd(text), "  "
	if len(src.Root.Members) > 0 {
		if _, indent := lineStart(text, offset(text, src.Root.Members[0].At)); indent != "" {
			unit = indent
		}
	}
	table, rest, err := descend(src.Root, path)
	if err != nil {
		return "", err
	}
	m = wrap(rest, m)
	w := jsonWriter{unit: unit, eol: eol}
	if strings.TrimSpace(text) == "" {
		root := &Node{Kind: Table}
		root.Set(m)
		w.value(root, "")
		return w.String() + eol, nil
	}
	if old, ok := table.Member(m.Key); ok {
		_, indent := lineStart(text, offset(text, old.At))
		w.value(m.Value, indent)
		return text[:offset(text, old.Value.At)] + w.String() + text[offset(text, old.Value.end):], nil
	}
	open, end := offset(text, table.At), offset(text, table.end)-1
	_, base := lineStart(text, open)
	indent := base + unit
	if len(table.Members) == 0 {
		w.member(m, indent)
		return text[:open+1] + strings.TrimRight(text[open+1:end], " \t\r\n") + eol + indent + w.String() + eol + base + text[end:], nil
	}
	if first := offset(text, table.Members[0].At); strings.TrimSpace(text[lineBegin(text, first):first]) == "" {
		_, indent = lineStart(text, first)
	}
	last := offset(text, table.Members[len(table.Members)-1].Value.end)
	comma := skipJSON(text, last, true)
	after, comma2 := last, ""
	if comma < len(text) && text[comma] == ',' {
		after, comma2 = comma+1, ","
	}
	if table.At.Line == table.end.Line {
		w.inline = true
		w.member(m, "")
		if comma2 == "" {
			return text[:last] + ", " + w.String() + text[last:], nil
		}
		return text[:after] + " " + w.String() + text[after:], nil
	}
	if next := skipJSON(text, after, false); next == len(text) || text[next] != '}' {
		after = len(strings.TrimRight(text[:next], " \t\r\n")) // behind what is said of the last one
	}
	w.member(m, indent)
	added := eol + indent + w.String() + comma2
	if comma2 == "" {
		return text[:last] + "," + text[last:after] + added + text[after:], nil
	}
	return text[:after] + added + text[after:], nil
}

func lineBegin(text string, at int) int { begin, _ := lineStart(text, at); return begin }

// skipJSON returns where white space and comments end: all of them, or those of the line.
func skipJSON(text string, at int, lines bool) int {
	for at < len(text) {
		rest := text[at:]
		switch {
		case rest[0] == '\n' && !lines:
			return at
		case strings.ContainsRune(" \t\r\n", rune(rest[0])):
			at++
		case strings.HasPrefix(rest, "//"):
			line, _, _ := strings.Cut(rest, "\n")
			at += len(line)
		case strings.HasPrefix(rest, "/*"):
			comment, _, _ := strings.Cut(rest, "*/") // it is closed, as the text was parsed
			if !lines && strings.Contains(comment, "\n") {
				return at
			}
			at += len(comment) + 2
		default:
			return at
		}
	}
	return at
}

// A jsonWriter writes values as JSON.
type jsonWriter struct {
	strings.Builder
	unit, eol string
	inline    bool // all in one line
}

func (w *jsonWriter) member(m Member, indent string) {
	w.WriteString(quoteJSON(m.Key) + ": ")
	w.value(m.Value, indent)
}

// value writes a value whose first line stands at an indentation.
func (w *jsonWriter) value(n *Node, indent string) {
	switch n.Kind {
	case Table:
		w.sequence("{", "}", len(n.Members), indent, w.inline, func(i int) { w.member(n.Members[i], indent+w.unit) })
	case List:
		short := true
		for _, item := range n.Items {
			short = short && item.Scalar()
		}
		w.sequence("[", "]", len(n.Items), indent, w.inline || short, func(i int) { w.value(n.Items[i], indent+w.unit) })
	case Text:
		w.WriteString(quoteJSON(n.Text))
	case Null:
		w.WriteString("null")
	default:
		w.WriteString(n.Text)
	}
}

func (w *jsonWriter) sequence(open, end string, count int, indent string, inline bool, one func(i int)) {
	w.WriteString(open)
	for i := range count {
		switch {
		case i > 0 && inline:
			w.WriteString(", ")
		case i > 0:
			w.WriteString(",")
		}
		if !inline {
			w.WriteString(w.eol + indent + w.unit)
		}
		one(i)
	}
	if count > 0 && !inline {
		w.WriteString(w.eol + indent)
	}
	w.WriteString(end)
}

// quoteJSON returns a text in quotes, as JSON and TOML both read it.
func quoteJSON(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return strings.TrimSuffix(b.String(), "\n")
}
