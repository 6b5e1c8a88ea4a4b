package everything

import (
	"context"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// join makes a session hear of changes until its conversation ends.
func (s *Server) join(v *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.over() {
		return
	}
	s.sessions[v] = struct{}{}
	// Dead sessions are forgotten when the number of sessions has doubled, so
	// that none needs a goroutine that waits for its end.
	if len(s.sessions) > s.sweepAt {
		s.sweep()
		s.sweepAt = 2*len(s.sessions) + 8
	}
}

// sweep forgets the sessions that are over. The caller holds mu.
func (s *Server) sweep() {
	for v := range s.sessions {
		if v.over() {
			delete(s.sessions, v)
		}
	}
}

// hearers returns everybody who may want to hear of a change.
func (s *Server) hearers() (sessions []*session, listens []*listen) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	for v := range s.sessions {
		sessions = append(sessions, v)
	}
	for l := range s.listens {
		listens = append(listens, l)
	}
	return sessions, listens
}

// change adds the entry that a list has in reserve, or takes it out again, and
// tells everybody. list is the method of the list.
func (s *Server) change(ctx context.Context, list, note string) {
	s.mu.Lock()
	s.added[list] = !s.added[list]
	s.mu.Unlock()
	s.tell(ctx, event{method: note})
}

// hasAdded tells whether the entry that a list has in reserve is in it.
func (s *Server) hasAdded(list string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.added[list]
}

// update gives a resource a new content and tells who subscribed to it.
func (s *Server) update(ctx context.Context, uri string) {
	s.mu.Lock()
	s.versions[uri]++
	s.mu.Unlock()
	s.tell(ctx, event{protocol.NoteResourceUpdated, uri})
}

// version returns how often a resource was updated.
func (s *Server) version(uri string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.versions[uri]
}

// An event is a change that clients may want to hear of.
type event struct {
	method string
	uri    string // of a resource that was updated
}

// tell tells everybody who wants to know.
func (s *Server) tell(ctx context.Context, e event) {
	sessions, listens := s.hearers()
	for _, l := range listens {
		l.put(e)
	}
	var params any
	if e.uri != "" {
		params = object{"uri": e.uri}
	}
	note, err := dragoman.NewNotification(e.method, params)
	if err != nil {
		return // both are ours, so this cannot happen
	}
	// The call that made the change may end before all have heard of it.
	ctx = context.WithoutCancel(ctx)
	for _, v := range sessions {
		if e.uri == "" || v.isSubscribed(e.uri) {
			// One who cannot be told has gone and is forgotten by the next sweep.
			_ = v.client.Notify(ctx, note)
		}
	}
}
