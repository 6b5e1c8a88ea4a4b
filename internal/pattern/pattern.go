// Package pattern matches names against patterns with wildcards.
package pattern

import (
	"slices"
	"strings"
)

// Match reports whether a name fits a pattern, in which * stands for any characters
// and ? for one. It takes no longer than the product of their lengths.
func Match(pattern, name string) bool {
	p, n := []rune(pattern), []rune(name)
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

// Matcher returns what reports whether a name fits a pattern. It is quick for a pattern
// without * and ?, and for one with * at its end alone.
func Matcher(pattern string) func(name string) bool {
	switch wild := strings.IndexAny(pattern, "*?"); {
	case wild < 0:
		return func(name string) bool { return name == pattern }
	case pattern[wild:] == "*":
		return func(name string) bool { return strings.HasPrefix(name, pattern[:wild]) }
	}
	return func(name string) bool { return Match(pattern, name) }
}
