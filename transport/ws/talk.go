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

// drainMost bounds how long requests may take after Shutdown, whose context is
// what counts.
const drainMost = 24 * time.Hour

// errNotAccepted is why a socket ends whose client nobody serves.
var errNotAccepted = errors.New("ws: the client could not be served")

// A talk is one client of a Server. Its socket owns it: the talk is over when
// that is closed.
type talk struct {
	server *Server
	socket *socket
	ctx    context.Context // of Accept
	cancel context.CancelCauseFunc

	mu   sync.Mutex
	conn *mux.Conn // nil before it is known what the client speaks
	gone bool      // no conversation may begin any more
}

// begin finds out what the client speaks and starts the conversation.
func (t *talk) begin() {
	s := t.server
	defer func() {
		if p := recover(); p != nil {
			s.logger().Error("panic while accepting a client", "panic", p, "stack", string(debug.Stack()))
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
		Limits: dragoman.Limits{MaxMessage: s.MaxMessage}, Stall: s.writeTimeout(),
		Server: true, Linger: drainMost, Logger: s.Logger,
	}
	var stream mux.Stream = t.socket
	if tools {
		stream = toolSource{t.socket}
		o.Limits.MaxMessage = -1 // the socket has looked, and a request is larger than its frame
	}
	conn := t.open(stream, &o)
	if conn == nil {
		_ = t.socket.Close()
		return
	}
	peer, err := t.accept(conn, tools)
	if err != nil {
		s.logger().Warn("client not accepted", "error", err)
		t.refuse()
		return
	}
	conn.Start(peer)
}

// isToolFrame tells whether the first message of a client is a tool frame.
func isToolFrame(frame []byte) bool {
	m, err := asParams(frame)
	return err == nil && m.Get("name") != nil && m.Get("jsonrpc") == nil && m.Get("method") == nil
}

// open makes the conversation, unless the talk has been cut meanwhile.
func (t *talk) open(stream mux.Stream, o *mux.Options) *mux.Conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone {
		return nil
	}
	t.conn = mux.New(stream, o)
	t.socket.conn = t.conn
	return t.conn
}

// accept finds who answers the client.
func (t *talk) accept(conn *mux.Conn, tools bool) (dragoman.Peer, error) {
	s := t.server
	switch {
	case tools:
		return toolDesk{s.Requests, dragoman.CallerOf(t.ctx)}, nil
	case s.Acceptor == nil:
		return dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			return req.Fail(&dragoman.Error{Code: protocol.CodeMethodNotFound, Message: "JSON-RPC is not served here; " + shape}), nil
		}}, nil
	}
	peer, err := s.Acceptor.Accept(t.ctx, conn)
	if err == nil && peer == nil {
		err = fmt.Errorf("ws: the acceptor gave neither a peer nor an error")
	}
	return peer, err
}

// refuse ends a talk that cannot begin.
func (t *talk) refuse() {
	_ = t.socket.because(verdict{websocket.StatusInternalError, "the server cannot serve this client; its log says why", errNotAccepted})
	t.end()
}

// abort cancels what is under way.
func (t *talk) abort() {
	t.cancel(errStopping)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conn != nil {
		t.conn.Abort()
	}
}

// cut ends the talk without waiting for what is under way.
func (t *talk) cut() {
	t.cancel(errStopping)
	t.end()
}

func (t *talk) end() {
	t.mu.Lock()
	conn := t.conn
	t.gone = true
	t.mu.Unlock()
	if conn != nil {
		_ = conn.Close()
		return
	}
	_ = t.socket.Close()
}

// over is called when the socket is closed.
func (t *talk) over(reason error) {
	t.cancel(reason)
	s := t.server
	s.mu.Lock()
	delete(s.open, t)
	s.mu.Unlock()
	s.logger().Debug("conversation ended", "reason", reason)
	s.release()
}
