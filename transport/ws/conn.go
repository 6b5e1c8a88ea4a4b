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

// errNotAccepted is why a socket ends whose client is not accepted.
var errNotAccepted = errors.New("ws: the client could not be served")

// A conn is one client of a Server. Its socket owns it: the conn is over when that is
// closed.
type conn struct {
	server  *Server
	socket  *socket
	release func()          // ends the exchange of the door
	ctx     context.Context // of Accept
	cancel  context.CancelCauseFunc

	mu      sync.Mutex
	mux     *mux.Conn // nil before it is known what the client speaks
	closing bool      // no conversation may be opened any more
}

// start finds out what the client speaks and starts the conversation.
func (c *conn) start() {
	s := c.server
	defer func() {
		if p := recover(); p != nil {
			s.door.Log.Error("panic while accepting a client", "panic", p, "stack", string(debug.Stack()))
			c.refuse()
		}
	}()
	tools := false
	if c.socket.ws.Subprotocol() == "" {
		first, err := c.socket.Read()
		if err != nil {
			_ = c.socket.Close()
			return
		}
		c.socket.first = first
		tools = isToolFrame(first)
	}
	o := mux.Options{
		Limits: s.door.Limits, Stall: c.socket.pings.timeout, Server: true, Logger: s.Logger,
	}
	var stream mux.Stream = c.socket
	if tools {
		stream = toolSource{c.socket}
		o.Limits.MaxMessage = -1 // the socket has checked it, and a request is larger than its frame
	}
	m := c.open(stream, &o)
	if m == nil {
		_ = c.socket.Close()
		return
	}
	peer, err := c.accept(m, tools)
	if err != nil {
		s.door.Log.Warn("client not accepted", "error", err)
		c.refuse()
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
func (c *conn) open(stream mux.Stream, o *mux.Options) *mux.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return nil
	}
	c.mux = mux.New(stream, o)
	c.socket.conn = c.mux
	return c.mux
}

// accept returns the peer that answers the client.
func (c *conn) accept(m *mux.Conn, tools bool) (dragoman.Peer, error) {
	s := c.server
	switch {
	case tools:
		return toolPeer{s.Requests, dragoman.CallerOf(c.ctx)}, nil
	case s.Acceptor == nil:
		return dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			return req.Fail(&dragoman.Error{Code: protocol.CodeMethodNotFound, Message: "JSON-RPC is not served here; " + frameShape}), nil
		}}, nil
	}
	peer, err := s.Acceptor.Accept(c.ctx, m)
	if err == nil && peer == nil {
		err = fmt.Errorf("ws: the acceptor returned neither a peer nor an error")
	}
	return peer, err
}

// refuse ends a conn that cannot begin.
func (c *conn) refuse() {
	_ = c.socket.setReason(closeReason{websocket.StatusInternalError, "the server cannot serve this client; its log says why", errNotAccepted})
	c.end()
}

// shutdown ends the conn when what is under way is answered, or ctx ends: then what is
// not is answered as lost, and the connection of a client that does not read is cut.
func (c *conn) shutdown(ctx context.Context) {
	c.mu.Lock()
	m := c.mux
	c.mu.Unlock()
	if m != nil && m.Finish(ctx) != nil {
		defer time.AfterFunc(cutWait, c.socket.wire.cut).Stop()
	}
	c.cancel(errStopping)
	_ = c.socket.setReason(closeReason{websocket.StatusGoingAway, "the server is stopping", errStopping})
	c.end()
}

func (c *conn) end() {
	c.mu.Lock()
	m := c.mux
	c.closing = true
	c.mu.Unlock()
	if m != nil {
		_ = m.Close()
		return
	}
	_ = c.socket.Close()
}

// closed is called when the socket is.
func (c *conn) closed(reason error) {
	c.cancel(reason)
	c.server.door.Log.Debug("conversation ended", "reason", reason)
	c.release()
}
