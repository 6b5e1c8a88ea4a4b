package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/toollist"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A Kind is a list that a server has.
type Kind struct {
	Method     string // requests it
	Array      string // member of the result
	Key        string // member that identifies an element
	Capability string // of servers that have such a list
	Note       string // notification of a change
}

var kinds = []*Kind{
	{protocol.MethodListTools, "tools", "name", "tools", protocol.NoteToolsChanged},
	{protocol.MethodListPrompts, "prompts", "name", "prompts", protocol.NotePromptsChanged},
	{protocol.MethodListResources, "resources", "uri", "resources", protocol.NoteResourcesChanged},
	{protocol.MethodListTemplates, "resourceTemplates", "uriTemplate", "resources", protocol.NoteResourcesChanged},
}

// notes are the notifications of changes.
var notes = []string{protocol.NoteToolsChanged, protocol.NotePromptsChanged, protocol.NoteResourcesChanged}

// discovery is what server/discover returns: kept like a list, it has no elements.
var discovery = &Kind{Method: protocol.MethodDiscover}

// KindOf returns the list that a method requests, or nil.
func KindOf(method string) *Kind {
	for _, k := range kinds {
		if k.Method == method {
			return k
		}
	}
	return nil
}

// keptKind is KindOf for all methods whose responses are kept.
func keptKind(method string) *Kind {
	if method == discovery.Method {
		return discovery
	}
	return KindOf(method)
}

// IsCached reports whether responses to a method are kept.
func IsCached(method string) bool { return keptKind(method) != nil }

// A List is a list of a server, all its pages as one. It does not change, so that a list that
// is the same as before is the same pointer.
type List struct {
	Kind     *Kind
	Elements []Element

	head, tail []byte // of the result, around the array
	ttl        time.Duration
	public     bool
	fetched    time.Time
	shared     bool // its changes are notified

	result func() json.RawMessage
	tools  func() *toollist.List

	mu      sync.Mutex
	derived map[any]*List // see Derived; guarded by mu
	size    int           // about how many bytes derived has; guarded by mu
}

// Limits of lists that are derived from one. Beyond them all are forgotten, and made again.
const (
	maxDerived      = 64
	maxDerivedBytes = 16 << 20
	elementBytes    = 300 // about how much an element takes beside its text
)

// An Element is one of the elements of a list.
type Element struct {
	Key  string
	Text json.RawMessage // as it came
}

// newList reads a result, which it keeps.
func newList(k *Kind, result json.RawMessage) *List {
	l := &List{Kind: k, head: result, ttl: ttlOf(result), public: string(dragoman.Member(result, "cacheScope")) == `"public"`, fetched: time.Now()}
	l.result = func() json.RawMessage { return result }
	for name, f := range dragoman.Fields(result) {
		if name != k.Array {
			continue
		}
		l.Elements, l.head, l.tail = nil, result[:f.Start], result[f.End:]
		for _, text := range dragoman.Items(result[f.Start:f.End]) {
			l.Elements = append(l.Elements, Element{dragoman.MemberText(text, k.Key), text})
		}
	}
	l.prepare()
	return l
}

func (l *List) prepare() {
	l.tools = sync.OnceValue(func() *toollist.List {
		ttl := l.ttl
		if l.shared {
			ttl = toollist.MaxAge
		}
		return toollist.New(func(yield func(string, []byte) bool) {
			for _, e := range l.Elements {
				if !yield(e.Key, e.Text) {
					return
				}
			}
		}, ttl, l.fetched)
	})
}

// Derived returns a list of what becomes of the elements; those that become the zero Element are
// left out. It is kept with the list, for those who ask for one by the same value again.
func (l *List) Derived(by any, becomes func(Element) Element) *List {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d := l.derived[by]; d != nil {
		return d
	}
	d, size := &List{Kind: l.Kind, head: l.head, tail: l.tail, ttl: l.ttl, public: l.public, fetched: l.fetched, shared: l.shared}, 0
	for _, e := range l.Elements {
		before := e.Text
		if e = becomes(e); e.Text == nil {
			continue
		}
		d.Elements = append(d.Elements, e)
		if size += elementBytes; &e.Text[0] != &before[0] {
			size += len(e.Text)
		}
	}
	d.result = func() json.RawMessage {
		out := append(slices.Clone(d.head), '[')
		for i, e := range d.Elements {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(out, e.Text...)
		}
		return append(append(out, ']'), d.tail...)
	}
	d.prepare()
	if l.derived == nil || len(l.derived) >= maxDerived || l.size+size > maxDerivedBytes {
		l.derived, l.size = make(map[any]*List), 0
	}
	l.derived[by] = d
	l.size += size
	return d
}

// Tools returns a list of tools in the form in which transports use it.
func (l *List) Tools() *toollist.List { return l.tools() }

// equals reports whether a result is that of the list.
func (l *List) equals(result []byte) bool { return l != nil && bytes.Equal(l.result(), result) }

// array returns the elements as the server sent them, of a list that is not derived.
func (l *List) array() []byte {
	result := l.result()
	return result[len(l.head) : len(result)-len(l.tail)]
}

// ttlOf returns how long a result is valid, as it declares.
func ttlOf(result json.RawMessage) time.Duration {
	ms, err := strconv.ParseFloat(string(dragoman.Member(result, "ttlMs")), 64)
	if err != nil || ms <= 0 {
		return 0
	}
	return time.Duration(min(ms, float64(24*time.Hour/time.Millisecond))) * time.Millisecond
}

// MetaCached marks the last known list of a server that is unavailable.
const MetaCached = "dragoman/cached"

// An Offer is a list as a caller gets it now.
type Offer struct {
	*List
	TTL    time.Duration // negative if the list is returned as the server sent it
	Cached bool          // the server is unavailable, and this is its last known list
}

// Reply returns a response with the list.
func (o Offer) Reply(req *dragoman.Message) (*dragoman.Message, error) {
	resp, err := req.Reply(o.result())
	switch {
	case err != nil:
		return nil, err
	case o.Cached:
		return resp.Edit().Set("ttlMs", []byte("0")).SetMeta(MetaCached, []byte("true")).Message()
	case o.TTL >= 0:
		return resp.Edit().Set("ttlMs", strconv.AppendInt(nil, o.TTL.Milliseconds(), 10)).Message()
	}
	return resp, nil
}

// collect returns the result that all pages of a list make.
func collect(k *Kind, pages iter.Seq2[*dragoman.Message, error]) (json.RawMessage, error) {
	var (
		first  *dragoman.Message
		merged = []byte("[")
	)
	for resp, err := range pages {
		if err != nil {
			return nil, err
		}
		if first == nil {
			first = resp
		}
		for _, element := range dragoman.Items(resp.Get(k.Array)) {
			if len(merged) > 1 {
				merged = append(merged, ',')
			}
			merged = append(merged, element...)
		}
		if len(merged) > MaxBytes {
			return nil, fmt.Errorf("the list has more than %d bytes", MaxBytes)
		}
	}
	whole, err := first.Edit().Set(k.Array, append(merged, ']')).Drop("nextCursor").Message()
	if err != nil {
		return nil, fmt.Errorf("the list cannot be read: %w", err)
	}
	return slices.Clone(whole.Result()), nil
}

// orNone is collect for a list that the server may not have: then it has no elements.
func orNone(k *Kind, result json.RawMessage, err error) (json.RawMessage, error) {
	if e, ok := errors.AsType[*dragoman.Error](err); ok && e.Code == protocol.CodeMethodNotFound {
		return json.RawMessage(`{"resultType":"complete","` + k.Array + `":[]}`), nil
	}
	return result, err
}
