package era

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// timedConn is a conversation whose requests may not take longer than a limit. It
// counts anew with each progress, and not while the server waits for an answer.
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

// Limited passes a request on that may take so long, counted anew with each
// progress, and not while the other side waits for an answer. After that its
// context ends with an error that is a [context.DeadlineExceeded].
func Limited(ctx context.Context, to dragoman.Peer, req *dragoman.Message, from dragoman.Peer, limit time.Duration) (*dragoman.Message, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &timedCaller{peer: from, limit: limit}
	w.timer = time.AfterFunc(limit, func() {
		cancel(fmt.Errorf("%w: the server gave none within %v", context.DeadlineExceeded, limit))
	})
	defer w.timer.Stop()
	if from == nil {
		return to.Call(ctx, req, nil)
	}
	return to.Call(ctx, req, w)
}

// timedCaller is a caller whose request has a limit.
type timedCaller struct {
	peer  dragoman.Peer
	limit time.Duration
	timer *time.Timer

	mu    sync.Mutex
	asked int // questions without an answer
}

// Unwrap returns the caller itself.
func (w *timedCaller) Unwrap() dragoman.Peer { return w.peer }

// Call stops the clock while the server waits.
func (w *timedCaller) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	w.mu.Lock()
	w.asked++
	w.timer.Stop()
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.asked--; w.asked == 0 {
			w.timer.Reset(w.limit)
		}
	}()
	return w.peer.Call(ctx, req, from)
}

// Notify begins to count anew if it is about progress.
func (w *timedCaller) Notify(ctx context.Context, note *dragoman.Message) error {
	if note.Method() == protocol.NoteProgress {
		w.mu.Lock()
		if w.asked == 0 {
			w.timer.Reset(w.limit)
		}
		w.mu.Unlock()
	}
	return w.peer.Notify(ctx, note)
}
