package tap

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman/internal/gateway/event"
)

// How much waits for who looks on.
const (
	MaxWaiting      = 4096     // messages
	MaxWaitingBytes = 32 << 20 // of these
)

// A Queue holds events for one who looks on. What finds it full is dropped and counted.
type Queue struct {
	server string        // whose; empty for all
	wake   chan struct{} // has room for one

	mu      sync.Mutex
	events  []Event // guarded by mu
	bytes   int     // guarded by mu
	dropped int     // since the last event that was taken in; guarded by mu
	closed  bool    // guarded by mu
}

func newQueue(server string) *Queue { return &Queue{server: server, wake: make(chan struct{}, 1)} }

// put adds an event, or counts it. It never waits.
func (q *Queue) put(e Event) {
	size := len(e.Message) + len(e.Text)
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return
	case len(q.events) >= MaxWaiting || q.bytes+size > MaxWaitingBytes && len(q.events) > 0:
		q.dropped++
		return
	}
	e.Dropped, q.dropped = q.dropped, 0
	q.events, q.bytes = append(q.events, e), q.bytes+size
	select {
	case q.wake <- struct{}{}:
	default: // somebody wakes already
	}
}

// Next waits for events and returns all that there are. It returns none when ctx ends, or
// when the queue is closed and empty.
func (q *Queue) Next(ctx context.Context) []Event {
	for {
		q.mu.Lock()
		events, closed := q.events, q.closed
		q.events, q.bytes = nil, 0
		q.mu.Unlock()
		if len(events) > 0 || closed {
			return events
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// close takes no more events, and returns how many were dropped at the end.
func (q *Queue) close() (dropped int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	select {
	case q.wake <- struct{}{}:
	default: // as above
	}
	return q.dropped
}

// A Hub passes messages to all queues. Without queues it costs one load of a
// pointer. The zero value is ready for use.
type Hub struct {
	event.Nop
	queues atomic.Pointer[[]*Queue] // nil without queues
	mu     sync.Mutex               // held to change queues
}

// Watched reports whether the messages of a server are followed.
func (h *Hub) Watched(server string) bool {
	queues := h.queues.Load()
	return queues != nil && slices.ContainsFunc(*queues, func(q *Queue) bool { return q.server == "" || q.server == server })
}

// Show hands an event on.
func (h *Hub) Show(e Event) {
	if queues := h.queues.Load(); queues != nil {
		for _, q := range *queues {
			if q.server == "" || q.server == e.Server {
				q.put(e)
			}
		}
	}
}

// Open returns a queue of what passes from now on, of one server or, for "", of all. The
// caller closes it.
func (h *Hub) Open(server string) (q *Queue, stop func()) {
	q = newQueue(server)
	h.change(func(queues []*Queue) []*Queue { return append(queues, q) })
	return q, func() {
		h.change(func(queues []*Queue) []*Queue {
			return slices.DeleteFunc(queues, func(other *Queue) bool { return other == q })
		})
		q.close()
	}
}

func (h *Hub) change(f func([]*Queue) []*Queue) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var queues []*Queue
	if now := h.queues.Load(); now != nil {
		queues = slices.Clone(*now)
	}
	if queues = f(queues); len(queues) == 0 {
		h.queues.Store(nil)
		return
	}
	h.queues.Store(&queues)
}
