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
	"github.com/dragoman-mcp/dragoman/internal/handover"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/internal/rpc"
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

	questions *rpc.Calls // what we asked the client

	ctx    context.Context // of its requests; ends with it
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	used    time.Time                    // when it was used last
	busy    int                          // HTTP requests under way
	idle    *time.Timer                  // looks whether it is still used
	open    map[dragoman.ID]*callContext // requests under way, by ID.Key
	streams map[string]*eventStream      // streams that can be resumed, by name
	order   []string                     // of streams, oldest first
	number  int                          // of the stream that began last
	gone    bool

	reserved     bool                              // it has a place and is not in the table yet; guarded by Server.mu
	streamPrefix string                            // in names of its streams; "" if it was opened here
	recorder     atomic.Pointer[handover.Recorder] // nil if it is not recorded
}

// maxResumable is how many streams of a session can be resumed.
const maxResumable = 64

var _ dragoman.Conn = (*session)(nil)

func (s *Server) newSession(id, owner string) *session {
	v := &session{
		server: s, id: id, identity: owner, used: time.Now(),
		open:    make(map[dragoman.ID]*callContext),
		streams: make(map[string]*eventStream),
	}
	v.questions = rpc.NewCalls(s.opts.maxRequests)
	v.ctx, v.cancel = context.WithCancelCause(context.Background())
	v.background = &eventStream{server: s, name: backgroundName, key: v.key(backgroundName)}
	return v
}

// reserve gives a session its place, or returns why there is none. Nothing is done
// for a session without: a server may need a process for it.
func (s *Server) reserve(v *session) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draining.Err() != nil:
		return refuseDraining()
	case len(s.sessions)+s.opening >= s.opts.maxSessions:
		return httpx.Unavailable(protocol.Overloaded("there are too many sessions; try again later"))
	}
	s.opening++
	v.reserved = true
	return nil
}

// openingContext returns the context in which the session is opened: its caller's, with its
// id.
func (v *session) openingContext(ctx context.Context) context.Context {
	return dragoman.WithCaller(ctx, dragoman.CallerOf(ctx).InSession(v.id))
}

// admit adds a session that has a place to the table, unless it is too late for that.
func (s *Server) admit(v *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Err() != nil || !v.reserved {
		return false
	}
	s.opening--
	v.reserved = false
	s.sessions[v.id] = v
	v.mu.Lock()
	defer v.mu.Unlock()
	v.idle = time.AfterFunc(s.opts.idle, v.checkIdle)
	return true
}

// sessionID returns the id of the session that a request names.
func sessionID(r *http.Request) (string, error) {
	id, _, err := httpx.Single(r, protocol.HeaderSession)
	if err == nil && id == "" {
		err = errors.New(protocol.HeaderSession + " is missing; send initialize first, and then the session id that it is answered with")
	}
	if err != nil {
		return "", refuse(http.StatusBadRequest, protocol.CodeServer, "Bad Request: "+err.Error())
	}
	return id, nil
}

// find returns the session that a request names, if it is its caller's.
func (s *Server) find(x *httpx.Exchange) (*session, error) {
	id, err := sessionID(x.R)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	v := s.sessions[id]
	s.mu.Unlock()
	if v == nil || v.identity != x.Caller.Identity() {
		return nil, sessionGone()
	}
	return v, nil
}

// checkIdle ends the session if nobody has used it for too long.
func (v *session) checkIdle() {
	v.mu.Lock()
	left := v.server.opts.idle - time.Since(v.used)
	if v.busy > 0 {
		left = v.server.opts.idle
	}
	if left > 0 && !v.gone {
		v.idle.Reset(left)
	}
	v.mu.Unlock()
	if left <= 0 {
		v.endHere(dragoman.ErrClosed, !v.recorder.Load().UsedElsewhere())
	}
}

// enter and leave keep a session from being idle.
func (v *session) enter() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.busy++
	return !v.gone
}

func (v *session) leave() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.busy--
	v.used = time.Now()
}

// end makes the session over, once, and reports whether this did it. Nobody can go
// on with it.
func (v *session) end(reason error) bool { return v.endHere(reason, true) }

// endHere makes the session over here, once, and reports whether this did it. If it
// is not forgotten, another Server can go on with it.
func (v *session) endHere(reason error, forget bool) bool {
	v.mu.Lock()
	if v.gone {
		v.mu.Unlock()
		return false
	}
	v.gone = true
	if v.idle != nil {
		v.idle.Stop()
	}
	names := slices.Clone(v.order)
	v.mu.Unlock()
	v.server.mu.Lock()
	if v.server.sessions[v.id] == v {
		delete(v.server.sessions, v.id)
	}
	if v.reserved {
		v.server.opening--
		v.reserved = false
	}
	v.server.mu.Unlock()
	reason = dragoman.Closed(reason)
	v.cancel(reason)
	v.questions.End(reason)
	v.mu.Lock()
	open := slices.Collect(maps.Values(v.open)) // those that come later see that it has ended
	v.mu.Unlock()
	for _, ctx := range open {
		ctx.cancel(reason)
	}
	v.recorder.Load().Close(forget)
	if forget {
		v.dropStreams(append(names, backgroundName))
	}
	return true
}

// key is the name of a stream in the log.
func (v *session) key(stream string) string { return v.id + "/" + stream }

// newAnswer returns the answer to a POST, as a stream that can be resumed.
func (v *session) newAnswer(x *httpx.Exchange) *postAnswer {
	a := v.server.newAnswer(x)
	a.client = requestClient{v, a}
	if !v.rev.ResumesStreams() {
		return a
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.number++
	a.session, a.number, a.primes = v, v.number, v.rev.PrimesStreams()
	return a
}

// makeResumable makes a stream that is about to begin one that can be resumed, and returns
// those to drop in its place.
func (v *session) makeResumable(f *eventStream, number int, requests []*dragoman.Message) (evicted []string) {
	f.name, f.ids = v.streamPrefix+strconv.Itoa(number), true
	if v.server.records != nil {
		f.name += handover.NameRequests(requests)
	}
	f.key = v.key(f.name)
	_, evicted = v.addStream(f)
	return evicted
}

// addStream makes a stream one that can be resumed, unless there is one of its name,
// and returns that which is there. When there are too many, the oldest are evicted
// that have ended, for the caller to drop; the others are no more than there are
// requests.
func (v *session) addStream(f *eventStream) (kept *eventStream, evicted []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if known := v.streams[f.name]; known != nil {
		return known, nil
	}
	v.streams[f.name] = f
	v.order = append(v.order, f.name)
	for _, name := range v.order {
		if len(v.order)-len(evicted) <= maxResumable {
			break
		}
		if v.streams[name].over() {
			evicted = append(evicted, name)
		}
	}
	for _, name := range evicted {
		v.forgetStream(name)
	}
	return f, evicted
}

// dropStreams drops streams from the log. No lock is held: that may write a file.
func (v *session) dropStreams(names []string) {
	for _, name := range names {
		_ = v.server.opts.log.Drop(context.Background(), v.key(name)) // or it goes when it is too old
	}
}

// stream returns a stream that can be resumed by its name, or nil.
func (v *session) stream(name string) *eventStream {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.streams[name]
}

// forgetStream makes a stream be none that can be resumed. mu is held.
func (v *session) forgetStream(name string) {
	delete(v.streams, name)
	if i := slices.Index(v.order, name); i >= 0 {
		v.order = slices.Delete(v.order, i, i+1)
	}
}

// Call asks the client, outside of any request of its own.
func (v *session) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	return v.sendRequest(ctx, req, from, v.background)
}

// Notify tells the client something that belongs to no request.
func (v *session) Notify(_ context.Context, note *dragoman.Message) error {
	if err := v.Err(); err != nil {
		return err
	}
	if v.server.records != nil && v.server.draining.Err() != nil {
		return dragoman.ErrClosed // the client hears that from the Server that takes over
	}
	return v.background.tell(note)
}

// Close ends the session.
func (v *session) Close() error {
	v.end(nil)
	return nil
}

// AfterDone has f called when the session is over, on a goroutine of its own, unless stop
// is called before.
func (v *session) AfterDone(f func()) (stop func() bool) { return context.AfterFunc(v.ctx, f) }

// Done is closed when the session is over.
func (v *session) Done() <-chan struct{} { return v.ctx.Done() }

// Err says why it is over.
func (v *session) Err() error { return context.Cause(v.ctx) }

// An outbound is what a message to the client goes out by: the stream of what belongs
// to no request, or that of the request it belongs to.
type outbound interface {
	tell(note *dragoman.Message) error
	ask(ctx context.Context, req *dragoman.Message) error
}

// sendRequest sends a request to the client, under an id of our own, and waits for the
// answer, which comes by POST.
func (v *session) sendRequest(ctx context.Context, req *dragoman.Message, from dragoman.Peer, by outbound) (*dragoman.Message, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	q, err := v.questions.Begin(req, from)
	if err != nil {
		return nil, err
	}
	defer q.Finish()
	defer func() { _, _ = q.Remove() }()
	sending, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(v.ctx, func() { cancel(v.Err()) })()
	if err := by.ask(sending, q.Message()); err != nil {
		return nil, err
	}
	q.Sent()
	resp, err := q.Wait(ctx, v.server.opts.logger)
	if err != nil {
		if ctx.Err() != nil {
			_ = by.tell(q.CancelNote(context.Cause(ctx).Error())) // or the client is gone
		}
		return nil, err
	}
	return q.Incoming(resp), nil
}

// reply takes a response of the client. One to no question is ignored.
func (v *session) reply(resp *dragoman.Message) {
	if v.questions.Answer(resp) != rpc.Matched {
		v.server.predecessors(v.id, v.identity, func(o *session) bool { return o.questions.Answer(resp) == rpc.Matched })
	}
}

// notify takes a notification of the client.
func (v *session) notify(note *dragoman.Message) {
	switch note.Method() {
	case protocol.NoteCancelled:
		if id, ok := dragoman.ParseID(note.Get("requestId")); ok && !v.cancelRequest(id) {
			v.server.predecessors(v.id, v.identity, func(o *session) bool { return o.cancelRequest(id) })
		}
		return
	case protocol.NoteProgress:
		if q, own := v.questions.Progress(note); q != nil {
			q.Enqueue(own)
		}
		return
	case protocol.NoteInitialized:
		v.recorder.Load().Initialized()
	}
	rpc.Notify(v.ctx, v.peer, note, v.server.opts.logger)
}

// addRequest notes a request under way by its context. It fails if its id is in use or
// there are too many.
func (v *session) addRequest(req *dragoman.Message, ctx *callContext) *dragoman.Error {
	key := req.ID().Key()
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.open[key] != nil:
		return protocol.IDInUse(req)
	case len(v.open) >= v.server.opts.maxRequests:
		return protocol.Limited(protocol.LimitSession, "too many requests of this session are under way; wait for answers before you send more", 0)
	}
	v.open[key] = ctx
	return nil
}

func (v *session) removeRequest(req *dragoman.Message) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.open, req.ID().Key())
}

// cancelRequest cancels a request, and reports whether there was one.
func (v *session) cancelRequest(id dragoman.ID) bool {
	v.mu.Lock()
	ctx := v.open[id.Key()]
	v.mu.Unlock()
	if ctx != nil {
		ctx.cancel(dragoman.ErrCancelled)
		return true
	}
	return false
}
