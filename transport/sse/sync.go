package sse

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/internal/rpc"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A syncConn is the conversation of a caller who posts without a session: there is
// one for each caller. Requests are answered in the response; notifications
// go to the event streams of the caller whose sessions are not used otherwise; the caller cannot be asked. It is opened by the first message, and
// by every initialize after it, which retires the one before. If the first message
// is no initialize, it makes the handshake itself.
//
// It is the Conn that the Acceptor is given, and the from of its requests.
type syncConn struct {
	server         *Server
	caller         string
	needsHandshake bool // the handshake is ours to make
	ctx            context.Context
	cancel         context.CancelCauseFunc

	opening sync.Once
	peer    dragoman.Peer // set by opening
	err     error         // why there is none

	// Guarded by server.mu:
	busy    int
	retired bool
	idle    *time.Timer

	inbox *rpc.Inbox[struct{}] // notifications for the peer

	mu    sync.Mutex
	calls map[*httpx.Exchange]syncCall // requests under way; guarded by mu
}

// A syncCall is a request under way. Two programs of one caller may use the
// same id.
type syncCall struct {
	id     dragoman.ID
	cancel context.CancelCauseFunc
}

var _ dragoman.Conn = (*syncConn)(nil)

// answer answers a message that was posted without a session.
func (s *Server) answer(x *httpx.Exchange, m *dragoman.Message) error {
	switch {
	case m.Kind() == dragoman.Response:
		return httpx.Refuse(http.StatusBadRequest, "nothing was asked here; answers belong to the session that asked")
	case !modern(m):
	case m.Kind() == dragoman.Request:
		x.JSON(http.StatusOK, unsupported(m).Bytes()) // no peer is needed
		return nil
	default:
		x.Accepted()
		return nil
	}
	d, err := s.enter(x.Caller.Key(), m)
	if err != nil {
		return err
	}
	defer s.leave(d)
	d.opening.Do(func() { d.open(x.Context()) })
	if d.err != nil {
		return refuse(m, httpx.Unavailable(protocol.Failure(m, d.err).RPCError()))
	}
	if m.Kind() == dragoman.Notification {
		if !d.enqueue(m) {
			return httpx.Unavailable(protocol.Overloaded("too many notifications are waiting; send them more slowly"))
		}
		x.Accepted()
		return nil
	}
	if resp := d.ask(x, m); resp != nil {
		status := http.StatusOK
		if resp.IsError() {
			status = cmp.Or(httpx.RefusedStatus(resp.RPCError()), status)
		}
		x.JSON(status, resp.Bytes())
	} else {
		x.Accepted() // a client that has cancelled it wants no answer
	}
	return nil
}

// enter returns the caller's conversation, and keeps it open until leave.
func (s *Server) enter(caller string, m *dragoman.Message) (*syncConn, error) {
	initialize := m.Method() == protocol.MethodInitialize
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.current[caller]
	if d != nil && (initialize || d.ctx.Err() != nil) {
		s.retire(d)
		d = nil
	}
	if d == nil {
		if err := s.admit(); err != nil {
			return nil, err
		}
		d = &syncConn{
			server: s, caller: caller, needsHandshake: !initialize,
			calls: make(map[*httpx.Exchange]syncCall),
		}
		d.inbox = rpc.NewInbox(func(note *dragoman.Message, _ struct{}) { rpc.Notify(d.ctx, d.peer, note, s.door.Log) })
		d.ctx, d.cancel = context.WithCancelCause(context.Background())
		d.idle = time.AfterFunc(s.idleTimeout(), func() { s.expire(d) })
		s.syncConns[d] = struct{}{}
		s.current[caller] = d
	}
	d.busy++
	d.idle.Stop()
	return d, nil
}

func (s *Server) idleTimeout() time.Duration {
	return httpx.Duration(s.IdleTimeout, DefaultIdleTimeout)
}

// leave ends a conversation that is retired once nothing is under way in it, and lets
// others be ended later.
func (s *Server) leave(d *syncConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
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
	d.idle.Reset(s.idleTimeout())
}

// expire ends a conversation that has been idle for IdleTimeout.
func (s *Server) expire(d *syncConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.busy == 0 {
		s.retire(d)
	}
}

// retire makes a conversation end when nothing is under way in it. s.mu is locked.
func (s *Server) retire(d *syncConn) {
	d.retired = true
	if s.current[d.caller] == d {
		delete(s.current, d.caller)
	}
	if d.busy == 0 {
		s.remove(d)
	}
}

// remove ends a conversation. s.mu is locked.
func (s *Server) remove(d *syncConn) {
	d.idle.Stop()
	delete(s.syncConns, d)
	d.end(dragoman.ErrClosed)
}

// endSyncConns ends all conversations, when there are no requests any more.
func (s *Server) endSyncConns() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for d := range s.syncConns {
		d.end(dragoman.Closed(errServerClosed))
		s.retire(d)
	}
}

// open finds the peer, and makes the handshake if the caller does not. The
// caller whose request it was may leave: others may wait for the same conversation.
func (d *syncConn) open(ctx context.Context) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(d.ctx, func() { cancel(d.Err()) })()
	d.err = errUnaccepted // until it is known better
	d.peer, d.err = d.server.Acceptor.Accept(ctx, d)
	if d.err == nil && d.needsHandshake {
		d.err = d.handshake(ctx)
	}
	if d.err != nil {
		d.end(dragoman.Closed(d.err))
	}
}

// errUnaccepted is the error of an Acceptor that panicked or returned nothing.
var errUnaccepted = errors.New("sse: the server failed to accept the client")

// handshake makes the handshake.
func (d *syncConn) handshake(ctx context.Context) error {
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

// ask returns the answer to a request, or nil if it was cancelled. It is cancelled when
// the caller leaves.
func (d *syncConn) ask(x *httpx.Exchange, req *dragoman.Message) *dragoman.Message {
	ctx, cancel := x.CallContext()
	defer cancel(nil)
	defer context.AfterFunc(d.ctx, func() { cancel(d.Err()) })()
	d.mu.Lock()
	d.calls[x] = syncCall{req.ID().Key(), cancel}
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.calls, x)
	}()
	return rpc.Serve(ctx, d.peer, req, d, d.server.door.Log)
}

// enqueue passes on a notification, if there is room. That a request is cancelled
// counts if it is clear which one is meant. The handshake keeps its order.
func (d *syncConn) enqueue(note *dragoman.Message) bool {
	switch note.Method() {
	case protocol.NoteCancelled:
		if id, ok := dragoman.ParseID(note.Get("requestId")); ok {
			d.stop(id.Key())
		}
		return true
	case protocol.NoteInitialized:
		rpc.Notify(d.ctx, d.peer, note, d.server.door.Log)
		return true
	}
	return d.inbox.Put(note, struct{}{})
}

func (d *syncConn) stop(id dragoman.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var found []syncCall
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
func (d *syncConn) Call(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	if err := d.Err(); err != nil {
		return nil, err
	}
	return req.Fail(&dragoman.Error{
		Code:    protocol.CodeMethodNotFound,
		Message: "the client has no session and so cannot be asked " + req.Method(),
	}), nil
}

// Notify writes to the caller's event streams that are not used for a session.
func (d *syncConn) Notify(ctx context.Context, note *dragoman.Message) error {
	if err := d.Err(); err != nil {
		return err
	}
	var listeners []*session
	d.server.mu.Lock()
	for _, c := range d.server.sessions {
		if c.key == d.caller && !c.used.Load() {
			listeners = append(listeners, c)
		}
	}
	d.server.mu.Unlock()
	for _, c := range listeners {
		_ = c.conn.Notify(ctx, note) // one that is cut misses it
	}
	return nil
}

// end ends the conversation, for the first reason given.
func (d *syncConn) end(reason error) {
	d.inbox.Close()
	d.cancel(reason)
}

// Close implements dragoman.Conn.
func (d *syncConn) Close() error {
	d.end(dragoman.ErrClosed)
	return nil
}

// AfterDone has f called when the conversation is over, on a goroutine of its own, unless
// stop is called before.
func (d *syncConn) AfterDone(f func()) (stop func() bool) { return context.AfterFunc(d.ctx, f) }

// Done implements dragoman.Conn.
func (d *syncConn) Done() <-chan struct{} { return d.ctx.Done() }

// Err implements dragoman.Conn.
func (d *syncConn) Err() error { return context.Cause(d.ctx) }
