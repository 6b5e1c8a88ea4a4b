package config

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// A jsonParser reads JSON with comments and with commas before a closing bracket.
// It stops at the first mistake.
type jsonParser struct {
	src   *source
	text  string
	at    int // offset
	ruler *ruler
}

// parseJSON returns nil if the text is not JSON.
func parseJSON(src *source, data string) *node {
	p := &jsonParser{src: src, text: data, ruler: newRuler(data)}
	n, ok := p.value(0)
	if !ok {
		return nil
	}
	if !p.space() {
		return nil
	}
	if p.at < len(p.text) {
		p.wrong("there is more behind the end of the value", "")
		return nil
	}
	return n
}

func (p *jsonParser) here() place { return p.ruler.place(p.at) }

// wrong reports a mistake and returns false.
func (p *jsonParser) wrong(message, hint string) bool {
	p.src.fail(p.here(), message, hint)
	return false
}

// space skips white space and comments.
func (p *jsonParser) space() bool {
	for p.at < len(p.text) {
		rest := p.text[p.at:]
		switch {
		case strings.ContainsRune(" \t\r\n", rune(rest[0])):
			p.at++
		case strings.HasPrefix(rest, "//"):
			if end := strings.IndexByte(rest, '\n'); end >= 0 {
				p.at += end
			} else {
				p.at = len(p.text)
			}
		case strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				return p.wrong("the comment has no end", "close it with */")
			}
			p.at += end + 4
		default:
			return true
		}
	}
	return true
}

// next skips space and returns the byte behind it, or 0 at the end.
func (p *jsonParser) next() (byte, bool) {
	if !p.space() {
		return 0, false
	}
	if p.at == len(p.text) {
		return 0, true
	}
	return p.text[p.at], true
}

func (p *jsonParser) value(depth int) (*node, bool) {
	c, ok := p.next()
	if !ok {
		return nil, false
	}
	n := &node{at: p.here()}
	if !p.src.count(n.at, depth) {
		return nil, false
	}
	switch c {
	case '{':
		n.kind = table
		ok = p.table(n, depth)
	case '[':
		n.kind = list
		ok = p.list(n, depth)
	case '"':
		n.kind = text
		n.text, ok = p.str()
	case 0:
		return nil, p.wrong("the file ends where a value is expected", "")
	default:
		ok = p.word(n)
	}
	n.end = p.here()
	return n, ok
}

// more reads what follows a member or an item: a comma, or the closing bracket,
// which it leaves.
func (p *jsonParser) more(closing byte) (more, ok bool) {
	c, ok := p.next()
	switch {
	case !ok:
		return false, false
	case c == ',':
		p.at++
		c, ok = p.next()
		return c != closing, ok
	case c == closing:
		return false, true
	case c == 0:
		return false, p.wrong(fmt.Sprintf("the file ends before the closing %c", closing), "")
	}
	return false, p.wrong(fmt.Sprintf("a comma or %c is expected here", closing), "is there a comma missing before it?")
}

func (p *jsonParser) table(n *node, depth int) bool {
	p.at++
	c, ok := p.next()
	for more := c != '}'; ok && more; {
		if c, ok = p.next(); !ok {
			break
		}
		if c != '"' {
			return p.wrong("a key in double quotes is expected here", "")
		}
		m := member{at: p.here()}
		if m.key, ok = p.str(); !ok {
			break
		}
		if c, ok = p.next(); !ok {
			break
		}
		if c != ':' {
			return p.wrong("a colon is expected behind a key", "")
		}
		p.at++
		if m.value, ok = p.value(depth + 1); !ok {
			break
		}
		p.src.add(n, m)
		more, ok = p.more('}')
	}
	p.at++
	return ok
}

func (p *jsonParser) list(n *node, depth int) bool {
	p.at++
	c, ok := p.next()
	for more := c != ']'; ok && more; {
		var item *node
		if item, ok = p.value(depth + 1); !ok {
			break
		}
		n.items = append(n.items, item)
		more, ok = p.more(']')
	}
	p.at++
	return ok
}

// str reads a string.
func (p *jsonParser) str() (string, bool) {
	for i := p.at + 1; i < len(p.text) && p.text[i] != '\n'; i++ {
		switch p.text[i] {
		case '\\':
			i++
		case '"':
			var s string
			if err := json.Unmarshal([]byte(p.text[p.at:i+1]), &s); err != nil {
				return "", p.wrong("the text has a character that JSON does not allow", `write \\ for a backslash and \t for a tab`)
			}
			p.at = i + 1
			return s, true
		}
	}
	return "", p.wrong("the text has no closing quote in this line", "")
}

var (
	jsonWord   = regexp.MustCompile(`^[A-Za-z0-9_.+-]+`)
	jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)
)

// word reads what stands without quotes.
func (p *jsonParser) word(n *node) bool {
	word := jsonWord.FindString(p.text[p.at:])
	switch {
	case word == "null":
		n.kind = null
	case word == "true" || word == "false":
		n.kind = boolean
	case jsonNumber.MatchString(word):
		n.kind = number
	case word == "":
		r, _ := utf8.DecodeRuneInString(p.text[p.at:])
		return p.wrong(fmt.Sprintf("a value is expected here, not %q", r), "")
	default:
		return p.wrong("a value is expected here", "write text in double quotes")
	}
	n.text = word
	p.at += len(word)
	return true
}
