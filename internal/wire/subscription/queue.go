package subscription

import (
	"sync"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// MaxWaiting is how many changes a queue holds.
const MaxWaiting = 4096

// A queue holds changes until they are delivered. A newer one replaces an older one of
// the same subject.
type queue struct {
	mu    sync.Mutex
	notes []*dragoman.Message // guarded by mu
	at    map[change]int      // index of each in notes; guarded by mu
	lost  int                 // guarded by mu
}

// A change identifies what a notification reports: subject is the resource or the task.
type change struct{ method, subject string }

func changeOf(note *dragoman.Message) change {
	if note.Method() == protocol.NoteTasks {
		return change{note.Method(), string(note.Get("taskId"))}
	}
	return change{note.Method(), note.URI()}
}

// put adds a change. It reports whether there was room for it.
func (q *queue) put(note *dragoman.Message) bool {
	c := changeOf(note)
	q.mu.Lock()
	defer q.mu.Unlock()
	i, waits := q.at[c]
	switch {
	case waits:
		q.notes[i] = note
	case len(q.notes) >= MaxWaiting:
		q.lost++
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

// take removes and returns all, in order.
func (q *queue) take() []*dragoman.Message {
	q.mu.Lock()
	defer q.mu.Unlock()
	notes := q.notes
	q.notes, q.at = nil, nil
	return notes
}

// dropped returns how many changes did not fit.
func (q *queue) dropped() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lost
}
