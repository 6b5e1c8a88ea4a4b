package mux

import (
	"bytes"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// maxNotes and maxNoteBytes bound the notifications that wait for one who is
// slow to take them. A single one may be larger.
const (
	maxNotes     = 1024
	maxNoteBytes = 4 << 20
)

// noteQueue holds notifications for somebody who takes them in order. Its
// owner locks.
type noteQueue struct {
	list  []*dragoman.Message
	bytes int
}

// put adds a notification. When there is no room, progress replaces the last
// one if that is progress of the same call too, a repetition of the last one is
// left out, and all others are dropped; then it returns false.
func (q *noteQueue) put(note *dragoman.Message) bool {
	n := len(q.list)
	if n == 0 || n < maxNotes && q.bytes+note.Len() <= maxNoteBytes {
		q.list = append(q.list, note)
		q.bytes += note.Len()
		return true
	}
	last := q.list[n-1]
	switch {
	case note.Method() == protocol.NoteProgress && last.Method() == protocol.NoteProgress &&
		bytes.Equal(note.Get("progressToken"), last.Get("progressToken")):
		q.bytes += note.Len() - last.Len()
		q.list[n-1] = note
	case bytes.Equal(note.Bytes(), last.Bytes()):
	default:
		return false
	}
	return true
}

// take empties the queue.
func (q *noteQueue) take() []*dragoman.Message {
	list := q.list
	*q = noteQueue{}
	return list
}
