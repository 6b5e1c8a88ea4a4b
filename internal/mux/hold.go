package mux

import (
	"sync"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A hold keeps requests and notifications in order around the handshake: what
// comes behind initialize is not looked at before that has been answered, and
// what comes behind notifications/initialized not before that has been taken.
// A client may send them all at once, and a server may insist on the order.
type hold struct {
	served *served // is not idle while the hold is on

	mu     sync.Mutex
	active bool
	kept   []kept
}

type kept struct {
	m  *dragoman.Message
	in *answers
}

// begins tells whether what comes behind m has to wait for it.
func begins(m *dragoman.Message) bool {
	return m.Method() == protocol.MethodInitialize || m.Method() == protocol.NoteInitialized
}

// keep keeps m if the hold is on. Otherwise m may go on, and turns it on if
// what comes behind it has to wait.
func (h *hold) keep(m *dragoman.Message, in *answers) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.active {
		if h.active = begins(m); h.active {
			h.served.enter()
		}
		return false
	}
	if in != nil && m.Kind() == dragoman.Request {
		in.expect()
	}
	h.kept = append(h.kept, kept{m, in})
	return true
}

// full tells whether too much is kept.
func (h *hold) full() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.kept) >= maxNotes
}

// next returns what was kept first, or turns the hold off.
func (h *hold) next() (kept, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.kept) == 0 {
		h.active, h.kept = false, nil
		h.served.leave()
		return kept{}, false
	}
	k := h.kept[0]
	h.kept = h.kept[1:]
	return k, true
}

// release lets go on what waited for m, up to the next that others wait for.
func (c *Conn) release(m *dragoman.Message) {
	if !begins(m) {
		return
	}
	for {
		k, ok := c.hold.next()
		if !ok {
			return
		}
		c.workers.do(c.goOn(k.m, k.in))
		if k.in != nil && k.m.Kind() == dragoman.Request {
			k.in.done(nil) // what keep made the batch expect
		}
		if begins(k.m) {
			return
		}
	}
}
