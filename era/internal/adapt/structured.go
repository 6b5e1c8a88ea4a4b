package adapt

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"

	"github.com/dragoman-mcp/dragoman"
)

// toolResult adapts what a tool returned: blocks of content that the client's
// revision does not have, and structured content.
func (r Route) toolResult(e *dragoman.Edit, resp *dragoman.Message) {
	result := resp.Result()
	structured := r.changesStructured() && contains(result, pieceStructured)
	if !structured && !r.changesBlocks(result) {
		return
	}
	content := dragoman.Member(result, "content")
	now := mapped(content, r.embedding().block)
	if structured {
		value := dragoman.Member(result, "structuredContent")
		switch {
		case value == nil:
		case !r.Client.HasStructuredContent():
			e.Drop("structuredContent")
			now = withCopy(now, value)
		case !dragoman.IsObject(value):
			e.Set("structuredContent", wrapped(value))
		}
	}
	set(e, "content", content, now)
}

// wrapped returns structured content of any type as an object. The schema of
// its tool has been changed to fit, see objectSchema.
func wrapped(value []byte) []byte { return join(`{"result":`, value, `}`) }

// withCopy returns content with a text that says what structured content says,
// unless there is one.
func withCopy(content, structured []byte) []byte {
	if string(structured) == "null" {
		return content
	}
	want := decoded(structured)
	for _, block := range dragoman.Items(content) {
		if dragoman.MemberText(block, "type") != "text" {
			continue
		}
		s := strings.TrimSpace(dragoman.MemberText(block, "text"))
		if s == string(structured) {
			return content
		}
		if got := decoded([]byte(s)); got != nil && reflect.DeepEqual(got, want) {
			return content
		}
	}
	return appended(content, textBlock(string(structured)))
}

// decoded returns what JSON text says, or nil if it is none.
func decoded(data []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if d.Decode(&v) != nil || d.More() {
		return nil
	}
	return v
}
