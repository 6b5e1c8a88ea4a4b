package streamable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	// adoptTimeout is how long it may take to go on with a session of a Server
	// that is gone.
	adoptTimeout = time.Minute

	// maxSessionID is the longest session id that may be one of ours.
	maxSessionID = 128
)

var errAdopt = errors.New("streamable: the session cannot be taken up in time")

// past is what a Server does about sessions that it has not opened itself.
type past struct {
	mu        sync.Mutex
	adoptions map[string]*adoption // under way, by session id
	deletions map[string]bool      // likewise
	timer     *time.Timer          // of watchUse; nil if it is not needed
	before    *Server              // whose place this one has taken; nil once it has ended
	ended     bool                 // nothing is left to finish
}

// An adoption is one that any number of requests wait for.
type adoption struct {
	done    chan struct{} // closed when what follows is set
	session *session
	err     error
}

// recall returns what is recorded of the session that a request names, if it is
// its caller's and may still be used.
func (s *Server) recall(r *http.Request) (string, *memo, error) {
	id, _, err := httpx.Single(r, protocol.HeaderSession)
	if err != nil || id == "" || len(id) > maxSessionID {
		return "", nil, sessionGone()
	}
	m, err := s.memoOf(id)
	switch {
	case err != nil:
		return "", nil, err
	case m == nil || m.Caller != digest(httpx.Owner(r)):
		return "", nil, sessionGone()
	case m.expired(s.opts.idle):
		_ = s.Store.Delete(id) // or it stays, and is found to be too old again
		return "", nil, sessionGone()
	}
	return id, m, nil
}

// memoOf reads a record. It is nil if there is none.
func (s *Server) memoOf(id string) (*memo, error) {
	text, ok, err := s.Store.Get(id)
	if err != nil {
		return nil, unavailable(fmt.Errorf("the record of the session cannot be read: %w", err))
	}
	m := &memo{}
	if ok {
		_ = json.Unmarshal(text, m) // what makes no sense is as good as none
	}
	if protocol.ParseRevision(m.Revision) == protocol.Unknown {
		m = nil
	}
	return m, nil
}

// unavailable refuses what was not sent because the server is away.
func unavailable(reason error) error {
	return httpx.Unavailable(protocol.Unavailable(reason))
}

// away is unavailable for an answer of the server's to our own request.
func away(e *dragoman.Error) error {
	switch e.Code {
	case protocol.CodeUnavailable, protocol.CodeOverloaded, protocol.CodeDraining:
		return unavailable(e)
	}
	return unavailable(errors.New(e.Message))
}

// adopt returns a session that another Server has opened, as one of ours. Of
// requests that come at once one does it and the others wait.
func (s *Server) adopt(r *http.Request) (*session, error) {
	id, m, err := s.recall(r)
	if err != nil {
		return nil, err
	}
	s.past.mu.Lock()
	if v, err := s.find(r); err == nil {
		s.past.mu.Unlock()
		return v, nil
	}
	a := s.past.adoptions[id]
	if a == nil {
		a = &adoption{done: make(chan struct{})}
		if s.past.adoptions == nil {
			s.past.adoptions = make(map[string]*adoption)
		}
		s.past.adoptions[id] = a
		s.serving.Add(1) // this request is being served, so it is not too late
		// Ends within adoptTimeout, or when the Server is shut down.
		go s.take(context.WithoutCancel(r.Context()), a, id, m)
	}
	s.past.mu.Unlock()
	select {
	case <-a.done:
		return a.session, a.err
	case <-r.Context().Done():
		return nil, unavailable(context.Cause(r.Context()))
	}
}

// take carries an adoption out.
func (s *Server) take(ctx context.Context, a *adoption, id string, m *memo) {
	defer s.serving.Done()
	ctx, cancel := context.WithTimeoutCause(ctx, adoptTimeout, errAdopt)
	defer cancel()
	defer context.AfterFunc(s.drain, cancel)()
	v := s.newSession(id, dragoman.CallerOf(ctx).Identity())
	defer func() {
		if p := recover(); p != nil {
			v.over(dragoman.ErrClosed, false)
			s.opts.logger.Error("panic while a session was taken up", "panic", p, "stack", string(debug.Stack()))
			a.session, a.err = nil, unavailable(errors.New("whoever serves the session failed on it"))
		}
		s.past.mu.Lock()
		delete(s.past.adoptions, id)
		s.past.mu.Unlock()
		close(a.done)
	}()
	v.mark = newMark()
	if a.err = v.takeUp(ctx, m); a.err != nil {
		v.over(dragoman.ErrClosed, false)
		if s.drain.Err() != nil {
			a.err = draining()
		}
		s.opts.logger.Info("a session was not taken up", "error", a.err)
		return
	}
	a.session = v
}

// takeUp makes the session go on where its record ends.
func (v *session) takeUp(ctx context.Context, m *memo) error {
	s := v.server
	v.rev = protocol.ParseRevision(m.Revision)
	v.background.setRevision(v.rev)
	if !s.reserve(v) {
		return tooMany(dragoman.ID{})
	}
	peer, err := s.Sessions.Accept(v.opens(ctx), v)
	if err != nil {
		return unavailable(err)
	}
	v.peer = peer
	hello, err := v.introduce(ctx, m)
	if err != nil {
		return err
	}
	v.recorder.Store(&recorder{memo: *m})
	if !s.admit(v) {
		return draining()
	}
	if _, ok, err := s.Store.Get(v.id); err == nil && !ok {
		v.end(nil) // deleted meanwhile
		return sessionGone()
	}
	v.save()
	s.watchUse()
	if m.Ready {
		v.announce(hello, m)
	}
	return nil
}

// forget deletes a record.
func (s *Server) forget(id string) {
	if err := s.Store.Delete(id); err != nil {
		s.opts.logger.Warn("the record of a session is not deleted", "error", err)
	}
}

// deleteRecorded ends a session that is recorded and not open here, once.
func (s *Server) deleteRecorded(r *http.Request) error {
	id, _, err := s.recall(r)
	if err != nil {
		return err
	}
	s.past.mu.Lock()
	taken := s.past.deletions[id]
	if s.past.deletions == nil {
		s.past.deletions = make(map[string]bool)
	}
	s.past.deletions[id] = true
	s.past.mu.Unlock()
	if taken {
		return sessionGone()
	}
	defer func() {
		s.past.mu.Lock()
		defer s.past.mu.Unlock()
		delete(s.past.deletions, id)
	}()
	if m, err := s.memoOf(id); err != nil || m == nil {
		return sessionGone() // somebody was faster
	}
	s.forget(id)
	s.siblings(id, httpx.Owner(r), func(v *session) bool {
		v.end(nil)
		return false
	})
	return nil
}

// elsewhere tells whether another Server goes on with a session that nobody has
// used here for too long.
func (v *session) elsewhere() bool {
	if v.recorder.Load() == nil {
		return false
	}
	m, err := v.server.memoOf(v.id)
	return err != nil || m != nil && m.Used.After(v.lastUse())
}
