package toollist

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
)

// ErrNoTools says that an answer to tools/list has no list of tools in it.
var ErrNoTools = errors.New("the server's list of tools has no tools")

// A List is what a server has told one caller of its tools. It does not change.
type List struct {
	elements [][]byte // the tools, as they came
	size     int      // of elements, in bytes
	tools    map[string]*Tool
	public   bool          // for all callers
	ttl      time.Duration // for which the server says that it holds
	fetched  time.Time
}

// A Tool is one of them.
type Tool struct {
	Schema      json.RawMessage // inputSchema; nil if there is none
	Annotations json.RawMessage // nil if there are none

	once    sync.Once
	headers []ParamHeader
	err     error
}

// Headers returns the arguments that headers repeat, as [ParamHeaders] does.
func (t *Tool) Headers() ([]ParamHeader, error) {
	t.once.Do(func() { t.headers, t.err = ParamHeaders(t.Schema) })
	return t.headers, t.err
}

// Tool returns a tool by its name, or nil.
func (l *List) Tool(name string) *Tool { return l.tools[name] }

// All returns all tools with their names, in no order.
func (l *List) All() iter.Seq2[string, *Tool] { return maps.All(l.tools) }

// Names returns the names of all tools, in no order.
func (l *List) Names() iter.Seq[string] { return maps.Keys(l.tools) }

// Body returns the list as a result of tools/list, all pages in one.
func (l *List) Body() []byte {
	body := make([]byte, 0, l.size+len(l.elements)+len(`{"tools":[]}`))
	body = append(body, `{"tools":[`...)
	for i, tool := range l.elements {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, tool...)
	}
	return append(body, "]}"...)
}

func newList() *List { return &List{tools: make(map[string]*Tool), public: true, ttl: MaxAge} }

// New returns a list of tools by their names, which share their memory. It is valid for ttl from fetched on.
func New(tools iter.Seq2[string, []byte], ttl time.Duration, fetched time.Time) *List {
	l := &List{tools: make(map[string]*Tool), ttl: ttl, fetched: fetched}
	for name, tool := range tools {
		l.append(name, tool)
	}
	return l
}

// Of returns the list of a single tool, from another list.
func (l *List) Of(name string, tool *Tool) *List {
	return &List{tools: map[string]*Tool{name: tool}, ttl: l.ttl, fetched: l.fetched}
}

func (l *List) append(name string, tool []byte) {
	l.elements = append(l.elements, tool)
	l.size += len(tool)
	if name == "" {
		return
	}
	l.tools[name] = &Tool{Schema: dragoman.Member(tool, "inputSchema"), Annotations: dragoman.Member(tool, "annotations")}
}

// add takes one page. The list may not have more than limit bytes, if that is not
// zero.
func (l *List) add(page *dragoman.Message, limit int) error {
	text := page.Get("tools")
	if text == nil || text[0] != '[' {
		return ErrNoTools
	}
	if limit > 0 && l.size+len(text) > limit {
		return fmt.Errorf("%w: the list of tools has more than %d bytes", dragoman.ErrTooLarge, limit)
	}
	tools, err := dragoman.Elements(bytes.Clone(text))
	if err != nil {
		return err
	}
	for _, tool := range tools {
		l.append(dragoman.MemberText(tool, "name"), tool)
	}
	var ms int64
	_ = json.Unmarshal(page.Get("ttlMs"), &ms) // what cannot be read is as good as none
	l.ttl = min(l.ttl, time.Duration(max(0, min(ms, MaxAge.Milliseconds())))*time.Millisecond)
	l.public = l.public && bytes.Equal(page.Get("cacheScope"), []byte(`"public"`))
	return nil
}
