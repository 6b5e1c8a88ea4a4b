package jsonrpc

import (
	"bytes"
	"math/rand/v2"
	"strconv"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/lazy"
)

// idBits is how many bits of an id count. The one above them is always set: ids
// lie beyond those of others, which count from 1, and all have ten digits. With
// it they fit into an int32, which is all that some servers have for them.
const idBits = 30

// A counter makes ids, which repeat after 2³⁰.
type counter struct{ last atomic.Uint32 }

func (c *counter) next() int64 { return 1<<idBits | int64(c.last.Add(1)&(1<<idBits-1)) }

// ids counts for all conversations of the process. It begins at a random
// number, so that two processes that use one server hardly ever have the same ids.
var ids = func() *counter {
	c := new(counter)
	c.last.Store(rand.Uint32()) // #nosec G404 -- ids are no secret, and belong to one conversation
	return c
}()

// NewID returns an id for a request of ours that is none of those in open. No other
// conversation of this process uses it: there are servers that send each answer to
// all of their clients, and another that had asked something under the same
// id would take it for its own.
func NewID[Call any](open map[int64]Call) int64 {
	for {
		id := ids.next()
		if _, used := open[id]; !used {
			return id
		}
	}
}

// number reads an id or token of ours.
func number(text []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(text), 10, 64)
	return n, err == nil
}

// IsBatch reports whether text begins as an array, and not as one message.
func IsBatch(text []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("["))
}

// How a message of which only the ends were kept may begin and end. Most
// writers put the id first, some last, and some behind the method. It is a member
// of the envelope then: inside a string the quotes would be escaped, and inside
// params or result more braces would follow.
const (
	textPattern    = `"(?:[^"\\]|\\.)*"`
	versionPattern = `"jsonrpc"\s*:\s*"2\.0"`
	idPattern      = `"id"\s*:\s*(` + textPattern + `|-?\d+)`
)

var (
	beginning   = lazy.Regexp(`^\s*\{\s*(?:` + versionPattern + `\s*,\s*)?(?:` + idPattern + `\s*,\s*)?"(method|result|error)"`)
	afterMethod = lazy.Regexp(`^\s*:\s*` + textPattern + `\s*,\s*(?:` + versionPattern + `\s*,\s*)?` + idPattern)
	ending      = lazy.Regexp(`,\s*` + idPattern + `\s*(?:,\s*` + versionPattern + `\s*)?\}\s*$`)
)

// Oversize returns the kind and id of a message of which only head and tail were kept.
// The kind is Invalid if they do not show it. A message that has a method, and no id
// where one is looked for, is a notification.
func Oversize(head, tail []byte) (kind dragoman.Kind, id dragoman.ID) {
	first := beginning().FindSubmatch(head)
	if first == nil {
		return dragoman.Invalid, id
	}
	text, isMethod := first[1], string(first[2]) == "method"
	if text == nil && isMethod {
		if next := afterMethod().FindSubmatch(head[len(first[0]):]); next != nil {
			text = next[1]
		}
	}
	if text == nil {
		if last := ending().FindSubmatch(tail); last != nil {
			text = last[1]
		}
	}
	if text == nil && isMethod {
		return dragoman.Notification, id
	}
	id, ok := dragoman.ParseID(text)
	switch {
	case !ok:
		return dragoman.Invalid, id
	case isMethod:
		return dragoman.Request, id
	}
	return dragoman.Response, id
}
