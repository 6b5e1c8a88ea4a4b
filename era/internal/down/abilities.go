package down

import (
	"encoding/json"
	"sync"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/adapt"
	"github.com/dragoman-mcp/dragoman/era/internal/rounds"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// maxKinds is how many spellings of capabilities are remembered, and maxKindSize
// how long one may be.
const maxKinds, maxKindSize = 256, 4 << 10

// A clientKind is what clients with the same capabilities have in common.
type clientKind struct {
	caps       string // as a legacy server is legacy, in canonical form
	extensions string // those among them
	can        protocol.Abilities
}

// clientKinds remembers the kinds of clients by the text of their capabilities.
type clientKinds struct {
	mu    sync.RWMutex
	known map[string]*clientKind
}

// of returns the kind of a client with these capabilities, an object.
func (k *clientKinds) of(caps json.RawMessage) (*clientKind, error) {
	k.mu.RLock()
	found := k.known[string(caps)]
	k.mu.RUnlock()
	if found != nil {
		return found, nil
	}
	made, err := newClientKind(caps)
	if err != nil || len(caps) > maxKindSize {
		return made, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil || len(k.known) >= maxKinds {
		k.known = make(map[string]*clientKind)
	}
	k.known[string(caps)] = made
	return made, nil
}

func newClientKind(caps json.RawMessage) (*clientKind, error) {
	can, err := protocol.AbilitiesOf(caps)
	if err != nil {
		return nil, err
	}
	legacy := adapt.Route{Client: protocol.Latest, Server: protocol.LatestLegacy}.ClientCapabilities(caps)
	text, err := rounds.Canonical(legacy)
	return &clientKind{string(text), string(dragoman.Member(text, "extensions")), can}, err
}
