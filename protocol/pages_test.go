package protocol_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A pager answers by cursor, as JSON text; "" is the first page. An answer that begins
// with a minus sign is an error code.
type pager map[string]string

func (p pager) ask(req *dragoman.Message) (*dragoman.Message, error) {
	text, ok := p[string(req.Get("cursor"))]
	var code int
	switch _, err := fmt.Sscan(text, &code); {
	case !ok:
		return nil, errors.New("nobody gave the cursor " + string(req.Get("cursor")))
	case err == nil:
		return req.Fail(&dragoman.Error{Code: code, Message: "no"}), nil
	}
	return req.Reply(json.RawMessage(text))
}

func TestPagesOfAList(t *testing.T) {
	tests := map[string]struct {
		pages pager
		want  string // what the pages say
		err   string
	}{
		"one page":                         {pager{"": `{"n":1}`}, "1", ""},
		"null is the end":                  {pager{"": `{"n":1,"nextCursor":null}`}, "1", ""},
		"in order":                         {pager{"": `{"n":1,"nextCursor":"a"}`, `"a"`: `{"n":2,"nextCursor":"b"}`, `"b"`: `{"n":3}`}, "123", ""},
		"a cursor passes as it is":         {pager{"": `{"n":1,"nextCursor":"\u0061"}`, `"\u0061"`: `{"n":2}`}, "12", ""},
		"an empty cursor is one":           {pager{"": `{"n":1,"nextCursor":""}`, `""`: `{"n":2,"nextCursor":"b"}`, `"b"`: `{"n":3}`}, "123", ""},
		"an empty cursor starts over":      {pager{"": `{"n":1,"nextCursor":""}`, `""`: `{"n":1,"nextCursor":""}`}, "1", ""},
		"it does so behind the last page":  {pager{"": `{"n":1,"nextCursor":"a"}`, `"a"`: `{"n":2,"nextCursor":""}`, `""`: `{"n":1,"nextCursor":"a"}`}, "12", ""},
		"an empty cursor is refused":       {pager{"": `{"n":1,"nextCursor":""}`, `""`: `-32602`}, "1", ""},
		"an empty cursor fails":            {pager{"": `{"n":1,"nextCursor":""}`, `""`: `-32603`}, "1", "no"},
		"a circle":                         {pager{"": `{"n":1,"nextCursor":"a"}`, `"a"`: `{"n":2,"nextCursor":"a"}`}, "12", "circle"},
		"an error of the server":           {pager{"": `-32601`}, "", "no"},
		"an error of the server on page 2": {pager{"": `{"n":1,"nextCursor":"a"}`, `"a"`: `-32602`}, "1", "no"},
		"no way to the server":             {pager{}, "", "nobody gave"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			req, err := dragoman.NewRequest(dragoman.IntID(1), protocol.MethodListTools, nil)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			var failed error
			for page, err := range protocol.Pages(req, test.pages.ask) {
				if failed != nil {
					t.Fatal("it continues after an error")
				}
				if failed = err; err == nil {
					got.Write(page.Get("n"))
				}
			}
			if got.String() != test.want || (failed == nil) != (test.err == "") || failed != nil && !strings.Contains(failed.Error(), test.err) {
				t.Errorf("got the pages %q and the error %v, want %q and %q", got.String(), failed, test.want, test.err)
			}
		})
	}
}

func TestPagesOfAListThatNeverEndsAreGivenUp(t *testing.T) {
	req, err := dragoman.NewRequest(dragoman.IntID(1), protocol.MethodListTools, map[string]string{"x": "y"})
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	var last error
	for _, err := range protocol.Pages(req, func(req *dragoman.Message) (*dragoman.Message, error) {
		if asked++; string(req.Get("x")) != `"y"` {
			t.Errorf("page %d is asked for with %s", asked, req.Params())
		}
		return req.Reply(map[string]int{"nextCursor": asked})
	}) {
		last = err
	}
	if asked != protocol.MaxPages || !errors.Is(last, protocol.ErrEndless) {
		t.Errorf("%d pages were asked for, with the error %v", asked, last)
	}
}

func TestNoPageIsAskedForThatNobodyWants(t *testing.T) {
	req, err := dragoman.NewRequest(dragoman.IntID(1), protocol.MethodListTools, nil)
	if err != nil {
		t.Fatal(err)
	}
	for page, err := range protocol.Pages(req, pager{"": `{"n":1,"nextCursor":"a"}`}.ask) {
		if page == nil || err != nil {
			t.Errorf("got %v, %v", page, err)
		}
		break
	}
}
