// Package pattern matches names against patterns with wildcards.
package pattern

import (
	"slices"
	"strings"
)

// Match reports whether a name fits a pattern, in which * stands for any characters
// and ? for one. It takes no longer than the product of their lengths, and next to no time
// for a pattern without them, or with * at its end alone.
func Match(pattern, name string) bool {
	wild := strings.IndexAny(pattern, "*?")
	switch {
	case wild < 0:
		return name == pattern
	case !strings.HasPrefix(name, pattern[:wild]):
		return false
	case pattern[wild:] == "*":
		return true
	}
	p, n := []rune(pattern[wild:]), []rune(name[wild:])
	star, from := -1, 0 // the last *, and where in the name it stops for now
	i, j := 0, 0
	for j < len(n) {
		switch {
		case i < len(p) && p[i] == '*':
			star, from = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == n[j]):
			i++
			j++
		case star >= 0:
			from++
			i, j = star+1, from
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}

// Any reports whether a name fits one of the patterns.
func Any(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return Match(p, name) })
}

// Matcher returns what reports whether a name fits a pattern.
func Matcher(pattern string) func(name string) bool {
	return func(name string) bool { return Match(pattern, name) }
}
