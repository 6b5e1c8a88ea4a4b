package redact

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/util/lazy"
)

var (
	// label finds names with what stands between them and a value, and assigned finds the value there.
	label    = lazy.Regexp(`([A-Za-z0-9_.-]+(?: [Kk][Ee][Yy])?["'` + "`" + `]?)(\s*[=:]\s*)`)
	assigned = lazy.Regexp(`^((?i:bearer|basic|token)\s+)?("[^"]*"?|'[^']*'?|[^\s"'` + "`" + `&;=>\[/][^\s"'` + "`" + `&;]*)`)

	// unexpected finds what stands before a token of a language.
	unexpected = lazy.Regexp(`(?i)\bunexpected\s+$`)

	// scheme finds what may stand before a token.
	scheme = lazy.Regexp(`(?i)^(?:bearer|basic|token)$`)

	// remark finds words behind a colon that say how a secret is, and are none.
	remark = lazy.Regexp(`(?i)^(?:missing|invalid|expired|required|revoked|unknown|none|null|nil|undefined|true|false|yes|no|ok|set|unset|empty|denied|failed|found|present|absent|configured|loaded)$`)

	// plain finds words that may be part of a sentence.
	plain = lazy.Regexp(`^[A-Za-z]?[a-z]+$`)
)

// Line returns the beginning of a line that a program has written for people, or as JSON, with its
// secrets replaced: what [JSON] finds, and what stands behind a name of a secret, however short it is.
func Line(s string) string {
	s = JSON([]byte(s))
	if !strings.ContainsAny(s, "=:") {
		return s
	}
	var b strings.Builder
	done := 0
	for next := 0; ; {
		m := label().FindStringSubmatchIndex(s[next:])
		if m == nil {
			break
		}
		before, name, separator := s[:next+m[0]], s[next+m[2]:next+m[3]], s[next+m[4]:next+m[5]]
		next += m[1]
		if from, to := assignedTo(before, name, separator, s[next:]); to > 0 {
			b.WriteString(s[done:next+from] + mark)
			next += to
			done = next
		}
	}
	b.WriteString(s[done:])
	return b.String()
}

// assignedTo returns where in rest the secret stands that is assigned to a name, or zero if there is none.
func assignedTo(before, name, separator, rest string) (from, to int) {
	if !secretLabel(strings.TrimRight(name, "\"'`")) || unexpected().MatchString(before) {
		return 0, 0
	}
	m := assigned().FindStringSubmatchIndex(rest)
	if m == nil {
		return 0, 0
	}
	value := strings.TrimRight(rest[m[4]:m[5]], ",.)}]")
	behind := rest[m[4]+len(value):]
	switch {
	case strings.Trim(value, `"'`) == mark || scheme().MatchString(value) && strings.HasPrefix(behind, " "+mark): // it has been done
	case value == "", strings.Contains(separator, ":") && m[2] < 0 && isProse(value, behind):
	default:
		return m[4], m[4] + len(value)
	}
	return 0, 0
}

// isProse reports whether what follows a colon is a sentence and no value: a remark, or a word that others
// follow. What has a digit, is in quotes or is spelled as no word is a value.
func isProse(word, rest string) bool {
	if remark().MatchString(word) || !strings.ContainsFunc(word, isWordRune) {
		return true
	}
	next, _ := utf8.DecodeRuneInString(strings.TrimLeft(rest, " \t"))
	return plain().MatchString(word) && strings.HasPrefix(rest, " ") && unicode.IsLetter(next)
}

const (
	// longValue is how long a value must be to be replaced wherever it is found. Shorter ones are
	// replaced where they are words of their own, or they would take too much else with them.
	longValue = 6

	// shortValue is how long a value must be to be replaced at all.
	shortValue = 3
)

// Values returns a text in which secrets are replaced whose values are known. Short values that are
// numbers, or words that say yes or no, are no secrets.
func Values(text string, values []string) string {
	values = slices.Clone(values)
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) }) // one may be part of another
	for _, value := range values {
		switch {
		case len(value) >= longValue:
			text = strings.ReplaceAll(text, value, mark)
		case len(value) >= shortValue && !remark().MatchString(value) && strings.Trim(value, "0123456789") != "":
			text = replaceWord(text, value)
		}
	}
	return text
}

// replaceWord replaces a value where it is no part of a longer word.
func replaceWord(text, value string) string {
	var b strings.Builder
	for {
		i := strings.Index(text, value)
		if i < 0 {
			return b.String() + text
		}
		before, _ := utf8.DecodeLastRuneInString(text[:i])
		after, _ := utf8.DecodeRuneInString(text[i+len(value):])
		if isWordRune(before) || isWordRune(after) {
			_, size := utf8.DecodeRuneInString(text[i:])
			b.WriteString(text[:i+size])
			text = text[i+size:]
			continue
		}
		b.WriteString(text[:i] + mark)
		text = text[i+len(value):]
	}
}

func isWordRune(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_')
}
