package era

import (
	"context"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// timedConn is a conversation whose requests may not take longer than a limit. It
// counts again with each progress, and not while the server waits for an answer.
// A subscription has no limit.
type timedConn struct {
	dragoman.Conn
	limit time.Duration
}

// withTimeout limits the requests of a conversation, which costs less if that does it itself.
func withTimeout(conn dragoman.Conn, limit time.Duration) dragoman.Conn {
	if l, ok := dragoman.PeerAs[dragoman.CallLimiter](conn); ok {
		l.LimitCalls(limit)
		return conn
	}
	return timedConn{conn, limit}
}

// Unwrap returns the conversation itself.
func (t timedConn) Unwrap() dragoman.Conn { return t.Conn }

// Call implements dragoman.Peer.
func (t timedConn) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if protocol.Lasts(req.Method()) {
		return t.Conn.Call(ctx, req, from)
	}
	return Limited(ctx, t.Conn, req, from, t.limit)
}

// Limited passes a request on that may take so long, counted again from each
// progress, and not while the other side waits for an answer. After that its
// context ends with a *[dragoman.TimeoutError].
func Limited(ctx context.Context, to dragoman.Peer, req *dragoman.Message, from dragoman.Peer, limit time.Duration) (*dragoman.Message, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	clock := jsonrpc.NewCallClock(limit, 0, func(e *dragoman.TimeoutError) { cancel(e) })
	defer clock.Stop()
	if from == nil {
		return to.Call(ctx, req, nil)
	}
	return to.Call(ctx, req, &timedCaller{from, clock})
}

// timedCaller is a caller whose request has a limit.
type timedCaller struct {
	dragoman.Peer
	clock *jsonrpc.CallClock
}

// Unwrap returns the caller itself.
func (w *timedCaller) Unwrap() dragoman.Peer { return w.Peer }

// Call stops the clock while the server waits.
func (w *timedCaller) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	defer w.clock.Pause()()
	return w.Peer.Call(ctx, req, from)
}

// Notify counts the time again if it is about progress.
func (w *timedCaller) Notify(ctx context.Context, note *dragoman.Message) error {
	if note.Method() == protocol.NoteProgress {
		w.clock.Renew()
	}
	return w.Peer.Notify(ctx, note)
}
