package down

import (
	"bytes"
	"encoding/json"
	"sync"

	"github.com/dragoman-mcp/dragoman/era/internal/adapt"
	"github.com/dragoman-mcp/dragoman/internal/walk"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// maxKinds is how many spellings of capabilities are remembered, and maxKindSize
// how long one may be.
const maxKinds, maxKindSize = 256, 4 << 10

// A kind is what clients with the same capabilities have in common.
type kind struct {
	caps string // as a legacy server is told, in canonical form
	can  abilities
}

// abilities are what a client can be asked.
type abilities struct {
	form, url     bool // elicitation
	sampling      bool
	samplingTools bool
	roots         bool
}

// any reports whether there is something to be asked.
func (a abilities) any() bool { return a.form || a.url || a.sampling || a.roots }

// answers reports whether a question can be asked.
func (a abilities) answers(q *question) bool {
	switch q.method {
	case protocol.MethodListRoots:
		return a.roots
	case protocol.MethodCreateMessage:
		return a.sampling && (a.samplingTools || !q.tools)
	case protocol.MethodElicit:
		return q.url && a.url || !q.url && a.form
	}
	return false
}

// kinds remembers the kinds of clients by the text of their capabilities.
type kinds struct {
	mu    sync.RWMutex
	known map[string]*kind
}

// of returns the kind of a client with these capabilities, an object.
func (k *kinds) of(caps json.RawMessage) (*kind, error) {
	k.mu.RLock()
	found := k.known[string(caps)]
	k.mu.RUnlock()
	if found != nil {
		return found, nil
	}
	made, err := newKind(caps)
	if err != nil || len(caps) > maxKindSize {
		return made, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil || len(k.known) >= maxKinds {
		k.known = make(map[string]*kind)
	}
	k.known[string(caps)] = made
	return made, nil
}

func newKind(caps json.RawMessage) (*kind, error) {
	var c struct {
		Roots    json.RawMessage `json:"roots"`
		Sampling *struct {
			Tools json.RawMessage `json:"tools"`
		} `json:"sampling"`
		Elicitation *struct {
			Form json.RawMessage `json:"form"`
			URL  json.RawMessage `json:"url"`
		} `json:"elicitation"`
	}
	if err := json.Unmarshal(caps, &c); err != nil {
		return nil, err
	}
	k := &kind{can: abilities{roots: walk.IsObject(c.Roots), sampling: c.Sampling != nil}}
	k.can.samplingTools = c.Sampling != nil && walk.IsObject(c.Sampling.Tools)
	if e := c.Elicitation; e != nil {
		k.can.url = walk.IsObject(e.URL)
		k.can.form = walk.IsObject(e.Form) || !k.can.url // {} stands for forms
	}
	told := adapt.Route{Client: protocol.Latest, Server: protocol.LatestLegacy}.ClientCapabilities(caps)
	text, err := canonical(told)
	k.caps = string(text)
	return k, err
}

// canonical returns JSON text in the form in which equal values are equal texts:
// members are sorted, and numbers stay as they are spelt.
func canonical(text json.RawMessage) ([]byte, error) {
	var value any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		return nil, err
	}
	return json.Marshal(value)
}
