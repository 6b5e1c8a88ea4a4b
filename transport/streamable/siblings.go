package streamable

import (
	"crypto/rand"
	"strings"
	"sync"
	"weak"
)

// running are the Servers with a Store in this process. While one is replaced by
// another, both may have a session of the same id: the old one finishes the calls
// that it has begun, and the client speaks to the new one already. What it says
// about those calls is handed to the old one.
var running struct {
	mu      sync.Mutex
	servers map[weak.Pointer[Server]]struct{}
}

// join adds a Server to those that run.
func (s *Server) join() {
	running.mu.Lock()
	defer running.mu.Unlock()
	if running.servers == nil {
		running.servers = make(map[weak.Pointer[Server]]struct{})
	}
	running.servers[weak.Make(s)] = struct{}{}
}

// part takes a Server that is shut down out of those that run.
func (s *Server) part() {
	s.past.mu.Lock()
	if s.past.timer != nil {
		s.past.timer.Stop()
	}
	s.past.mu.Unlock()
	running.mu.Lock()
	defer running.mu.Unlock()
	delete(running.servers, weak.Make(s))
}

// others returns the other Servers that run.
func (s *Server) others() []*Server {
	if s.Store == nil {
		return nil
	}
	running.mu.Lock()
	defer running.mu.Unlock()
	var list []*Server
	for p := range running.servers {
		switch o := p.Value(); o {
		case nil:
			delete(running.servers, p) // nobody has shut it down
		case s:
		default:
			list = append(list, o)
		}
	}
	return list
}

// siblings calls f with the sessions of other Servers that are the same session,
// until f says that this was the one, and tells whether one was.
func (s *Server) siblings(id, owner string, f func(*session) bool) bool {
	for _, o := range s.others() {
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
