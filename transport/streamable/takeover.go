package streamable

import (
	"context"
	"crypto/rand"
	"errors"
	"runtime/debug"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
	"github.com/dragoman-mcp/dragoman/internal/wire/sessions"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	// adoptTimeout is how long it may take to continue with a session of a Server
	// that is gone.
	adoptTimeout = time.Minute

	// maxSessionID is the longest session id that may be one of ours.
	maxSessionID = 128
)

var (
	errAdopt    = errors.New("streamable: the session cannot be taken over in time")
	errRevision = errors.New("the server speaks another revision now")
)

// record begins to record a session, which hello, its initialize, has opened.
func (ss *session) record(hello, answer *dragoman.Message) {
	switch {
	case ss.server.records == nil:
	case hello.Len() > sessions.MaxHello:
		ss.server.opts.logger.Warn("a session is not recorded: its initialize is too long", "bytes", hello.Len())
	default:
		memory := new(sessions.Memory)
		memory.Opened(hello, answer)
		ss.recordAs(memory).Save()
	}
}

func (ss *session) recordAs(memory *sessions.Memory) *sessions.Recorder {
	r := ss.server.records.Record(ss.id, ss.identity, memory, ss.lastUse)
	ss.recorder.Store(r)
	if ss.Err() != nil {
		r.Close(true) // the session ended before it was recorded
	}
	return r
}

// lastUse returns when the session was used last.
func (ss *session) lastUse() time.Time {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.busy > 0 {
		return time.Now()
	}
	return ss.used
}

// loadRecord returns what is recorded of the session that a request names, if it is
// its caller's and may still be used.
func (s *Server) loadRecord(x *httpserver.Exchange) (string, *sessions.Record, error) {
	id, err := sessionID(x.R)
	switch {
	case err != nil:
		return "", nil, err
	case len(id) > maxSessionID:
		return "", nil, sessionGone()
	}
	record, err := s.records.Load(x.R.Context(), id, x.Caller.Identity())
	switch {
	case errors.Is(err, sessions.ErrUnknown):
		return "", nil, sessionGone()
	case err != nil:
		return "", nil, unavailable(err)
	}
	return id, record, nil
}

// adopt takes over a session that another Server has opened. If several requests name
// it at once, all wait for one runAdoption.
func (s *Server) adopt(x *httpserver.Exchange) (*session, error) {
	id, record, err := s.loadRecord(x)
	if err != nil {
		return nil, err
	}
	known := func() (*session, bool) {
		ss, err := s.find(x)
		return ss, err == nil
	}
	ctx := context.WithoutCancel(x.Context())
	ss, err := s.records.Adopt(x.R.Context(), id, known, s.base.Go, func() (*session, error) { return s.runAdoption(ctx, id, record) })
	switch {
	case err == nil || errors.As(err, new(*httpserver.Refusal)):
		return ss, err
	case s.draining.Err() != nil:
		return nil, refuseDraining()
	}
	return nil, unavailable(err)
}

// runAdoption opens the session of a record at this Server.
func (s *Server) runAdoption(ctx context.Context, id string, record *sessions.Record) (_ *session, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, adoptTimeout, errAdopt)
	defer cancel()
	defer context.AfterFunc(s.draining, cancel)()
	ss := s.newSession(id, dragoman.CallerOf(ctx).Identity())
	defer func() {
		if p := recover(); p != nil {
			s.opts.logger.Error("panic while a session was taken over", "panic", p, "stack", string(debug.Stack()))
			err = unavailable(errors.New("the server of the session failed on it"))
		}
		if err != nil {
			ss.endHere(dragoman.ErrClosed, false)
		}
	}()
	// Its streams must not have names that those of earlier Servers have.
	ss.streamPrefix = strings.ToLower(rand.Text()[:8]) + "-"
	if err := ss.resume(ctx, record); err != nil {
		if s.draining.Err() != nil {
			err = refuseDraining()
		}
		s.opts.logger.Info("a session was not taken over", "error", err)
		return nil, err
	}
	return ss, nil
}

// resume brings a new session to where its record ends: it repeats the handshake to the
// server, and what the client has subscribed to and set.
func (ss *session) resume(ctx context.Context, record *sessions.Record) error {
	s := ss.server
	memory, err := record.Restore(s.opts.limits)
	if err != nil {
		s.records.Forget(ctx, ss.id)
		return sessionGone()
	}
	ss.rev = protocol.ParseRevision(record.Revision)
	ss.background.setRevision(ss.rev)
	if err := s.reserve(ss); err != nil {
		return err
	}
	if ss.peer, err = s.Sessions.Accept(ss.openingContext(ctx), ss); err != nil {
		return httpserver.Unavailable(protocol.Unavailable(err))
	}
	newID := func() dragoman.ID { return dragoman.StringID("adopt-" + httpserver.NewID()) }
	sameRevision := func(answer *dragoman.Message) error {
		if protocol.VersionOf(answer) != record.Revision {
			return errRevision
		}
		return nil
	}
	switch err := memory.Replay(ctx, ss.peer, newID, sameRevision, s.opts.logger); {
	case errors.Is(err, errRevision):
		s.records.Forget(ctx, ss.id) // the client has to negotiate again
		return sessionGone()
	case err != nil:
		return unavailable(err)
	}
	recorder := ss.recordAs(memory)
	if !s.admit(ss) {
		return refuseDraining()
	}
	if !s.records.Has(ctx, ss.id) {
		ss.end(nil) // deleted meanwhile
		return sessionGone()
	}
	recorder.Save()
	if record.Ready {
		ss.sendReminders(memory.Missed())
	}
	return nil
}

// sendReminders tells the client of what may have changed while no Server had the
// session.
func (ss *session) sendReminders(missed protocol.Interest) {
	for note := range missed.ChangeNotes() {
		if err := ss.background.tell(note); err != nil {
			ss.server.opts.logger.Debug("a client was not told of a change", "method", note.Method(), "error", err)
		}
	}
}

// deleteRecorded ends a session that is recorded and not open here, once.
func (s *Server) deleteRecorded(x *httpserver.Exchange) error {
	id, _, err := s.loadRecord(x)
	if err != nil {
		return err
	}
	if !s.records.Delete(x.R.Context(), id) {
		return sessionGone()
	}
	return nil
}

// reopenStream returns what has been logged of a stream that an earlier Server had.
func (ss *session) reopenStream(ctx context.Context, name string, position int64) (*eventStream, error) {
	if ss.server.records == nil {
		return nil, streamGone()
	}
	requests := sessions.RequestsOf(name)
	if len(requests) == 0 || ss.streamPrefix != "" && strings.HasPrefix(name, ss.streamPrefix) {
		return nil, streamGone()
	}
	es, evicted := ss.addStream(&eventStream{server: ss.server, name: name, key: ss.key(name), ids: true, unanswered: requests})
	ss.dropStreams(evicted)
	if err := es.answerOrphans(ctx, position); err != nil {
		ss.mu.Lock()
		defer ss.mu.Unlock()
		ss.forgetStream(name)
		return nil, err
	}
	return es, nil
}

// answerOrphans ends a stream whose Server is gone: with an error for each request
// that has no answer.
func (es *eventStream) answerOrphans(ctx context.Context, position int64) error {
	es.appending.Lock()
	defer es.appending.Unlock()
	if es.unanswered == nil {
		return nil // another request has done it
	}
	if err := sessions.Settle(ctx, es.server.opts.log, es.key, position, es.unanswered); err != nil {
		return cannotReplay(err)
	}
	es.unanswered = nil
	es.mu.Lock()
	defer es.mu.Unlock()
	es.ended = true
	return nil
}
