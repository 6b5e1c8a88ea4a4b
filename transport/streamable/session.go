package streamable

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/eventlog"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/wire/sessions"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A session is a conversation of the legacy era. It is the Conn that the
// Acceptor is given: what is asked and told through it goes to the stream that
// the client has opened by GET.
type session struct {
	server     *Server
	id         string
	identity   string
	peer       dragoman.Peer // set once, before anybody knows the session
	rev        protocol.Revision
	background *eventStream // what belongs to no request

	questions *jsonrpc.Calls // what we asked the client

	ctx    context.Context // of its requests; ends with the session
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	used    time.Time                    // when it was used last
	busy    int                          // HTTP requests in flight
	idle    *time.Timer                  // runs checkIdle
	open    map[dragoman.ID]*callContext // requests in flight, by ID.Key
	streams map[string]*eventStream      // streams that can be resumed, by name
	order   []string                     // names in streams, oldest first
	number  int                          // of the stream that began last
	gone    bool                         // it has ended

	reserved     bool                              // it counts but is not in the table yet, see reserve; guarded by Server.mu
	streamPrefix string                            // of names of its streams; "" if it was opened here
	recorder     atomic.Pointer[sessions.Recorder] // nil if it is not recorded
}

// maxResumable is how many streams of a session can be resumed.
const maxResumable = 64

var _ dragoman.Conn = (*session)(nil)

func (s *Server) newSession(id, owner string) *session {
	ss := &session{
		server: s, id: id, identity: owner, used: time.Now(),
		open:    make(map[dragoman.ID]*callContext),
		streams: make(map[string]*eventStream),
	}
	ss.questions = jsonrpc.NewCalls(s.opts.maxRequests)
	ss.ctx, ss.cancel = context.WithCancelCause(context.Background())
	ss.background = &eventStream{server: s, name: backgroundName, key: ss.key(backgroundName), after: eventlog.End}
	return ss
}

// reserve counts a session against the limit before it is opened, or returns why it
// may not be opened. The server may start a process for a session, so that is done
// first.
func (s *Server) reserve(ss *session) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draining.Err() != nil:
		return refuseDraining()
	case len(s.sessions)+s.opening >= s.opts.maxSessions:
		return httpserver.Unavailable(protocol.Overloaded("there are too many sessions; try again later"))
	}
	s.opening++
	ss.reserved = true
	return nil
}

// openingContext returns the context in which the session is opened: its caller's, with its
// id.
func (ss *session) openingContext(ctx context.Context) context.Context {
	return dragoman.WithCaller(ctx, dragoman.CallerOf(ctx).InSession(ss.id))
}

// admit adds a session that is reserved to the table. It reports false if the Server
// is being shut down or the session has ended.
func (s *Server) admit(ss *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if s.draining.Err() != nil || ss.gone {
		return false
	}
	s.opening--
	ss.reserved = false
	s.sessions[ss.id] = ss
	ss.idle = time.AfterFunc(s.opts.idle, ss.checkIdle)
	return true
}

// sessionID returns the id of the session that a request names.
func sessionID(r *http.Request) (string, error) {
	id, _, err := httpserver.Single(r, protocol.HeaderSession)
	if err == nil && id == "" {
		err = errors.New(protocol.HeaderSession + " is missing; send initialize first, and then the session id that it is answered with")
	}
	if err != nil {
		return "", refuse(http.StatusBadRequest, protocol.CodeServer, "Bad Request: "+err.Error())
	}
	return id, nil
}

// find returns the session that a request names, if it is its caller's.
func (s *Server) find(x *httpserver.Exchange) (*session, error) {
	id, err := sessionID(x.R)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	ss := s.sessions[id]
	s.mu.Unlock()
	if ss == nil || ss.identity != x.Caller.Identity() {
		return nil, sessionGone()
	}
	return ss, nil
}

// checkIdle ends the session if nobody has used it for too long.
func (ss *session) checkIdle() {
	ss.mu.Lock()
	left := ss.server.opts.idle - time.Since(ss.used)
	if ss.busy > 0 {
		left = ss.server.opts.idle
	}
	if left > 0 && !ss.gone {
		ss.idle.Reset(left)
	}
	ss.mu.Unlock()
	if left <= 0 {
		ss.endHere(dragoman.ErrClosed, !ss.recorder.Load().UsedElsewhere())
	}
}

// enter keeps the session from being idle until leave is called, also if it reports
// that the session has ended.
func (ss *session) enter() bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.busy++
	return !ss.gone
}

func (ss *session) leave() {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.busy--
	ss.used = time.Now()
}

// end ends the session everywhere: no other Server can continue with it. It reports
// false if the session had ended before.
func (ss *session) end(reason error) bool { return ss.endHere(reason, true) }

// endHere ends the session at this Server. Another Server can continue with it unless
// forget is true. It reports false if the session had ended before.
func (ss *session) endHere(reason error, forget bool) bool {
	ss.mu.Lock()
	if ss.gone {
		ss.mu.Unlock()
		return false
	}
	ss.gone = true
	if ss.idle != nil {
		ss.idle.Stop()
	}
	names := slices.Clone(ss.order)
	ss.mu.Unlock()
	reason = dragoman.Closed(reason)
	ss.cancel(reason)
	ss.questions.End(reason)
	ss.mu.Lock()
	open := slices.Collect(maps.Values(ss.open)) // those that come later see that it has ended
	ss.mu.Unlock()
	for _, ctx := range open {
		ctx.cancel(reason)
	}
	// The session stays known until its record is gone: otherwise another request could continue it
	// from the record.
	ss.recorder.Load().Close(forget)
	ss.server.mu.Lock()
	if ss.server.sessions[ss.id] == ss {
		delete(ss.server.sessions, ss.id)
	}
	if ss.reserved {
		ss.server.opening--
		ss.reserved = false
	}
	ss.server.mu.Unlock()
	if forget {
		ss.dropStreams(append(names, backgroundName))
	}
	return true
}

// key is the name of a stream in the log.
func (ss *session) key(stream string) string { return ss.id + "/" + stream }

// newAnswer returns the answer to a POST, whose stream can be resumed if the client's
// revision has that.
func (ss *session) newAnswer(x *httpserver.Exchange) *postAnswer {
	a := ss.server.newAnswer(x)
	a.client = requestClient{ss, a}
	if !ss.rev.ResumesStreams() {
		return a
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.number++
	a.session, a.number, a.primes = ss, ss.number, ss.rev.PrimesStreams()
	return a
}

// makeResumable gives a stream that is about to begin a name and ids, so that it can be
// resumed. It returns the streams that the caller must drop from the log.
func (ss *session) makeResumable(es *eventStream, number int, requests []*dragoman.Message) (evicted []string) {
	es.name, es.ids = ss.streamPrefix+strconv.Itoa(number), true
	if ss.server.records != nil {
		es.name += sessions.NameRequests(requests)
	}
	es.key = ss.key(es.name)
	_, evicted = ss.addStream(es)
	return evicted
}

// addStream adds a stream to those that can be resumed, and returns it, or the one of
// its name that is there. If there are too many, it evicts the oldest that have ended,
// which the caller must drop from the log. Those that have not are no more than there
// are requests.
func (ss *session) addStream(es *eventStream) (present *eventStream, evicted []string) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if known := ss.streams[es.name]; known != nil {
		return known, nil
	}
	ss.streams[es.name] = es
	ss.order = append(ss.order, es.name)
	for _, name := range ss.order {
		if len(ss.order)-len(evicted) <= maxResumable {
			break
		}
		if ss.streams[name].over() {
			evicted = append(evicted, name)
		}
	}
	for _, name := range evicted {
		ss.forgetStream(name)
	}
	return es, evicted
}

// dropStreams drops streams from the log. No lock is held: that may write a file.
func (ss *session) dropStreams(names []string) {
	for _, name := range names {
		_ = ss.server.opts.log.Drop(context.Background(), ss.key(name)) // or it goes when it is too old
	}
}

// stream returns a stream that can be resumed by its name, or nil.
func (ss *session) stream(name string) *eventStream {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.streams[name]
}

// forgetStream removes a stream from those that can be resumed. mu is held.
func (ss *session) forgetStream(name string) {
	delete(ss.streams, name)
	if i := slices.Index(ss.order, name); i >= 0 {
		ss.order = slices.Delete(ss.order, i, i+1)
	}
}

// Call asks the client, outside of any request of its own.
func (ss *session) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	return ss.sendRequest(ctx, req, from, ss.background)
}

// Notify tells the client something that belongs to no request.
func (ss *session) Notify(_ context.Context, note *dragoman.Message) error {
	if err := ss.Err(); err != nil {
		return err
	}
	if ss.server.records != nil && ss.server.draining.Err() != nil {
		return dragoman.ErrClosed // the Server that takes over tells the client
	}
	return ss.background.tell(note)
}

// Close ends the session.
func (ss *session) Close() error {
	ss.end(nil)
	return nil
}

// AfterDone has f called when the session is over, on a goroutine of its own, unless stop
// is called before.
func (ss *session) AfterDone(f func()) (stop func() bool) { return context.AfterFunc(ss.ctx, f) }

// Done is closed when the session is over.
func (ss *session) Done() <-chan struct{} { return ss.ctx.Done() }

// Err says why it is over.
func (ss *session) Err() error { return context.Cause(ss.ctx) }

// An outbound sends messages to the client: on the background stream, or on that of the
// request that they belong to.
type outbound interface {
	tell(note *dragoman.Message) error
	ask(ctx context.Context, req *dragoman.Message) error
}

// sendRequest sends a request to the client, under an id of our own, and waits for the
// answer, which comes by POST.
func (ss *session) sendRequest(ctx context.Context, req *dragoman.Message, from dragoman.Peer, by outbound) (*dragoman.Message, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	q, err := ss.questions.Begin(req, from)
	if err != nil {
		return nil, err
	}
	defer q.Finish()
	defer func() { _, _ = q.Remove() }()
	sending, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(ss.ctx, func() { cancel(ss.Err()) })()
	if err := by.ask(sending, q.Message()); err != nil {
		return nil, err
	}
	q.Sent()
	resp, err := q.Wait(ctx, ss.server.opts.logger)
	if err != nil {
		if ctx.Err() != nil {
			_ = by.tell(q.CancelNote(context.Cause(ctx).Error())) // or the client is gone
		}
		return nil, err
	}
	return q.Incoming(resp), nil
}

// notify takes a notification of the client. The error says why the peer does not take it.
func (ss *session) notify(note *dragoman.Message) error {
	switch note.Method() {
	case protocol.NoteCancelled:
		if id, ok := dragoman.ParseID(note.Get("requestId")); ok {
			ss.cancelRequest(id)
		}
		return nil
	case protocol.NoteProgress:
		if q, own := ss.questions.Progress(note); q != nil {
			q.Enqueue(own)
		}
		return nil
	case protocol.NoteInitialized:
		ss.recorder.Load().Initialized()
	}
	return jsonrpc.Deliver(ss.ctx, ss.peer, note, ss.server.opts.logger)
}

// addRequest adds a request to those in flight, so that it can be cancelled. It fails if
// its id is in use or there are too many.
func (ss *session) addRequest(req *dragoman.Message, ctx *callContext) *dragoman.Error {
	key := req.ID().Key()
	ss.mu.Lock()
	defer ss.mu.Unlock()
	switch {
	case ss.open[key] != nil:
		return protocol.IDInUse(req)
	case len(ss.open) >= ss.server.opts.maxRequests:
		return protocol.Limited(protocol.LimitSession, "too many requests of this session are in flight; wait for answers before you send more", 0)
	}
	ss.open[key] = ctx
	return nil
}

func (ss *session) removeRequest(req *dragoman.Message) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	delete(ss.open, req.ID().Key())
}

// cancelRequest cancels a request, if it is in flight.
func (ss *session) cancelRequest(id dragoman.ID) {
	ss.mu.Lock()
	ctx := ss.open[id.Key()]
	ss.mu.Unlock()
	if ctx != nil {
		ctx.cancel(dragoman.ErrCancelled)
	}
}
