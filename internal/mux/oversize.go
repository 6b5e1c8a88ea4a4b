package mux

import (
	"regexp"

	"github.com/dragoman-mcp/dragoman"
)

// How a message of which only the ends were kept may begin and end. Most
// writers put the id first, and some last. It is a member of the envelope then:
// inside a string the quotes would be escaped, and inside params or result more
// braces would follow.
const (
	aVersion = `"jsonrpc"\s*:\s*"2\.0"`
	anID     = `"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+)`
)

var (
	beginning = regexp.MustCompile(`^\s*\{\s*(?:` + aVersion + `\s*,\s*)?(?:` + anID + `\s*,\s*)?"(method|result|error)"`)
	ending    = regexp.MustCompile(`,\s*` + anID + `\s*(?:,\s*` + aVersion + `\s*)?\}\s*$`)
)

// Oversize tells what a message is from its head and tail. The kind is Invalid
// if that cannot be told.
func Oversize(head, tail []byte) (kind dragoman.Kind, id dragoman.ID) {
	first := beginning.FindSubmatch(head)
	if first == nil {
		return dragoman.Invalid, id
	}
	text := first[1]
	if text == nil {
		last := ending.FindSubmatch(tail)
		if last == nil {
			return dragoman.Invalid, id
		}
		text = last[1]
	}
	id, ok := dragoman.ParseID(text)
	switch {
	case !ok:
		return dragoman.Invalid, id
	case string(first[2]) == "method":
		return dragoman.Request, id
	}
	return dragoman.Response, id
}
