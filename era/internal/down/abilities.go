package down

import (
	"bytes"
	"encoding/json"
	"sync"

	"github.com/dragoman-mcp/dragoman/era/internal/adapt"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// maxKinds is how many spellings of capabilities are remembered, and maxKindSize
// how long one may be.
const maxKinds, maxKindSize = 256, 4 << 10

// A kind is what clients with the same capabilities have in common.
type kind struct {
	caps string // as a legacy server is told, in canonical form
	can  protocol.Abilities
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
	can, err := protocol.AbilitiesOf(caps)
	if err != nil {
		return nil, err
	}
	told := adapt.Route{Client: protocol.Latest, Server: protocol.LatestLegacy}.ClientCapabilities(caps)
	text, err := canonical(told)
	return &kind{string(text), can}, err
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
