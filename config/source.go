package config

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// Limits of a file.
const (
	// MaxFile is the largest file that is read, in bytes.
	MaxFile = 4 << 20

	// MaxNodes is how many values a file may have, after its aliases.
	MaxNodes = 100_000

	// MaxDepth is how deep values may be nested.
	MaxDepth = 64
)

// A source is a file that is being read.
type source struct {
	name  string // as it was given
	order int    // among the files
	path  string // absolute
	lines []string
	root  *node // nil if the file could not be parsed
	log   *log

	nodes   int            // so far
	secrets map[int][]span // by line; made when an excerpt is first wanted
}

// base is the directory where relative paths of the file start: its own, or the
// one above if it is in a host's directory, as .vscode.
func (s *source) base() string {
	dir := filepath.Dir(s.path)
	switch filepath.Base(dir) {
	case ".vscode", ".cursor", ".gemini", ".qwen", ".codex", ".roo", ".kilocode", ".zed":
		return filepath.Dir(dir)
	}
	return dir
}

// parse reads text by the syntax that the name or the beginning says.
func (s *source) parse(data []byte) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	syntax := syntaxOf(s.name, data)
	s.lines = strings.Split(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n")
	if syntax == "yaml" {
		s.lines = yamlBreak.Split(string(data), -1)
	}
	for i, line := range s.lines {
		if !utf8.ValidString(line) {
			at := 0
			for at < len(line) {
				r, n := utf8.DecodeRuneInString(line[at:])
				if r == utf8.RuneError && n == 1 {
					break
				}
				at += n
			}
			s.fail(place{i + 1, utf8.RuneCountInString(line[:at]) + 1}, "the file is not UTF-8", "save it as UTF-8")
			return
		}
	}
	var root *node
	switch syntax {
	case "json":
		root = parseJSON(s, string(data))
	case "toml":
		root = parseTOML(s, data)
	default:
		root = parseYAML(s, data)
	}
	if root != nil {
		root.hide("", false)
		s.root = root
	}
}

// syntaxOf says how a file is written.
func syntaxOf(name string, data []byte) string {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".json", ".jsonc", ".json5", ".code-workspace":
		return "json"
	case ".toml":
		return "toml"
	case ".yaml", ".yml":
		return "yaml"
	}
	for line := range bytes.Lines(data) {
		line = bytes.TrimSpace(line)
		switch {
		case len(line) == 0 || line[0] == '#':
		case line[0] == '{' || bytes.HasPrefix(line, []byte("//")) || bytes.HasPrefix(line, []byte("/*")):
			return "json"
		case line[0] == '[':
			return "toml"
		default:
			return "yaml"
		}
	}
	return "yaml"
}

// count notes one more value and tells whether that is still allowed.
func (s *source) count(at place, depth int) bool {
	s.nodes++
	switch {
	case depth > MaxDepth:
		if s.nodes <= MaxNodes {
			s.fail(at, fmt.Sprintf("nested more than %d levels deep", MaxDepth), "")
		}
		s.nodes = MaxNodes + 1
		return false
	case s.nodes == MaxNodes+1:
		s.fail(at, fmt.Sprintf("more than %d values", MaxNodes), "split the file")
	}
	return s.nodes <= MaxNodes
}

// add appends a member to a table, unless it has the key.
func (s *source) add(n *node, m member) {
	if i, ok := n.index[m.key]; ok {
		old := n.members[i]
		s.fail(m.at, fmt.Sprintf("%q stands here twice, first in line %d, column %d", clip(m.key), old.at.line, old.at.column), "remove one of them")
		n.dropped = append(n.dropped, m)
		return
	}
	if n.index == nil {
		n.index = map[string]int{}
	}
	n.index[m.key] = len(n.members)
	n.members = append(n.members, m)
}

// fail notes a mistake.
func (s *source) fail(at place, message, hint string) {
	s.log.add(finding{src: s, at: at, message: message, hint: hint, bad: true})
}

// clamp returns the nearest place that is in the file: a parser may name one behind
// its end.
func (s *source) clamp(at place) place {
	if at.line < 1 || len(s.lines) == 0 {
		return place{}
	}
	if at.line > len(s.lines) {
		at = place{len(s.lines), math.MaxInt}
	}
	at.column = min(max(at.column, 1), utf8.RuneCountInString(s.lines[at.line-1])+1)
	return at
}

// A ruler turns offsets into places. Offsets must not go back far: it looks from
// the last one on.
type ruler struct {
	text   string
	offset int
	at     place
}

func newRuler(text string) *ruler { return &ruler{text: text, at: place{1, 1}} }

func (r *ruler) place(offset int) place {
	offset = min(offset, len(r.text))
	if offset < r.offset {
		r.offset, r.at = 0, place{1, 1}
	}
	for _, c := range r.text[r.offset:offset] {
		if c == '\n' {
			r.at = place{r.at.line + 1, 1}
		} else {
			r.at.column++
		}
	}
	r.offset = offset
	return r.at
}
