// Package anchor computes the anchors of headings in the documentation, as the site that hosts
// the sources does.
package anchor

import (
	"fmt"
	"strings"
	"unicode"
)

// A Page is how often the headings of one page have had a name. It is made with make.
type Page map[string]int

// Name returns the anchor of the next heading.
func (p Page) Name(heading string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(heading))
	n := p[name]
	p[name]++
	if n > 0 {
		return fmt.Sprintf("%s-%d", name, n)
	}
	return name
}
