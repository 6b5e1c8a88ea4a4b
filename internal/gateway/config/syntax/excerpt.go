package syntax

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/dragoman-mcp/dragoman/internal/util/lazy"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
)

// excerptWidth is how many characters of a line are shown.
const excerptWidth = 100

// Excerpt returns the nearest place that is in the file, as a parser may name one
// behind its end, and its line with a caret below.
func (s *Source) Excerpt(at Position) (Position, string) {
	if at.Line < 1 || len(s.lines) == 0 {
		return Position{}, ""
	}
	if at.Line > len(s.lines) {
		at = Position{len(s.lines), math.MaxInt}
	}
	line := []rune(s.lines[at.Line-1])
	at.Column = min(max(at.Column, 1), len(line)+1)
	caret := at.Column - 1
	if s.Root == nil {
		line = hideValues(line, strings.Join(s.lines[max(0, at.Line-1-linesBefore):at.Line-1], "\n"))
	} else {
		line, caret = cover(line, s.Root.secrets(at.Line, line), caret)
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
	number := fmt.Sprintf("%5d", at.Line)
	return at, fmt.Sprintf("%s | %s%s%s\n%*s | %*s^", number, lead, Printable(string(line)), tail, len(number), "", caret, "")
}

// linesBefore is how many lines above are looked at to tell what a line of a list is.
const linesBefore = 50

// A span is a part of a line: columns from and, exclusively, to. They count from
// zero.
type span struct{ from, to int }

// secrets returns where in a line the secrets stand that are in n.
func (n *Node) secrets(number int, line []rune) (spans []span) {
	if n.Secret && n.Scalar() && n.At.Line == number {
		from := min(n.At.Column-1, len(line))
		spans = append(spans, span{from, from + n.width(line[from:])})
	}
	n.below(func(_ string, child *Node) { spans = append(spans, child.secrets(number, line)...) })
	return spans
}

// width returns how much of the rest of its line a scalar takes.
func (n *Node) width(rest []rune) int {
	quoted := len(rest) > 0 && (rest[0] == '"' || rest[0] == '\'')
	switch {
	case n.end.Line == n.At.Line:
		return n.end.Column - n.At.Column
	case n.end.Line > 0:
		return len(rest)
	case quoted && Quoted(string(rest)) > 0:
		return len([]rune(string(rest)[:Quoted(string(rest))]))
	case !quoted && n.flow:
		if i := slices.IndexFunc(rest, func(r rune) bool { return strings.ContainsRune(",]}", r) }); i >= 0 {
			return i
		}
	}
	return len(rest)
}

// mask stands where a value was that may be a secret.
const mask = "***"

// cover puts the mask over spans, and moves the caret along.
func cover(line []rune, spans []span, caret int) (out []rune, moved int) {
	hidden := make([]bool, len(line)+1)
	for _, s := range spans {
		for i := s.from; i < min(s.to, len(line)); i++ {
			hidden[i] = true
		}
	}
	for i := range hidden {
		first := hidden[i] && (i == 0 || !hidden[i-1])
		if i <= caret && (first || !hidden[i]) {
			moved = len(out)
		}
		switch {
		case first:
			out = append(out, []rune(mask)...)
		case !hidden[i] && i < len(line):
			out = append(out, line[i])
		}
	}
	return out, moved
}

var (
	// secretTables are the keys of mappings whose values may all be secret.
	secretTables = []string{"env", "environment", "headers", "http_headers", "auth", "oauth", "tokens"}

	// openKeys are keys whose values are shown even if it is not known where they stand.
	openKeys = []string{"command", "cwd", "type", "transport", "timeout", "disabled", "enabled"}

	// onlyReference matches what is no secret because it only refers to one.
	onlyReference = lazy.Regexp(`^(?:Bearer |Basic )?\$\{(?:(?:env|file|input):)?[^{}:]*\}$`)

	// secretHeader matches a header with a value, as they stand in arguments.
	secretHeader = lazy.Regexp(`^([A-Za-z0-9-]+)\s*:\s*\S`)

	// secretShapes find what may be secrets by what stands around them, in URLs and in arguments: the name, if
	// that decides, and the value.
	secretShapes = []func() *regexp.Regexp{
		lazy.Regexp(`://()([^/\s"'@]+)@`),
		lazy.Regexp(`[?&]([^=&\s"']+)=([^&\s"'#,\]}]+)`),
		lazy.Regexp(`--?([A-Za-z0-9_-]+)(?:=|\s+)([^\s"',\]}]+)`),
	}
)

// finish marks what must not be shown, and what is broken because of something in it.
// key is that of n; secret means that all in n is.
func (n *Node) finish(key string, secret bool) {
	secret = secret || slices.Contains(secretTables, key) ||
		n.Kind != Table && redact.SecretName(key) && !strings.HasSuffix(key, "_env_var")
	header := secretHeader().FindStringSubmatch(n.Text)
	n.Secret = (secret || n.Kind == Text && header != nil && redact.SecretName(header[1])) && !onlyReference().MatchString(n.Text)
	n.below(func(key string, child *Node) {
		child.finish(key, secret)
		n.Broken = n.Broken || child.Broken
	})
}

// below calls f for each value in n, with its key. In a list, that is the flag
// before it.
func (n *Node) below(f func(key string, child *Node)) {
	flag := ""
	for _, item := range n.Items {
		f(flag, item)
		flag = ""
		if strings.HasPrefix(item.Text, "-") && !strings.Contains(item.Text, "=") {
			flag = item.Text
		}
	}
	for _, m := range n.Members {
		f(m.Key, m.Value)
	}
	for _, m := range n.dropped {
		f(m.Key, m.Value)
	}
}

// Show returns a value as errors name it: a scalar as it stands in the file, unless
// it is a secret.
func (n *Node) Show() string {
	switch {
	case !n.Scalar():
		return n.Kind.String()
	case n.Secret:
		return "the value"
	case n.Kind == Text:
		return strconv.Quote(Clip(n.Open()))
	}
	return Clip(n.Open())
}

// Open returns the text of a scalar as it stands in the file, with a mask where a
// secret may be.
func (n *Node) Open() string {
	if n.Secret {
		return mask
	}
	line := []rune(cmp.Or(n.Written, n.Text))
	line, _ = cover(line, shapes(line), 0)
	return Printable(redact.Text(string(line)))
}

// shapes returns where secrets stand, as far as their surroundings tell.
func shapes(line []rune) (spans []span) {
	s := string(line)
	for _, re := range secretShapes {
		for at := 0; ; {
			m := re().FindStringSubmatchIndex(s[at:])
			if m == nil {
				break
			}
			name, from, to := s[at+m[2]:at+m[3]], at+m[4], at+m[5]
			if name != "" && !redact.SecretParameter(name) {
				at += m[3] // its value may be the next name
				continue
			}
			first := len([]rune(s[:from]))
			spans = append(spans, span{first, first + len([]rune(s[from:to]))})
			at = to
		}
	}
	return spans
}

var (
	anyKey      = lazy.Regexp(`"([A-Za-z0-9_.$-]+)"\s*:|^\s*(?:- )?([A-Za-z0-9_.$-]+)\s*[:=]`)
	keyAndValue = lazy.Regexp(`\b([A-Za-z]+)"?\s*[:=]\s*("(?:[^"\\]|\\.)*"?|[^\s,{}\[\]"'][^,{}\[\]]*)`)
)

// hideValues is for lines of a file that could not be parsed: it is not known what
// is a secret there. Keys are shown, and values of a few. before are the lines above.
func hideValues(line []rune, before string) []rune {
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
	for _, m := range anyKey().FindAllStringSubmatchIndex(whole, -1) {
		reveal(m[2], m[3])
		reveal(m[4], m[5])
		if name := strings.Trim(whole[m[0]:m[1]], " \t\"-:="); slices.Contains(secretTables, name) {
			whole = whole[:m[1]] // what follows may all be secret
			break
		}
	}
	for _, m := range keyAndValue().FindAllStringSubmatchIndex(whole, -1) {
		if slices.Contains(openKeys, whole[m[2]:m[3]]) {
			reveal(m[2], m[5])
		}
	}
	for _, m := range plainItems(whole, before) {
		reveal(m.from, m.to)
	}
	return out
}

var (
	// listItems finds lines of a list that is behind args, or has no key on its line.
	listItems = lazy.Regexp(`^\s*(?:"args"\s*:\s*\[|\[)?((?:\s*"(?:[^"\\]|\\.)*"\s*,?)+)`)
	item      = lazy.Regexp(`"((?:[^"\\]|\\.)*)"(\s*:)?`)

	// plainWords matches names of packages, files and flags: words of letters or of digits, none of
	// them long. What is random is not so.
	plainWords = lazy.Regexp(`^[-@./]*(?:[A-Za-z]{1,16}|[0-9]{1,4})(?:[-_./@]+(?:[A-Za-z]{1,16}|[0-9]{1,4}))+$|^--?[a-z]{1,16}$`)
	flagAtEnd  = lazy.Regexp(`"-[^"]*"\s*,?\s*$`)
)

// plainItems returns which items of a list on a line are no secrets by their looks, and by what
// stands before them: what follows a flag may be anything.
func plainItems(line, before string) (spans []span) {
	at := listItems().FindStringSubmatchIndex(line)
	if at == nil {
		return nil
	}
	if keys := anyKey().FindAllStringSubmatch(before, -1); !strings.Contains(line[:at[2]], `"args"`) && (len(keys) == 0 || keys[len(keys)-1][1] != "args") {
		return nil
	}
	afterFlag := flagAtEnd().MatchString(before)
	for _, m := range item().FindAllStringSubmatchIndex(line[at[2]:at[3]], -1) {
		text := line[at[2]+m[2] : at[2]+m[3]]
		if m[4] < 0 && !afterFlag && plainWords().MatchString(text) {
			spans = append(spans, span{at[2] + m[2], at[2] + m[3]})
		}
		afterFlag = strings.HasPrefix(text, "-")
	}
	return spans
}
