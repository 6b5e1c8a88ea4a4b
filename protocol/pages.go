package protocol

import (
	"errors"
	"fmt"
	"iter"

	"github.com/dragoman-mcp/dragoman"
)

// MaxPages is how many pages of a list are asked for.
const MaxPages = 1000

// ErrEndless says that a list has more than MaxPages pages, or that they go round in
// a circle.
var ErrEndless = errors.New("the list does not end")

// emptyCursor is a cursor as good as any. But some servers write it for the end, and
// take it for the beginning or refuse it.
const emptyCursor = `""`

// Pages yields the answers to a request for a list: to the request itself, and then
// to the same with the cursor that the page before has given, until a page gives none
// or null. Each is asked for when it is needed. An error is the last: that of ask,
// the server's as a *[dragoman.Error], or ErrEndless.
func Pages(req *dragoman.Message, ask func(req *dragoman.Message) (*dragoman.Message, error)) iter.Seq2[*dragoman.Message, error] {
	return func(yield func(*dragoman.Message, error) bool) {
		var cursor string
		seen := make(map[string]bool)
		for range MaxPages {
			resp, err := ask(req)
			switch {
			case err == nil && resp == nil:
				err = errors.New("no answer")
			case err == nil && resp.IsError():
				err = resp.RPCError()
			}
			if e, ok := errors.AsType[*dragoman.Error](err); ok && cursor == emptyCursor && e.Code == CodeInvalidParams {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			next := resp.Get("nextCursor")
			circle := seen[string(next)]
			if circle && cursor == emptyCursor {
				return // the beginning once more
			}
			if !yield(resp, nil) || next == nil || string(next) == "null" {
				return
			}
			if circle {
				yield(nil, fmt.Errorf("%w: its pages go round in a circle, the cursor %.40s comes again", ErrEndless, next))
				return
			}
			cursor = string(next)
			seen[cursor] = true
			if req, err = req.Edit().Set("cursor", next).Message(); err != nil {
				yield(nil, err)
				return
			}
		}
		yield(nil, fmt.Errorf("%w: it has more than %d pages", ErrEndless, MaxPages))
	}
}
