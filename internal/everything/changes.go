package everything

import (
	"context"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// addSession notifies a session of changes until its conversation ends.
func (s *Server) addSession(v *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.ended() {
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
		if v.ended() {
			delete(s.sessions, v)
		}
	}
}

// subscribers returns the sessions and listens that may want a change.
func (s *Server) subscribers() (sessions []*session, listens []*listen) {
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
// notifies all clients. list is the method of the list.
func (s *Server) change(ctx context.Context, list, note string) {
	s.mu.Lock()
	s.added[list] = !s.added[list]
	s.mu.Unlock()
	s.notifyAll(ctx, event{method: note})
}

// hasAdded reports whether the entry that a list has in reserve is in it.
func (s *Server) hasAdded(list string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.added[list]
}

// update gives a resource a new content and notifies its subscribers.
func (s *Server) update(ctx context.Context, uri string) {
	s.mu.Lock()
	s.versions[uri]++
	s.mu.Unlock()
	s.notifyAll(ctx, event{protocol.NoteResourceUpdated, uri})
}

// version returns how often a resource was updated.
func (s *Server) version(uri string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.versions[uri]
}

// An event is a change that clients may subscribe to.
type event struct {
	method string
	uri    string // of a resource that was updated
}

// notifyAll notifies all subscribers of a change.
func (s *Server) notifyAll(ctx context.Context, e event) {
	sessions, listens := s.subscribers()
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
			// If it fails, the client is gone, and the next sweep removes it.
			_ = v.client.Notify(ctx, note)
		}
	}
}
