package ws

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/mux"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// cutWait is how long a close may take when Shutdown has run out of time.
const cutWait = 50 * time.Millisecond

// errNotAccepted is why a socket ends whose client nobody serves.
var errNotAccepted = errors.New("ws: the client could not be served")

// A conn is one client of a Server. Its socket owns it: the conn is over when that is
// closed.
type conn struct {
	server  *Server
	socket  *socket
	release func()          // tells the door that it is over
	ctx     context.Context // of Accept
	cancel  context.CancelCauseFunc

	mu   sync.Mutex
	mux  *mux.Conn // nil before it is known what the client speaks
	gone bool      // no conversation may begin any more
}

// start finds out what the client speaks and starts the conversation.
func (t *conn) start() {
	s := t.server
	defer func() {
		if p := recover(); p != nil {
			s.door.Log.Error("panic while accepting a client", "panic", p, "stack", string(debug.Stack()))
			t.refuse()
		}
	}()
	tools := false
	if t.socket.ws.Subprotocol() == "" {
		first, err := t.socket.Read()
		if err != nil {
			_ = t.socket.Close()
			return
		}
		t.socket.first = first
		tools = isToolFrame(first)
	}
	o := mux.Options{
		Limits: s.door.Limits, Stall: t.socket.pings.within, Server: true, Logger: s.Logger,
	}
	var stream mux.Stream = t.socket
	if tools {
		stream = toolSource{t.socket}
		o.Limits.MaxMessage = -1 // the socket has looked, and a request is larger than its frame
	}
	m := t.open(stream, &o)
	if m == nil {
		_ = t.socket.Close()
		return
	}
	peer, err := t.accept(m, tools)
	if err != nil {
		s.door.Log.Warn("client not accepted", "error", err)
		t.refuse()
		return
	}
	m.Start(peer)
}

// isToolFrame reports whether the first message of a client is a tool frame.
func isToolFrame(frame []byte) bool {
	m, err := asParams(frame)
	return err == nil && m.Get("name") != nil && m.Get("jsonrpc") == nil && m.Get("method") == nil
}

// open makes the conversation, unless that has been cut meanwhile.
func (t *conn) open(stream mux.Stream, o *mux.Options) *mux.Conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone {
		return nil
	}
	t.mux = mux.New(stream, o)
	t.socket.conn = t.mux
	return t.mux
}

// accept finds who answers the client.
func (t *conn) accept(m *mux.Conn, tools bool) (dragoman.Peer, error) {
	s := t.server
	switch {
	case tools:
		return toolDesk{s.Requests, dragoman.CallerOf(t.ctx)}, nil
	case s.Acceptor == nil:
		return dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			return req.Fail(&dragoman.Error{Code: protocol.CodeMethodNotFound, Message: "JSON-RPC is not served here; " + shape}), nil
		}}, nil
	}
	peer, err := s.Acceptor.Accept(t.ctx, m)
	if err == nil && peer == nil {
		err = fmt.Errorf("ws: the acceptor gave neither a peer nor an error")
	}
	return peer, err
}

// refuse ends a conn that cannot begin.
func (t *conn) refuse() {
	_ = t.socket.because(verdict{websocket.StatusInternalError, "the server cannot serve this client; its log says why", errNotAccepted})
	t.end()
}

// shutdown ends the conn when what is under way is answered, or ctx ends: then what is
// not is told that it is lost, and a client that does not read is cut.
func (t *conn) shutdown(ctx context.Context) {
	t.mu.Lock()
	m := t.mux
	t.mu.Unlock()
	if m != nil && m.Finish(ctx) != nil {
		defer time.AfterFunc(cutWait, t.socket.wire.cut).Stop()
	}
	t.cancel(errStopping)
	_ = t.socket.because(verdict{websocket.StatusGoingAway, "the server is stopping", errStopping})
	t.end()
}

func (t *conn) end() {
	t.mu.Lock()
	m := t.mux
	t.gone = true
	t.mu.Unlock()
	if m != nil {
		_ = m.Close()
		return
	}
	_ = t.socket.Close()
}

// closed is called when the socket is.
func (t *conn) closed(reason error) {
	t.cancel(reason)
	t.server.door.Log.Debug("conversation ended", "reason", reason)
	t.release()
}
