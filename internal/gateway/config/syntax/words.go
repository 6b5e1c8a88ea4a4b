package syntax

import (
	"slices"
	"strings"
	"unicode"

	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
)

// DidYouMean returns a hint with the nearest words of the list, or "" if none is near.
func DidYouMean(word string, list []string) string {
	return humanize.SuggestHint(word, slices.Values(list))
}

// Plain returns a word without what does not matter: upper case, _ and -.
func Plain(word string) string { return humanize.Fold(word) }

// Quoted returns how long the text in quotes is with which s begins, or -1 if it has
// no end. In double quotes, a backslash goes with what follows it.
func Quoted(s string) int {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && s[0] == '"':
			i++
		case s[i] == s[0]:
			return i + 1
		}
	}
	return -1
}

// Clip shortens a text for a message.
func Clip(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}

// Printable makes text safe for a terminal and a log.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return unicode.ReplacementChar
		}
		return r
	}, s)
}
