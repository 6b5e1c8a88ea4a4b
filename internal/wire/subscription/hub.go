package subscription

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A Sink receives notifications of changes, and drops those that it does not want. Offer
// does not block. Sinks are pointers. A Hub forgets one that has a method Ended some time
// after that returns true.
type Sink interface{ Offer(note *dragoman.Message) }

// A Hub passes notifications of changes on to its sinks. The zero value has none. Any
// number of goroutines may use it.
type Hub struct {
	mu      sync.Mutex
	sinks   map[Sink]struct{} // guarded by mu
	sweepAt int               // number of sinks at which ended sessions are removed; guarded by mu
}

// Add adds a sink, until Remove. It reports false if there are limit sinks already; a
// limit of zero is none.
func (h *Hub) Add(s Sink, limit int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sinks == nil {
		h.sinks = make(map[Sink]struct{})
	}
	// Sessions that have ended are removed when the number of sinks has doubled, so that
	// none needs a goroutine that waits for its end.
	if len(h.sinks) >= h.sweepAt {
		maps.DeleteFunc(h.sinks, func(s Sink, _ struct{}) bool {
			session, ok := s.(interface{ Ended() bool })
			return ok && session.Ended()
		})
		h.sweepAt = 2*len(h.sinks) + 16
	}
	if limit > 0 && len(h.sinks) >= limit {
		return false
	}
	h.sinks[s] = struct{}{}
	return true
}

// Remove removes a sink. A Publish in progress may still offer it a change.
func (h *Hub) Remove(s Sink) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.sinks, s)
}

// Len returns the number of sinks.
func (h *Hub) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.sinks)
}

// Publish offers a change to all sinks.
func (h *Hub) Publish(note *dragoman.Message) {
	for _, s := range h.all() {
		s.Offer(note)
	}
}

// Rouse wakes the goroutines of all listens.
func (h *Hub) Rouse() {
	for _, s := range h.all() {
		if l, ok := s.(*Listen); ok {
			l.Rouse()
		}
	}
}

func (h *Hub) all() []Sink {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.sinks))
}

// OnChange has f called with the method of each change, until stop is called. f does not
// block.
func (h *Hub) OnChange(f func(method string)) (stop func()) {
	s := &callback{f}
	h.Add(s, 0)
	return func() { h.Remove(s) }
}

// A callback is a Sink that wants everything.
type callback struct{ f func(method string) }

// Offer implements Sink.
func (c *callback) Offer(note *dragoman.Message) { c.f(note.Method()) }

// A Session is a legacy session whose server has promised to report changes of lists.
type Session struct {
	Client dragoman.Conn
	Lists  protocol.Interest // whose changes were promised
}

// Ended reports whether the session has ended.
func (s *Session) Ended() bool { return s.Client.Err() != nil }

// Offer implements Sink: it notifies the client.
func (s *Session) Offer(note *dragoman.Message) {
	if s.Lists.Wants(note.Method(), note.URI()) {
		_ = s.Client.Notify(context.Background(), note) // a client that cannot be notified has gone
	}
}

// ListChanged returns the notification that a list has changed.
func ListChanged(method string) *dragoman.Message {
	note, _ := dragoman.NewNotification(method, nil) // without params it cannot fail
	return note
}
