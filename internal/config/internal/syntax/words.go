package syntax

import (
	"fmt"
	"strings"
	"unicode"
)

// maxEdits is how far a word may be from the one that was meant.
const maxEdits = 2

// DidYouMean returns a hint with the nearest word of the list, or "" if all differ
// by more than maxEdits letters, or by half of them. Case, _ and - do not count.
func DidYouMean(word string, list []string) (hint string) {
	w, least := Plain(word), maxEdits+1
	for _, other := range list {
		o := Plain(other)
		if d := edits(w, o, maxEdits); d < least && 2*d < max(len(w), len(o)) {
			hint, least = fmt.Sprintf("did you mean %q?", other), d
		}
	}
	return hint
}

var separators = strings.NewReplacer("_", "", "-", "")

// Plain returns a word without what does not matter: upper case, _ and -.
func Plain(word string) string { return strings.ToLower(separators.Replace(word)) }

// edits is how many letters must be put in, left out, replaced or swapped with their
// neighbour to make b of a, or something over most.
func edits(a, b string, most int) int {
	for a != "" && b != "" && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	switch {
	case a == "" || b == "":
		return len(a) + len(b)
	case most == 0:
		return 1
	}
	least := min(edits(a[1:], b, most-1), edits(a, b[1:], most-1), edits(a[1:], b[1:], most-1))
	if len(a) > 1 && len(b) > 1 && a[0] == b[1] && a[1] == b[0] {
		least = min(least, edits(a[2:], b[2:], most-1))
	}
	return 1 + least
}

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
