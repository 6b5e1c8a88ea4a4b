package syntax

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/util/lazy"
)

// A jsonParser reads JSON with comments and with commas before a closing bracket.
// It stops at the first mistake: from there on, it behaves as at the end of the text.
type jsonParser struct {
	src    *Source
	text   string
	at     int // offset
	lines  *lineIndex
	failed bool
	comma  Position // the first one before a closing bracket
	more   bool     // there are comments, so that it does not pass for plain JSON
}

// parseJSON returns nil if the text is not JSON.
func parseJSON(src *Source, data string) *Node {
	p := &jsonParser{src: src, text: data, lines: &lineIndex{text: data, at: Position{1, 1}}}
	n := p.value(0)
	if p.next(); p.at < len(p.text) {
		p.wrong("there is more behind the end of the value", "")
	}
	if p.failed {
		return nil
	}
	p.warnOfComma()
	return n
}

func (p *jsonParser) here() Position { return p.lines.place(p.at) }

// wrong reports a mistake, if it is the first, and stops.
func (p *jsonParser) wrong(message, hint string) {
	if !p.failed {
		p.src.Fail(p.here(), message, hint)
	}
	p.stop()
}

func (p *jsonParser) stop() { p.failed, p.at = true, len(p.text) }

// next skips white space and comments and returns the byte behind them, or 0 at the
// end.
func (p *jsonParser) next() byte {
	for p.at < len(p.text) {
		rest := p.text[p.at:]
		switch {
		case strings.ContainsRune(" \t\r\n", rune(rest[0])):
			p.at++
		case strings.HasPrefix(rest, "//"):
			line, _, _ := strings.Cut(rest, "\n")
			p.at, p.more = p.at+len(line), true
		case strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				p.wrong("the comment has no end", "close it with */")
				return 0
			}
			p.at, p.more = p.at+end+4, true
		default:
			return rest[0]
		}
	}
	return 0
}

func (p *jsonParser) value(depth int) *Node {
	c := p.next()
	n := &Node{At: p.here()}
	if !p.src.count(n.At, depth) {
		p.stop()
		return n
	}
	switch c {
	case '{':
		n.Kind = Table
		p.sequence('}', func() { p.member(n, depth) })
	case '[':
		n.Kind = List
		p.sequence(']', func() { n.Items = append(n.Items, p.value(depth+1)) })
	case '"':
		n.Kind, n.Text = Text, p.str()
	case 0:
		p.wrong("the file ends where a value is expected", "")
	default:
		p.word(n)
	}
	n.end = p.here()
	return n
}

// sequence reads members or items, each with one, and the brackets around them.
func (p *jsonParser) sequence(closing byte, one func()) {
	p.at++
	for c := p.next(); c != closing && !p.failed; {
		one()
		switch c = p.next(); c {
		case ',':
			comma := p.here()
			p.at++
			if c = p.next(); c == closing && p.comma == (Position{}) {
				p.comma = comma
			}
		case closing:
		case 0:
			p.wrong(fmt.Sprintf("the file ends before the closing %c", closing), "")
		default:
			p.wrong(fmt.Sprintf("a comma or %c is expected here", closing), "is there a comma missing before it?")
		}
	}
	p.at++
}

// warnOfComma says that others may not read the file as we do. Files with comments, and those
// that say by their names that they are more than JSON, are read so by all who read them.
func (p *jsonParser) warnOfComma() {
	folder := filepath.Base(filepath.Dir(p.src.Path))
	if p.comma == (Position{}) || p.more || folder == ".vscode" || !strings.EqualFold(filepath.Ext(p.src.Path), ".json") {
		return
	}
	p.src.Report(Problem{Source: p.src, At: p.comma, Warning: true, Message: "a comma before a closing bracket is not JSON", Hint: "remove it: other programs may refuse the file"})
}

func (p *jsonParser) member(n *Node, depth int) {
	if p.next() != '"' {
		p.wrong("a key in double quotes is expected here", "")
		return
	}
	m := Member{At: p.here()}
	m.Key = p.str()
	if p.next() != ':' {
		p.wrong("a colon is expected behind a key", "")
		return
	}
	p.at++
	if m.Value = p.value(depth + 1); !p.failed {
		p.src.add(n, m)
	}
}

// str reads a string.
func (p *jsonParser) str() (s string) {
	line, _, _ := strings.Cut(p.text[p.at:], "\n")
	size := Quoted(line)
	if size < 0 {
		p.wrong("the text has no closing quote in this line", "")
		return ""
	}
	if json.Unmarshal([]byte(line[:size]), &s) != nil {
		p.wrong("the text has a character that JSON does not allow", `write \\ for a backslash and \t for a tab`)
		return ""
	}
	p.at += size
	return s
}

var (
	jsonWord   = lazy.Regexp(`^[A-Za-z0-9_.+-]+`)
	jsonNumber = lazy.Regexp(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)
)

// word reads what stands without quotes.
func (p *jsonParser) word(n *Node) {
	n.Text = jsonWord().FindString(p.text[p.at:])
	switch {
	case n.Text == "null":
		n.Kind = Null
	case n.Text == "true" || n.Text == "false":
		n.Kind = Boolean
	case jsonNumber().MatchString(n.Text):
		n.Kind = Number
	case n.Text == "":
		r, _ := utf8.DecodeRuneInString(p.text[p.at:])
		p.wrong(fmt.Sprintf("a value is expected here, not %q", r), "")
	default:
		p.wrong("a value is expected here", "write text in double quotes")
	}
	p.at += len(n.Text)
}
