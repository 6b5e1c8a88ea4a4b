package streamable

import (
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
)

// A clientInbox holds notifications that came outside of the stream of a call.
// One goroutine tells them, in order, while there are any: a peer that is slow
// to hear holds up no stream.
type clientInbox struct {
	mu     sync.Mutex
	notes  clientNotes
	closed bool
	telled chan struct{} // closed when the goroutine has ended; nil if there is none
}

// inform tells the local peer, or a call, in the background. When there is no
// room, the notification is dropped.
func (c *clientConn) inform(k *clientCall, note *dragoman.Message) {
	b := &c.in
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	if !b.notes.put(clientNote{m: note, call: k}) {
		c.lost.Add(1)
		c.log.Debug("notification dropped: the local peer is slow to hear", "method", note.Method())
		return
	}
	if b.telled == nil {
		b.telled = make(chan struct{})
		// Ends when nothing is left to tell. Close waits for it, but not long:
		// who is told may be the one who closes.
		go c.informAll(b.telled)
	}
}

func (c *clientConn) informAll(ended chan struct{}) {
	b := &c.in
	for {
		b.mu.Lock()
		n, ok := b.notes.next()
		if !ok {
			b.telled = nil
			close(ended)
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
		if n.call != nil {
			n.call.tell(n.m)
		} else {
			c.tell(c.ctx, c.local, n.m)
		}
	}
}

// close takes no more.
func (b *clientInbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}

// wait returns when everything has been told, or after limit.
func (b *clientInbox) wait(limit time.Duration) {
	b.mu.Lock()
	ended := b.telled
	b.mu.Unlock()
	if ended == nil {
		return
	}
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-ended:
	case <-t.C:
	}
}
