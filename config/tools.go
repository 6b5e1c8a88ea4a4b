package config

import "slices"

// Offers tells whether a tool of the server is offered, by the server's name for it.
func (t *Tools) Offers(name string) bool {
	is := func(pattern string) bool { return match(pattern, name) }
	return !slices.ContainsFunc(t.Exclude, is) && (len(t.Include) == 0 || slices.ContainsFunc(t.Include, is))
}

// match tells whether a name fits a pattern, in which * stands for any characters
// and ? for one. It takes no longer than the product of their lengths.
func match(pattern, name string) bool {
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
