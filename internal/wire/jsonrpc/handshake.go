package jsonrpc

import (
	"sync"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A handshakeBarrier keeps requests and notifications in order around the
// handshake: what comes behind initialize is not looked at before that has been
// answered, and what comes behind notifications/initialized not before that has
// been taken. A client may send them all at once, and a server may insist on the
// order.
type handshakeBarrier struct {
	requests *Requests // is not idle while the barrier is up

	mu     sync.Mutex
	active bool
	list   []heldMessage
	bytes  int // of list
}

type heldMessage struct {
	m  *dragoman.Message
	in *batchReply
}

// isHandshake reports whether what comes behind m has to wait for it.
func isHandshake(m *dragoman.Message) bool {
	return m.Method() == protocol.MethodInitialize || m.Method() == protocol.NoteInitialized
}

// hold keeps m if the barrier is up, and reports whether it did, or that there is no
// room for it. If the barrier is down, m may continue; if others have to wait for m, the
// barrier is up then.
func (b *handshakeBarrier) hold(m *dragoman.Message, in *batchReply) (held, full bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.active {
		if b.active = isHandshake(m); b.active {
			b.requests.Enter()
		}
		return false, false
	}
	if n := len(b.list); n > 0 && (n >= MaxNotes || b.bytes+m.Len() > MaxNoteBytes) {
		return false, true
	}
	if in != nil && m.Kind() == dragoman.Request {
		in.expect()
	}
	b.list = append(b.list, heldMessage{m, in})
	b.bytes += m.Len()
	return true, false
}

// next returns what was held first, or takes the barrier down.
func (b *handshakeBarrier) next() (heldMessage, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.list) == 0 {
		b.active, b.list = false, nil
		b.requests.Leave()
		return heldMessage{}, false
	}
	h := b.list[0]
	b.list = b.list[1:]
	b.bytes -= h.m.Len()
	return h, true
}

// releaseHeld processes what waited for m, up to the next that others wait for.
func (c *Conn) releaseHeld(m *dragoman.Message) {
	if !isHandshake(m) {
		return
	}
	for {
		h, ok := c.barrier.next()
		if !ok {
			return
		}
		c.workers.do(c.process(h.m, h.in))
		if h.in != nil && h.m.Kind() == dragoman.Request {
			h.in.done(nil) // what hold made the batch expect
		}
		if isHandshake(h.m) {
			return
		}
	}
}
