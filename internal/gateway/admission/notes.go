package admission

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/event"
	"github.com/dragoman-mcp/dragoman/internal/gateway/upstream"
	"github.com/dragoman-mcp/dragoman/internal/util/limit"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// limitedNotes takes the notifications of clients, which count for the rates of the session and the
// caller, and refuses requests without an id.
type limitedNotes struct {
	dragoman.Peer
	admission *Admission
	caller    *dragoman.Caller // of a session; nil if each message has its own
	key       string           // what the caller of a session counts as
	rate      *limit.Bucket    // of a session; nil if there is no limit
	began     *atomic.Bool     // the client of a session has said that it is initialized
}

// Unwrap returns what the endpoint serves.
func (n limitedNotes) Unwrap() dragoman.Peer { return n.Peer }

// Notify implements dragoman.Peer. A cancellation always passes, since it ends work, and so does the first
// notifications/initialized of a session: initialize has been counted.
func (n limitedNotes) Notify(ctx context.Context, note *dragoman.Message) error {
	if jsonrpc.LacksID(note) { // a transport that is not ours
		n.LacksID(ctx, note)
		return nil
	}
	switch first := n.began; {
	case note.Method() == protocol.NoteCancelled, note.Method() == protocol.NoteInitialized && first != nil && first.CompareAndSwap(false, true):
		return n.Peer.Notify(ctx, note)
	}
	e := n.admission
	if wait := n.rate.Take(); wait > 0 {
		return upstream.TooOften(protocol.LimitSession, "too many requests and notifications of one session (limits.rate)", e.limits.Rate, wait)
	}
	if e.rates != nil {
		_, key := n.callerOf(ctx)
		if wait := e.rates.Take(key); wait > 0 {
			n.rate.Return()
			return e.callerTooOften(wait)
		}
	}
	return n.Peer.Notify(ctx, note)
}

// LacksID implements rpc.Refuser.
func (n limitedNotes) LacksID(ctx context.Context, m *dragoman.Message) {
	caller, _ := n.callerOf(ctx)
	n.admission.lacksID(ctx, caller, m)
}

// callerOf returns the caller of a message, and what it counts as.
func (n limitedNotes) callerOf(ctx context.Context) (caller *dragoman.Caller, key string) {
	if n.caller != nil {
		return n.caller, n.key
	}
	caller = dragoman.CallerOf(ctx)
	return caller, limitKey(caller)
}

// noIDAgain is how long the log is silent on requests without an id after one.
const noIDAgain = time.Minute

// noID counts the requests that clients sent without an id, so that they were not passed on.
type noID struct {
	count atomic.Int64

	mu     sync.Mutex
	logged time.Time // when one was logged last; guarded by mu
	before int64     // what count was then; guarded by mu
}

// WithoutID returns how many requests without an id were refused.
func (e *Admission) WithoutID() int64 { return e.noID.count.Load() }

// lacksID counts and reports a request without an id, and logs the first in a minute.
func (e *Admission) lacksID(ctx context.Context, caller *dragoman.Caller, m *dragoman.Message) {
	c := &e.noID
	count, now := c.count.Add(1), time.Now()
	e.by.Event(ctx, &event.Event{
		Kind: event.Denied, Request: httpframe.RequestID(ctx), Caller: caller, Method: m.Method(), Name: cmp.Or(m.Name(), m.URI()),
		Rule: "request without an id", Code: protocol.CodeInvalidRequest,
	})
	c.mu.Lock()
	first := c.logged.IsZero() || now.Sub(c.logged) >= noIDAgain
	var more int64
	if first {
		more = count - c.before - 1
		c.logged, c.before = now, count
	}
	c.mu.Unlock()
	if first {
		e.log.Warn("request without an id refused", "method", redact.Clip(m.Method()), "client", cmp.Or(caller.Principal, caller.Client, caller.Address, caller.Transport), "more", more)
	}
}
