package mux

import (
	"bytes"
	"regexp"

	"github.com/dragoman-mcp/dragoman"
)

// firstID and lastID find the id of an answer of which only the ends were
// kept. Servers write it before the result or behind it. A text that begins or
// ends so has the id as a member of the envelope: inside a string the quotes
// would be escaped, and inside the result more braces would follow.
var (
	firstID = regexp.MustCompile(`^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d+)\s*,`)
	lastID  = regexp.MustCompile(`,\s*"id"\s*:\s*(\d+)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)
)

// answerID returns the id of an answer from its head and tail.
func answerID(head, tail []byte) dragoman.ID {
	m := firstID.FindSubmatch(head)
	if m == nil {
		m = lastID.FindSubmatch(bytes.TrimRight(tail, "\r\n"))
	}
	if m == nil {
		return dragoman.ID{}
	}
	id, _ := dragoman.ParseID(m[1])
	return id
}
