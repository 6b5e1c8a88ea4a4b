package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/dragoman-mcp/dragoman/internal/redact"
)

// excerptWidth is how many characters of a line are shown.
const excerptWidth = 100

// mask stands where a value was that may be a secret.
const mask = "***"

// A span is a part of a line: columns from and, exclusively, to. They count from
// zero.
type span struct{ from, to int }

// excerpt returns a line and a caret below the place.
func (s *source) excerpt(at place) string {
	if at.line < 1 || at.line > len(s.lines) {
		return ""
	}
	line, caret := []rune(s.lines[at.line-1]), at.column-1
	caret = min(max(caret, 0), len(line))
	if s.root == nil {
		line = hideValues(line)
	} else {
		line, caret = cover(line, s.secretSpans(at.line), caret)
	}
	line, caret = cover(line, shapes(line), caret)
	if clean := []rune(redact.Text(string(line))); string(clean) != string(line) {
		line, caret = clean, min(caret, len(clean))
	}
	lead, tail := "", ""
	if from := caret - excerptWidth/2; len(line) > excerptWidth && from > 0 {
		lead, line, caret = "…", line[from:], caret-from+1
	}
	if len(line) > excerptWidth {
		tail, line = "…", line[:excerptWidth]
	}
	number := fmt.Sprintf("%5d", at.line)
	return fmt.Sprintf("%s | %s%s%s\n%s | %s^", number, lead, printableRunes(line), tail,
		strings.Repeat(" ", len(number)), strings.Repeat(" ", caret))
}

// secretSpans returns where in a line secrets stand.
func (s *source) secretSpans(line int) []span {
	if s.secrets == nil {
		s.secrets = map[int][]span{}
		s.findSecrets(s.root)
	}
	return s.secrets[line]
}

func (s *source) findSecrets(n *node) {
	for _, item := range n.items {
		s.findSecrets(item)
	}
	for _, m := range slices.Concat(n.members, n.dropped) {
		s.findSecrets(m.value)
	}
	if !n.secret || !n.scalar() || n.at.line < 1 || n.at.line > len(s.lines) {
		return
	}
	line := []rune(s.lines[n.at.line-1])
	from := min(n.at.column-1, len(line))
	s.secrets[n.at.line] = append(s.secrets[n.at.line], span{from, from + s.width(n, line[from:])})
}

// width returns how much of the rest of its line a scalar takes.
func (s *source) width(n *node, rest []rune) int {
	if n.end.line == n.at.line {
		return n.end.column - n.at.column
	}
	if n.end.line > 0 || len(rest) == 0 {
		return len(rest)
	}
	if quote := rest[0]; quote == '"' || quote == '\'' {
		for i := 1; i < len(rest); i++ {
			switch {
			case rest[i] == '\\' && quote == '"':
				i++
			case rest[i] == quote:
				return i + 1
			}
		}
		return len(rest)
	}
	if n.flow {
		if i := slices.IndexFunc(rest, func(r rune) bool { return strings.ContainsRune(",]}", r) }); i >= 0 {
			return i
		}
	}
	return len(rest)
}

// cover puts the mask over spans, and moves the caret along.
func cover(line []rune, spans []span, caret int) ([]rune, int) {
	slices.SortFunc(spans, func(a, b span) int { return a.from - b.from })
	var out []rune
	moved, done := -1, 0
	for _, s := range spans {
		s.to = min(s.to, len(line))
		if s.from < done || s.to <= s.from {
			continue
		}
		if moved < 0 && caret <= s.from {
			moved = len(out) + caret - done
		}
		out = append(out, line[done:s.from]...)
		if moved < 0 && caret < s.to {
			moved = len(out)
		}
		out = append(out, []rune(mask)...)
		done = s.to
	}
	if moved < 0 {
		moved = len(out) + max(caret-done, 0)
	}
	return append(out, line[done:]...), moved
}

// secretShapes find secrets by what stands around them: in URLs and in arguments.
var secretShapes = []*regexp.Regexp{
	regexp.MustCompile(`://([^/\s"'@]+)@`),
	regexp.MustCompile(`(?i)[?&][^=&\s"']*(?:token|key|secret|password|passwd|sig|auth|code)[^=&\s"']*=([^&\s"'#,\]}]+)`),
	regexp.MustCompile(`(?i)--?[a-z0-9-]*(?:token|key|secret|password|passwd|auth)[a-z0-9-]*(?:=|\s+)([^\s"',\]}]+)`),
}

func shapes(line []rune) []span {
	var spans []span
	s := string(line)
	for _, re := range secretShapes {
		for _, m := range re.FindAllStringSubmatchIndex(s, -1) {
			from := len([]rune(s[:m[2]]))
			spans = append(spans, span{from, from + len([]rune(s[m[2]:m[3]]))})
		}
	}
	return spans
}

// showText returns text that is not known to be a secret, without those that it
// may have inside.
func showText(s string) string {
	line, _ := cover([]rune(s), shapes([]rune(s)), 0)
	return printable(redact.Text(string(line)))
}

// secretName tells whether the name of a key or a flag says that its value is a
// secret.
func secretName(name string) bool {
	name = strings.NewReplacer(`"`, "", `\`, "").Replace(name)
	in := `{"` + name + `":"x"}`
	return len(name) < 200 && redact.JSON([]byte(in)) != in
}

var headerText = regexp.MustCompile(`^([A-Za-z0-9-]+)\s*:\s*\S`)

// secretText tells whether a text is a header that carries a secret, as they stand
// in arguments.
func secretText(s string) bool {
	m := headerText.FindStringSubmatch(s)
	return len(m) > 1 && secretName(m[1])
}

var (
	anyKey      = regexp.MustCompile(`"([A-Za-z0-9_.$-]+)"\s*:|^\s*(?:- )?([A-Za-z0-9_.$-]+)\s*[:=]`)
	keyAndValue = regexp.MustCompile(`\b([A-Za-z]+)"?\s*[:=]\s*("(?:[^"\\]|\\.)*"?|[^\s,{}\[\]"'][^,{}\[\]]*)`)
)

// openKeys are keys whose values are shown even if it is not known where they stand.
var openKeys = []string{"command", "cwd", "type", "transport", "timeout", "disabled", "enabled"}

// hideValues is for lines of a file that could not be parsed: it is not known what
// is a secret there. Keys are shown, and values of a few.
func hideValues(line []rune) []rune {
	whole := string(line)
	out := slices.Clone(line)
	for i, r := range out {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			out[i] = '*'
		}
	}
	reveal := func(from, to int) {
		if from >= 0 {
			copy(out[len([]rune(whole[:from])):], []rune(whole[from:to]))
		}
	}
	for _, m := range anyKey.FindAllStringSubmatchIndex(whole, -1) {
		reveal(m[2], m[3])
		reveal(m[4], m[5])
		if name := strings.Trim(whole[m[0]:m[1]], " \t\"-:="); secretTables[name] {
			whole = whole[:m[1]] // what follows may all be secret
			break
		}
	}
	for _, m := range keyAndValue.FindAllStringSubmatchIndex(whole, -1) {
		if slices.Contains(openKeys, whole[m[2]:m[3]]) {
			reveal(m[2], m[5])
		}
	}
	return out
}

// clip shortens a text for a message.
func clip(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}

// printable makes text safe for a terminal and a log.
func printable(s string) string { return printableRunes([]rune(s)) }

func printableRunes(line []rune) string {
	var b strings.Builder
	for _, r := range line {
		switch {
		case r == '\t':
			b.WriteByte(' ')
		case !unicode.IsPrint(r):
			b.WriteRune('\ufffd')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
