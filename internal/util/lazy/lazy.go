// Package lazy makes expensive values on first use, such as regular expressions. Every start
// of the program pays for what packages initialize, and so does each keeper of a child
// process.
package lazy

import (
	"regexp"
	"sync"
)

// Regexp returns what returns a regular expression, by any number of goroutines. It panics
// if the text is none.
func Regexp(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
