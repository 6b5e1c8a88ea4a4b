package sse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A desk is the conversation of a caller who posts without a session: there is
// one for each caller. Requests are answered in the response; what the server
// tells besides goes to the event streams of the caller whose sessions are not
// used otherwise; the caller cannot be asked. A desk is opened by the first
// message, and by every initialize after it, which sends the one before into
// retirement. If the first message is no initialize, the desk makes the
// handshake itself.
//
// It is the Conn that the Acceptor is given, and the from of its requests.
type desk struct {
	server *Server
	caller string
	greets bool // the handshake is ours to make
	ctx    context.Context
	cancel context.CancelCauseFunc

	opening sync.Once
	peer    dragoman.Peer // set by opening
	err     error         // why there is none

	// Guarded by server.mu:
	busy    int
	retired bool
	idle    *time.Timer

	notes chan *dragoman.Message // that wait for the peer
	bytes atomic.Int64           // of notes

	mu    sync.Mutex
	calls map[*http.Request]deskCall // requests under way; guarded by mu
}

// What may wait for a peer that is slow to take notifications, by number and by
// bytes. More are refused.
const (
	maxNotes     = 1024
	maxNoteBytes = 4 << 20
)

// A deskCall is a request under way. Two programs of one caller may use the
// same id.
type deskCall struct {
	id     dragoman.ID
	cancel context.CancelCauseFunc
}

var _ dragoman.Conn = (*desk)(nil)

// answer answers a message that was posted without a session.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, m *dragoman.Message) *httpx.Refusal {
	switch {
	case m.Kind() == dragoman.Response:
		return httpx.Refuse(http.StatusBadRequest, "nothing was asked here; answers belong to the session that asked")
	case !modern(m):
	case m.Kind() == dragoman.Request:
		_ = httpx.WriteJSON(w, r, http.StatusOK, unsupported(m).Bytes()) // nobody need be asked
		return nil
	default:
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
	d, refusal := s.enter(httpx.Key(r), m)
	if refusal != nil {
		return refusal
	}
	defer s.leave(d)
	d.opening.Do(func() { d.open(r) })
	if d.err != nil {
		return refuse(m, httpx.Unavailable(protocol.Failure(m, d.err).RPCError()))
	}
	if m.Kind() == dragoman.Notification {
		if !d.take(m) {
			return httpx.Unavailable(protocol.Overloaded("too many notifications are waiting; send them more slowly"))
		}
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
	resp := d.ask(r, m)
	_ = httpx.WriteJSON(w, r, http.StatusOK, resp.Bytes()) // whoever is gone does not miss it
	return nil
}

// enter returns the caller's desk, and keeps it open until leave.
func (s *Server) enter(caller string, m *dragoman.Message) (*desk, *httpx.Refusal) {
	initialize := m.Method() == protocol.MethodInitialize
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.current[caller]
	if d != nil && (initialize || d.ctx.Err() != nil) {
		s.retire(d)
		d = nil
	}
	if s.stopping {
		return nil, draining()
	}
	if d == nil {
		if refusal := s.admit(); refusal != nil {
			return nil, refusal
		}
		d = &desk{
			server: s, caller: caller, greets: !initialize,
			notes: make(chan *dragoman.Message, maxNotes), calls: make(map[*http.Request]deskCall),
		}
		d.ctx, d.cancel = context.WithCancelCause(context.Background())
		d.idle = time.AfterFunc(cmp.Or(s.IdleTimeout, DefaultIdleTimeout), func() { s.expire(d) })
		if s.desks == nil {
			s.desks, s.current = make(map[*desk]struct{}), make(map[string]*desk)
		}
		s.desks[d] = struct{}{}
		s.current[caller] = d
	}
	d.busy++
	d.idle.Stop()
	s.serving.Add(1)
	return d, nil
}

// leave ends a desk that is retired once nothing is under way at it, and lets
// others be ended later.
func (s *Server) leave(d *desk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.serving.Done()
	if d.err != nil {
		s.retire(d) // the next message tries anew
	}
	if d.busy--; d.busy > 0 {
		return
	}
	if d.retired {
		s.remove(d)
		return
	}
	d.idle.Reset(cmp.Or(s.IdleTimeout, DefaultIdleTimeout))
}

// expire ends a desk that nobody has used for long.
func (s *Server) expire(d *desk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.busy == 0 {
		s.retire(d)
	}
}

// retire makes a desk end when nothing is under way at it. s.mu is locked.
func (s *Server) retire(d *desk) {
	d.retired = true
	if s.current[d.caller] == d {
		delete(s.current, d.caller)
	}
	if d.busy == 0 {
		s.remove(d)
	}
}

// remove ends a desk. s.mu is locked.
func (s *Server) remove(d *desk) {
	d.idle.Stop()
	delete(s.desks, d)
	d.end(dragoman.ErrClosed)
}

// open finds who answers, and makes the handshake if the caller does not. The
// caller whose request it was may leave: others may wait for the same desk.
func (d *desk) open(r *http.Request) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	defer cancel(nil)
	defer context.AfterFunc(d.ctx, func() { cancel(d.Err()) })()
	d.err = errUnaccepted // until it is known better
	d.peer, d.err = d.server.Acceptor.Accept(ctx, d)
	if d.err == nil && d.greets {
		d.err = d.greet(ctx)
	}
	if d.err != nil {
		d.end(dragoman.Closed(d.err))
		return
	}
	go d.deliver() // ends with the conversation
}

// errUnaccepted is why nobody answers at a desk where that went wrong.
var errUnaccepted = errors.New("sse: the server failed to accept the client")

// greet makes the handshake.
func (d *desk) greet(ctx context.Context) error {
	hello, err := dragoman.NewRequest(dragoman.StringID("hello"), protocol.MethodInitialize, map[string]any{
		"protocolVersion": protocol.V20241105.String(),
		"capabilities":    struct{}{},
		"clientInfo":      map[string]string{"name": "dragoman", "version": dragoman.Version},
	})
	if err != nil {
		return err
	}
	resp, err := d.peer.Call(ctx, hello, nil)
	switch {
	case err != nil:
		return err
	case resp == nil:
		return errUnaccepted
	case resp.IsError():
		return resp.RPCError()
	}
	note, err := dragoman.NewNotification(protocol.NoteInitialized, nil)
	if err != nil {
		return err
	}
	return d.peer.Notify(ctx, note)
}

// ask returns the answer to a request. It is cancelled when the caller leaves.
func (d *desk) ask(r *http.Request, req *dragoman.Message) (resp *dragoman.Message) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer context.AfterFunc(d.ctx, func() { cancel(d.Err()) })()
	d.mu.Lock()
	d.calls[r] = deskCall{req.ID().Key(), cancel}
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		delete(d.calls, r)
		d.mu.Unlock()
		if p := recover(); p != nil {
			d.server.logger().Error("panic while serving a request", "method", req.Method(), "panic", p, "stack", string(debug.Stack()))
			resp = req.Fail(&dragoman.Error{Code: protocol.CodeInternal, Message: "Internal error: the server failed on this request"})
		}
	}()
	resp, err := d.peer.Call(ctx, req, d)
	if err == nil && resp == nil {
		err = fmt.Errorf("no answer to %q", req.Method())
	}
	if err != nil {
		return protocol.Failure(req, err)
	}
	return resp
}

// take passes on a notification, if there is room. That a request is cancelled
// counts if it is clear which one is meant. The handshake keeps its order.
func (d *desk) take(note *dragoman.Message) bool {
	switch note.Method() {
	case protocol.NoteCancelled:
		if id, ok := dragoman.ParseID(note.Get("requestId")); ok {
			d.stop(id.Key())
		}
		return true
	case protocol.NoteInitialized:
		d.tell(note)
		return true
	}
	n := int64(note.Len())
	if sum := d.bytes.Add(n); sum > maxNoteBytes && sum > n {
		d.bytes.Add(-n)
		return false
	}
	select {
	case d.notes <- note:
		return true
	default:
		d.bytes.Add(-n)
		return false
	}
}

// deliver tells the peer what waits, until the conversation is over.
func (d *desk) deliver() {
	for {
		select {
		case note := <-d.notes:
			d.tell(note)
			d.bytes.Add(-int64(note.Len()))
		case <-d.ctx.Done():
			return
		}
	}
}

// tell tells the peer. One that panics has at least been told.
func (d *desk) tell(note *dragoman.Message) {
	defer func() {
		if p := recover(); p != nil {
			d.server.logger().Error("panic while taking a notification", "method", note.Method(), "panic", p, "stack", string(debug.Stack()))
		}
	}()
	if err := d.peer.Notify(d.ctx, note); err != nil {
		d.server.logger().Debug("notification not taken", "method", note.Method(), "error", err)
	}
}

func (d *desk) stop(id dragoman.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var found []deskCall
	for _, c := range d.calls {
		if c.id == id {
			found = append(found, c)
		}
	}
	if len(found) == 1 {
		found[0].cancel(dragoman.ErrCancelled)
	}
}

// Call refuses questions: the caller has nowhere to answer them.
func (d *desk) Call(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	if err := d.Err(); err != nil {
		return nil, err
	}
	return req.Fail(&dragoman.Error{
		Code:    protocol.CodeMethodNotFound,
		Message: "the client has no session and so cannot be asked " + req.Method(),
	}), nil
}

// Notify tells the caller's event streams that are not used for a session.
func (d *desk) Notify(ctx context.Context, note *dragoman.Message) error {
	if err := d.Err(); err != nil {
		return err
	}
	var listeners []*session
	d.server.mu.Lock()
	for _, c := range d.server.sessions {
		if c.key == d.caller && !c.spoken.Load() {
			listeners = append(listeners, c)
		}
	}
	d.server.mu.Unlock()
	for _, c := range listeners {
		_ = c.conn.Notify(ctx, note) // one that is cut misses it
	}
	return nil
}

// end makes the conversation over, for the first reason given.
func (d *desk) end(reason error) { d.cancel(reason) }

// Close implements dragoman.Conn.
func (d *desk) Close() error {
	d.end(dragoman.ErrClosed)
	return nil
}

// Done implements dragoman.Conn.
func (d *desk) Done() <-chan struct{} { return d.ctx.Done() }

// Err implements dragoman.Conn.
func (d *desk) Err() error { return context.Cause(d.ctx) }
