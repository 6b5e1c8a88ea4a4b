package streamable

import (
	"crypto/rand"
	"strings"
)

// part says that this Server, which is shut down, has nothing left to finish.
func (s *Server) part() {
	s.past.mu.Lock()
	defer s.past.mu.Unlock()
	if s.past.timer != nil {
		s.past.timer.Stop()
	}
	s.past.ended = true
}

// before returns the Server whose place this one has taken, as long as that, or
// one before it, has something to finish.
func (s *Server) before() *Server {
	s.past.mu.Lock()
	o := s.past.before
	s.past.mu.Unlock()
	for o != nil && o.ended() {
		o = o.before()
	}
	s.past.mu.Lock()
	defer s.past.mu.Unlock()
	s.past.before = o // so that nobody holds on to those that have ended
	return o
}

func (s *Server) ended() bool {
	s.past.mu.Lock()
	defer s.past.mu.Unlock()
	return s.past.ended
}

// siblings calls f with the sessions of the Servers before this one that are the
// same session, until f says that this was the one, and tells whether one was.
//
// While one Server takes the place of another, both may have a session of the same
// id: the old one finishes the calls that it has begun, and the client speaks to
// the new one already. What it says about those calls is handed to the old one.
func (s *Server) siblings(id, owner string, f func(*session) bool) bool {
	for o := s.before(); o != nil; o = o.before() {
		o.mu.Lock()
		v := o.sessions[id]
		o.mu.Unlock()
		if v != nil && v.owner == owner && f(v) {
			return true
		}
	}
	return false
}

// newMark returns what tells the streams of this Server's part of a session from
// those of the Servers before.
func newMark() string { return strings.ToLower(rand.Text()[:8]) + "-" }
