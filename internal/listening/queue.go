package listening

import (
	"sync"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// MaxWaiting is how many changes a Queue holds.
const MaxWaiting = 4096

// A Queue holds changes until somebody is told of them. One that waits already takes
// the place of the older: who is told looks at what changed after both.
type Queue struct {
	mu      sync.Mutex
	notes   []*dragoman.Message // guarded by mu
	at      map[change]int      // where each stands in notes; guarded by mu
	dropped int                 // guarded by mu
}

// A change is what two notifications of it have in common: about is the resource or
// the task.
type change struct{ method, about string }

func changeOf(note *dragoman.Message) change {
	if note.Method() == protocol.NoteTasks {
		return change{note.Method(), string(note.Get("taskId"))}
	}
	return change{note.Method(), note.URI()}
}

// Put adds a change. It reports whether there was room for it.
func (q *Queue) Put(note *dragoman.Message) bool {
	c := changeOf(note)
	q.mu.Lock()
	defer q.mu.Unlock()
	i, waits := q.at[c]
	switch {
	case waits:
		q.notes[i] = note
	case len(q.notes) >= MaxWaiting:
		q.dropped++
		return false
	default:
		if q.at == nil {
			q.at = make(map[change]int)
		}
		q.at[c] = len(q.notes)
		q.notes = append(q.notes, note)
	}
	return true
}

// Take takes all out, in their order.
func (q *Queue) Take() []*dragoman.Message {
	q.mu.Lock()
	defer q.mu.Unlock()
	notes := q.notes
	q.notes, q.at = nil, nil
	return notes
}

// Dropped returns how many changes found no room.
func (q *Queue) Dropped() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}
