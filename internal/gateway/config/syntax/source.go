package syntax

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/util/lazy"
)

// Limits of a file.
const (
	MaxNodes = 100_000 // values, after its aliases
	MaxDepth = 64      // how deep they may be nested
)

// A Source is a file that is being read.
type Source struct {
	Name   string // as it was given
	Path   string // absolute
	Order  int    // among the files
	Report func(Problem)
	Root   *Node // nil if the file could not be parsed

	lines  []string
	nodes  int       // so far
	hidden *[]string // what folded has found; nil before
}

// A Problem is something to say about a place of a source.
type Problem struct {
	Source        *Source
	At            Position
	About         string // the name of what it is about, if that has one
	Message, Hint string
	Warning       bool // it is no mistake
}

// Parse reads the text of the file by the syntax that its name or its beginning
// says, and reports what is wrong with it.
func (s *Source) Parse(data []byte) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	syntax := syntaxOf(s.Name, data)
	s.lines = strings.Split(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n")
	if syntax == "yaml" {
		s.lines = yamlBreak().Split(string(data), -1)
	}
	for i, line := range s.lines {
		if !utf8.ValidString(line) {
			before := line[:strings.IndexRune(line, utf8.RuneError)]
			s.Fail(Position{i + 1, utf8.RuneCountInString(before) + 1}, "the file is not UTF-8", "save it as UTF-8")
			return
		}
	}
	switch syntax {
	case "json":
		s.Root = parseJSON(s, string(data))
	case "toml":
		s.Root = parseTOML(s, data)
	default:
		s.Root = parseYAML(s, data)
	}
	if s.Root != nil {
		s.Root.finish("", false)
	}
}

var (
	extensions = map[string]string{
		".json": "json", ".jsonc": "json", ".json5": "json", ".code-workspace": "json",
		".toml": "toml", ".yaml": "yaml", ".yml": "yaml",
	}
	beginning = lazy.Regexp(`^(?:\s*#.*\n)*\s*(\{|//|/\*|\[)?`) // behind comments of YAML and TOML
)

// syntaxOf says how a file is written.
func syntaxOf(name string, data []byte) string {
	if syntax := extensions[strings.ToLower(filepath.Ext(name))]; syntax != "" {
		return syntax
	}
	switch string(beginning().FindSubmatch(data)[1]) {
	case "":
		return "yaml"
	case "[":
		return "toml"
	}
	return "json"
}

// Fail reports a mistake.
func (s *Source) Fail(at Position, message, hint string) {
	s.Report(Problem{Source: s, At: at, Message: message, Hint: hint})
}

// count notes one more value and reports whether that is still allowed.
func (s *Source) count(at Position, depth int) bool {
	s.nodes++
	switch {
	case depth > MaxDepth:
		if s.nodes <= MaxNodes {
			s.Fail(at, fmt.Sprintf("nested more than %d levels deep", MaxDepth), "")
		}
		s.nodes = MaxNodes + 1
	case s.nodes == MaxNodes+1:
		s.Fail(at, fmt.Sprintf("more than %d values", MaxNodes), "split the file")
	}
	return s.nodes <= MaxNodes
}

// add appends a member to a table, unless it has the key.
func (s *Source) add(n *Node, m Member) {
	old, twice := n.Member(m.Key)
	if !twice {
		n.Set(m)
		return
	}
	s.Fail(m.At, fmt.Sprintf("%q stands here twice, first in line %d, column %d", Clip(m.Key), old.At.Line, old.At.Column), "remove one of them")
	old.Value.Broken = true
	n.dropped = append(n.dropped, m)
}

// A lineIndex turns offsets into places. Offsets must not go back far: it looks from
// the last one on.
type lineIndex struct {
	text   string
	offset int
	at     Position
}

func (r *lineIndex) place(offset int) Position {
	offset = min(offset, len(r.text))
	if offset < r.offset {
		r.offset, r.at = 0, Position{1, 1}
	}
	for _, c := range r.text[r.offset:offset] {
		if c == '\n' {
			r.at = Position{r.at.Line + 1, 1}
		} else {
			r.at.Column++
		}
	}
	r.offset = offset
	return r.at
}
