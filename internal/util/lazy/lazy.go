// Package lazy makes what is dear to make when it is first needed. Every start of the program pays for
// what packages make at once, and so does its guard.
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
