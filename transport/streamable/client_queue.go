package streamable

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Notifications that wait, in either direction, are at most so many and have so
// many bytes. A single one may be larger.
const (
	clientMaxNotes     = 1024
	clientMaxNoteBytes = 4 << 20
)

// A clientNote is a notification that waits, for the server or for a peer here.
type clientNote struct {
	m       *dragoman.Message
	seq     uint64         // its number among those for the server
	session *clientSession // in which it must be sent; nil: whatever is current
	call    *clientCall    // to whom it belongs; nil: the local peer
}

// clientNotes is a list of notifications with a limit. Its owner locks.
type clientNotes struct {
	list  []clientNote
	bytes int
}

// put adds a notification. When there is no room, progress replaces the last one
// if that is progress of the same call; otherwise put returns false.
func (q *clientNotes) put(n clientNote) bool {
	size := n.m.Len()
	if len(q.list) == 0 || len(q.list) < clientMaxNotes && q.bytes+size <= clientMaxNoteBytes {
		q.list = append(q.list, n)
		q.bytes += size
		return true
	}
	last := &q.list[len(q.list)-1]
	if n.m.Method() == protocol.NoteProgress && last.m.Method() == protocol.NoteProgress &&
		bytes.Equal(n.m.Get("progressToken"), last.m.Get("progressToken")) {
		q.bytes += size - last.m.Len()
		n.seq = last.seq
		*last = n
		return true
	}
	return false
}

// next takes the first notification.
func (q *clientNotes) next() (clientNote, bool) {
	if len(q.list) == 0 {
		return clientNote{}, false
	}
	n := q.list[0]
	q.list[0] = clientNote{}
	if q.list = q.list[1:]; len(q.list) == 0 {
		q.list = nil
	}
	q.bytes -= n.m.Len()
	return n, true
}

// A clientQueue holds notifications for the server. One goroutine sends them, in
// order, while there are any.
type clientQueue struct {
	mu      sync.Mutex
	notes   clientNotes
	sending bool
	last    uint64 // the number of the last that was put
	done    uint64 // the number of the last that was sent
	ended   error  // why no more may be put
	waiters []clientWaiter

	// cut is whether the last cancel was given up: then the next is not insisted
	// on, so that they do not pile up. The goroutine that sends owns it.
	cut bool
}

type clientWaiter struct {
	mark uint64
	done chan error
}

// send queues a notification for the server. It returns a mark to wait for.
func (c *clientConn) send(note *dragoman.Message, s *clientSession) (uint64, error) {
	if note.Len() > c.opts.limits.Message() {
		return 0, dragoman.ErrTooLarge
	}
	q := &c.out
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended != nil {
		return 0, q.ended
	}
	if !q.notes.put(clientNote{m: note, seq: q.last + 1, session: s}) {
		c.lost.Add(1)
		if m := note.Method(); m == protocol.NoteProgress || m == protocol.NoteMessage {
			return q.last, nil
		}
		return 0, dragoman.ErrOverloaded
	}
	q.last = q.notes.list[len(q.notes.list)-1].seq
	if !q.sending && !c.start(c.sendAll) {
		q.notes, q.last = clientNotes{}, q.done
		return 0, c.why()
	}
	q.sending = true
	return q.last, nil
}

// sendAll sends until nothing is left.
func (c *clientConn) sendAll() {
	q := &c.out
	for {
		q.mu.Lock()
		n, ok := q.notes.next()
		if !ok {
			q.sending = false
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()
		err := c.sendOne(n)
		if err != nil {
			c.log.Debug("notification not taken by the server", "method", n.m.Method(), "error", err)
		}
		q.mu.Lock()
		q.done = n.seq
		q.wake(err)
		q.mu.Unlock()
	}
}

// sendOne sends a notification, in a new session if the old one is gone.
func (c *clientConn) sendOne(n clientNote) error {
	ctx := c.sending // what was queued before the end is still sent, for a while
	s := n.session
	if s == nil {
		s = c.session()
	}
	if n.m.Method() == protocol.NoteCancelled {
		return c.sendCancel(ctx, n.m, s)
	}
	err := c.tellServer(ctx, n.m, s)
	if !errors.Is(err, ErrSessionGone) {
		return err
	}
	if s, err = c.renew(ctx, s); err != nil {
		return err
	}
	return c.tellServer(ctx, n.m, s)
}

// sendCancel sends a cancel, again if the link breaks: who is cancelled would work
// on for nobody. That must not hold up the end of the conversation.
func (c *clientConn) sendCancel(ctx context.Context, note *dragoman.Message, s *clientSession) (err error) {
	if c.out.cut || c.ctx.Err() != nil {
		err = c.tellServer(ctx, note, s)
	} else {
		err = c.repeat(ctx, c.ctx, note, s)
	}
	_, c.out.cut = clientPassing(err)
	return err
}

// wake tells those who wait for what has been sent.
func (q *clientQueue) wake(err error) {
	kept := q.waiters[:0]
	for _, w := range q.waiters {
		if w.mark > q.done {
			kept = append(kept, w)
			continue
		}
		if w.mark == q.done {
			w.done <- err
		}
		close(w.done)
	}
	q.waiters = kept
}

// sent waits until what has the mark was sent, and returns why it failed.
func (q *clientQueue) sent(ctx context.Context, mark uint64) error {
	q.mu.Lock()
	if q.done >= mark {
		q.mu.Unlock()
		return nil
	}
	w := clientWaiter{mark, make(chan error, 1)}
	q.waiters = append(q.waiters, w)
	q.mu.Unlock()
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (q *clientQueue) close(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = err
}

// drain waits until nothing is left to send, or limit has passed. Then what is
// left is dropped.
func (q *clientQueue) drain(limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	q.mu.Lock()
	mark := q.last
	q.mu.Unlock()
	_ = q.sent(ctx, mark) // it was logged
	q.mu.Lock()
	defer q.mu.Unlock()
	q.notes = clientNotes{}
	q.done = q.last
	q.wake(q.ended)
}
