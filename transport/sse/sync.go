package sse

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
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
	opened  atomic.Bool   // peer is set
	peer    dragoman.Peer // set by opening
	err     error         // why there is none

	// Guarded by server.mu:
	busy    int
	retired bool
	idle    *time.Timer

	inbox *jsonrpc.Inbox[struct{}] // notifications for the peer

	mu    sync.Mutex
	calls map[*httpserver.Exchange]syncCall // requests in flight; guarded by mu
}

// A syncCall is a request in flight. Two programs of one caller may use the
// same id.
type syncCall struct {
	id     dragoman.ID
	cancel context.CancelCauseFunc
}

var _ dragoman.Conn = (*syncConn)(nil)

// answer answers a message that was posted without a session.
func (s *Server) answer(x *httpserver.Exchange, m *dragoman.Message) error {
	switch {
	case m.Kind() == dragoman.Response:
		return httpserver.Refuse(http.StatusBadRequest, "nothing was asked here; answers belong to the session that asked")
	case !modern(m):
	case m.Kind() == dragoman.Request:
		x.JSON(http.StatusOK, unsupported(m).Bytes()) // no peer is needed
		return nil
	default:
		x.Accepted()
		return nil
	}
	sc, err := s.enter(x.Caller.Key(), m)
	if err != nil {
		return err
	}
	defer s.leave(sc)
	sc.opening.Do(func() { sc.open(x.Context()) })
	if sc.err != nil {
		return refuse(m, httpserver.Unavailable(protocol.Failure(m, sc.err).RPCError()))
	}
	if m.Kind() == dragoman.Notification {
		if !sc.enqueue(m) {
			return httpserver.Unavailable(protocol.Overloaded("too many notifications are waiting; send them more slowly"))
		}
		x.Accepted()
		return nil
	}
	if resp := sc.ask(x, m); resp != nil {
		status := http.StatusOK
		if resp.IsError() {
			status = cmp.Or(httpserver.RefusedStatus(resp.RPCError()), status)
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
	sc := s.current[caller]
	if sc != nil && (initialize || sc.ctx.Err() != nil) {
		s.retire(sc)
		sc = nil
	}
	if sc == nil {
		if err := s.admit(); err != nil {
			return nil, err
		}
		sc = &syncConn{
			server: s, caller: caller, needsHandshake: !initialize,
			calls: make(map[*httpserver.Exchange]syncCall),
		}
		sc.inbox = jsonrpc.NewInbox(func(note *dragoman.Message, _ struct{}) { jsonrpc.Notify(sc.ctx, sc.peer, note, s.base.Log) })
		sc.ctx, sc.cancel = context.WithCancelCause(context.Background())
		sc.idle = time.AfterFunc(s.idleTimeout(), func() { s.expire(sc) })
		s.syncConns[sc] = struct{}{}
		s.current[caller] = sc
	}
	sc.busy++
	sc.idle.Stop()
	return sc, nil
}

func (s *Server) idleTimeout() time.Duration {
	return httpframe.Duration(s.IdleTimeout, DefaultIdleTimeout)
}

// syncPeer returns the peer of the caller's conversation, nil if none is open.
func (s *Server) syncPeer(caller string) dragoman.Peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sc := s.current[caller]; sc != nil && sc.opened.Load() {
		return sc.peer
	}
	return nil
}

// leave ends a conversation that is retired once nothing is in progress in it, and lets
// others be ended later.
func (s *Server) leave(sc *syncConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sc.err != nil {
		s.retire(sc) // the next message tries again
	}
	if sc.busy--; sc.busy > 0 {
		return
	}
	if sc.retired {
		s.remove(sc)
		return
	}
	sc.idle.Reset(s.idleTimeout())
}

// expire ends a conversation that has been idle for IdleTimeout.
func (s *Server) expire(sc *syncConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sc.busy == 0 {
		s.retire(sc)
	}
}

// retire makes a conversation end when nothing is in progress in it. s.mu is locked.
func (s *Server) retire(sc *syncConn) {
	sc.retired = true
	if s.current[sc.caller] == sc {
		delete(s.current, sc.caller)
	}
	if sc.busy == 0 {
		s.remove(sc)
	}
}

// remove ends a conversation. s.mu is locked.
func (s *Server) remove(sc *syncConn) {
	sc.idle.Stop()
	delete(s.syncConns, sc)
	sc.end(dragoman.ErrClosed)
}

// endSyncConns ends all conversations, when there are no requests any more.
func (s *Server) endSyncConns() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for sc := range s.syncConns {
		sc.end(dragoman.Closed(errServerClosed))
		s.retire(sc)
	}
}

// open finds the peer, and makes the handshake if the caller does not. The
// caller whose request it was may leave: others may wait for the same conversation.
func (sc *syncConn) open(ctx context.Context) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(sc.ctx, func() { cancel(sc.Err()) })()
	sc.err = errUnaccepted // until it is known better
	sc.peer, sc.err = sc.server.Acceptor.Accept(ctx, sc)
	sc.opened.Store(true)
	if sc.err == nil && sc.needsHandshake {
		sc.err = sc.handshake(ctx)
	}
	if sc.err != nil {
		sc.end(dragoman.Closed(sc.err))
	}
}

// errUnaccepted is the error of an Acceptor that panicked or returned nothing.
var errUnaccepted = errors.New("sse: the server failed to accept the client")

// handshake makes the handshake.
func (sc *syncConn) handshake(ctx context.Context) error {
	hello, err := dragoman.NewRequest(dragoman.StringID("hello"), protocol.MethodInitialize, map[string]any{
		"protocolVersion": protocol.V20241105.String(),
		"capabilities":    struct{}{},
		"clientInfo":      map[string]string{"name": "dragoman", "version": dragoman.Version},
	})
	if err != nil {
		return err
	}
	resp, err := sc.peer.Call(ctx, hello, nil)
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
	return sc.peer.Notify(ctx, note)
}

// ask returns the answer to a request, or nil if it was cancelled. It is cancelled when
// the caller leaves.
func (sc *syncConn) ask(x *httpserver.Exchange, req *dragoman.Message) *dragoman.Message {
	ctx, cancel := x.CallContext()
	defer cancel(nil)
	defer context.AfterFunc(sc.ctx, func() { cancel(sc.Err()) })()
	sc.mu.Lock()
	sc.calls[x] = syncCall{req.ID().Key(), cancel}
	sc.mu.Unlock()
	defer func() {
		sc.mu.Lock()
		defer sc.mu.Unlock()
		delete(sc.calls, x)
	}()
	return jsonrpc.Serve(ctx, sc.peer, req, sc, sc.server.base.Log)
}

// enqueue passes on a notification, if there is room. That a request is cancelled
// counts if it is clear which one is meant. The handshake keeps its order.
func (sc *syncConn) enqueue(note *dragoman.Message) bool {
	switch note.Method() {
	case protocol.NoteCancelled:
		if id, ok := dragoman.ParseID(note.Get("requestId")); ok {
			sc.stop(id.Key())
		}
		return true
	case protocol.NoteInitialized:
		jsonrpc.Notify(sc.ctx, sc.peer, note, sc.server.base.Log)
		return true
	}
	return sc.inbox.Put(note, struct{}{})
}

func (sc *syncConn) stop(id dragoman.ID) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	var found []syncCall
	for _, c := range sc.calls {
		if c.id == id {
			found = append(found, c)
		}
	}
	if len(found) == 1 {
		found[0].cancel(dragoman.ErrCancelled)
	}
}

// Call refuses questions: the caller has nowhere to answer them.
func (sc *syncConn) Call(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	if err := sc.Err(); err != nil {
		return nil, err
	}
	return req.Fail(&dragoman.Error{
		Code:    protocol.CodeMethodNotFound,
		Message: "the client has no session and so cannot be asked " + req.Method(),
	}), nil
}

// Notify writes to the caller's event streams that are not used for a session.
func (sc *syncConn) Notify(ctx context.Context, note *dragoman.Message) error {
	if err := sc.Err(); err != nil {
		return err
	}
	var listeners []*session
	sc.server.mu.Lock()
	for _, ss := range sc.server.sessions {
		if ss.key == sc.caller && !ss.used.Load() {
			listeners = append(listeners, ss)
		}
	}
	sc.server.mu.Unlock()
	for _, ss := range listeners {
		_ = ss.conn.Notify(ctx, note) // one that is cut misses it
	}
	return nil
}

// end ends the conversation, for the first reason given.
func (sc *syncConn) end(reason error) {
	sc.inbox.Close()
	sc.cancel(reason)
}

// Close implements dragoman.Conn.
func (sc *syncConn) Close() error {
	sc.end(dragoman.ErrClosed)
	return nil
}

// AfterDone has f called when the conversation is over, on a goroutine of its own, unless
// stop is called before.
func (sc *syncConn) AfterDone(f func()) (stop func() bool) { return context.AfterFunc(sc.ctx, f) }

// Done implements dragoman.Conn.
func (sc *syncConn) Done() <-chan struct{} { return sc.ctx.Done() }

// Err implements dragoman.Conn.
func (sc *syncConn) Err() error { return context.Cause(sc.ctx) }
