package jsonrpc

import (
	"bytes"
	"context"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// MaxNotes and MaxNoteBytes bound the notifications that wait for a peer that is slow
// to take them. A single one may be larger.
const (
	MaxNotes     = 1024
	MaxNoteBytes = 4 << 20
)

// A Queue holds notifications for a peer that takes them in order, each with a tag.
// Its owner locks.
type Queue[T comparable] struct {
	list  []queued[T]
	bytes int
}

type queued[T comparable] struct {
	tag  T
	note *dragoman.Message
}

// Put adds a notification. When there is no room, progress replaces the last one if
// that is progress of the same token and tag, a repetition of the last one is left
// out, and all others are dropped; then it returns false.
func (q *Queue[T]) Put(note *dragoman.Message, tag T) bool {
	n := len(q.list)
	if n == 0 || n < MaxNotes && q.bytes+note.Len() <= MaxNoteBytes {
		q.list = append(q.list, queued[T]{tag, note})
		q.bytes += note.Len()
		return true
	}
	last := &q.list[n-1]
	switch {
	case last.tag != tag:
		return false
	case note.Method() == protocol.NoteProgress && last.note.Method() == protocol.NoteProgress &&
		bytes.Equal(note.Get("progressToken"), last.note.Get("progressToken")):
		q.bytes += note.Len() - last.note.Len()
		last.note = note
		return true
	}
	return bytes.Equal(note.Bytes(), last.note.Bytes())
}

// Next takes the first notification.
func (q *Queue[T]) Next() (note *dragoman.Message, tag T, ok bool) {
	if len(q.list) == 0 {
		return nil, tag, false
	}
	first := q.list[0]
	q.list[0] = queued[T]{}
	if q.list = q.list[1:]; len(q.list) == 0 {
		q.list = nil
	}
	q.bytes -= first.note.Len()
	return first.note, first.tag, true
}

// Len returns how many notifications wait.
func (q *Queue[T]) Len() int { return len(q.list) }

// Notify gives peer a notification, and logs what comes of it. One that panics has at
// least been told.
func Notify(ctx context.Context, peer dragoman.Peer, note *dragoman.Message, log *slog.Logger) {
	_ = Deliver(ctx, peer, note, log) // it is logged
}

// Deliver is Notify that returns the error of peer too.
func Deliver(ctx context.Context, peer dragoman.Peer, note *dragoman.Message, log *slog.Logger) (err error) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("panic while taking a notification", "method", note.Method(), "panic", p, "stack", string(debug.Stack()))
		}
	}()
	if err = peer.Notify(ctx, note); err != nil {
		log.Debug("notification not taken", "method", note.Method(), "error", err)
	}
	return err
}

// An Inbox delivers notifications in order, each with a tag, on a goroutine that ends
// when there are none: a peer that is slow to take them holds up nobody else.
type Inbox[T comparable] struct {
	deliver func(note *dragoman.Message, tag T)

	mu      sync.Mutex
	notes   Queue[T]
	closed  bool
	running chan struct{} // closed when the goroutine has ended; nil if there is none
}

// NewInbox returns an Inbox whose notifications are given to deliver, one at a time.
func NewInbox[T comparable](deliver func(note *dragoman.Message, tag T)) *Inbox[T] {
	return &Inbox[T]{deliver: deliver}
}

// Put queues a notification. It reports whether there was room.
func (b *Inbox[T]) Put(note *dragoman.Message, tag T) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || !b.notes.Put(note, tag) {
		return false
	}
	if b.running == nil {
		b.running = make(chan struct{})
		// Ends when nothing is left to deliver. Wait waits for it, but not for
		// long: the peer that is told may be the one that waits.
		go b.run(b.running)
	}
	return true
}

func (b *Inbox[T]) run(ended chan struct{}) {
	for {
		b.mu.Lock()
		note, tag, ok := b.notes.Next()
		if !ok {
			b.running = nil
			close(ended)
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
		b.deliver(note, tag)
	}
}

// Close takes no more. What waits is still delivered.
func (b *Inbox[T]) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}

// Wait returns when everything has been delivered, or after limit.
func (b *Inbox[T]) Wait(limit time.Duration) {
	b.mu.Lock()
	ended := b.running
	b.mu.Unlock()
	if ended != nil {
		wait(ended, nil, limit)
	}
}

// wait returns when one of the channels is closed, or after limit.
func wait(done, stop <-chan struct{}, limit time.Duration) {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-done:
	case <-stop:
	case <-t.C:
	}
}
