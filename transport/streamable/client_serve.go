package streamable

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// clientServed is the table of what the server asked and has no answer to.
type clientServed struct {
	mu   sync.Mutex
	open map[dragoman.ID]*clientAsked // by ID.Key
	busy int                          // goroutines
	idle chan struct{}                // closed when there are none; nil while nobody waits
}

// A clientAsked is one request of the server. It is the from of the peer that
// answers it.
type clientAsked struct {
	conn    *clientConn
	req     *dragoman.Message
	session *clientSession
	ctx     context.Context // ends with the conversation, and when the server cancels the request
	cancel  context.CancelCauseFunc

	call *clientCall // whose caller is asked, or nil; owned by the goroutine that answers

	mu   sync.Mutex
	mark uint64 // guarded by mu: the last notification that must go before the answer
}

// serve answers a request of the server on a goroutine of its own: who made the
// call on whose stream it came is asked, or else the local peer.
func (c *clientConn) serve(req *dragoman.Message, from clientSource) {
	a := &clientAsked{conn: c, req: req, session: from.session}
	if k := from.call; k != nil && k.ask() {
		a.call = k
	}
	a.ctx, a.cancel = context.WithCancelCause(c.ctx)
	if refusal := c.served.add(a); refusal != nil {
		if a.call != nil {
			a.call.asked()
		}
		a.cancel(nil)
		c.refuse(req.Fail(refusal), a.session)
		return
	}
	// Ends when the peer has answered and the server has the answer, at the
	// latest with the conversation if the peer heeds its context.
	go func() {
		defer c.served.leave()
		resp := a.ask()
		c.served.remove(a)
		if resp != nil {
			a.reply(resp)
		}
		a.cancel(nil)
	}()
}

// ask returns the answer to the request, or nil if it was cancelled. If the call of
// its stream has been answered meanwhile, but there are others, then the server may
// have asked on the stream of the wrong one, and the local peer is asked.
func (a *clientAsked) ask() *dragoman.Message {
	c, k := a.conn, a.call
	if k == nil {
		return a.answer(a.ctx, c.local)
	}
	ctx, cancel := context.WithCancelCause(k.ctx)
	defer cancel(nil)
	defer context.AfterFunc(a.ctx, func() { cancel(context.Cause(a.ctx)) })()
	resp := a.answer(ctx, k.from)
	k.asked()
	if ctx.Err() == nil || a.ctx.Err() != nil || resp == nil || !resp.IsError() {
		return resp
	}
	select {
	case <-k.gone:
	case <-c.ctx.Done():
		return resp
	}
	c.mu.Lock()
	others := len(c.calls) > 0
	c.mu.Unlock()
	if !k.answered || !others {
		return resp
	}
	a.call = nil
	return a.answer(a.ctx, c.local)
}

// refuse sends an answer in the background. Answers that find no room in the
// table of requests are dropped: the server asks faster than it takes answers.
func (c *clientConn) refuse(resp *dragoman.Message, s *clientSession) {
	c.served.mu.Lock()
	full := c.served.busy >= 2*clientMaxServed
	if !full {
		c.served.busy++
	}
	c.served.mu.Unlock()
	if full {
		return
	}
	// Ends when the server has the answer, or with the conversation.
	go func() {
		defer c.served.leave()
		if err := c.repeat(c.ctx, c.ctx, resp, s); err != nil {
			c.log.Debug("answer not taken by the server", "error", err)
		}
	}()
}

// ask reserves the caller for a question of the server. It returns false when
// the call is over or nobody takes questions.
func (k *clientCall) ask() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.shut || k.from == nil {
		return false
	}
	k.asking++
	k.asks.Add(1)
	return true
}

// asked ends a question. From now on the server's work takes the time.
func (k *clientCall) asked() {
	k.extend()
	k.mu.Lock()
	k.asking--
	k.mu.Unlock()
	k.asks.Done()
}

// answer returns the answer of peer, or nil if the request was cancelled.
func (a *clientAsked) answer(ctx context.Context, peer dragoman.Peer) (resp *dragoman.Message) {
	defer func() {
		if p := recover(); p != nil {
			a.conn.log.Error("panic while serving a request", "method", a.req.Method(), "panic", p, "stack", string(debug.Stack()))
			resp = a.req.Fail(protocol.Panicked())
		}
	}()
	resp, err := peer.Call(ctx, a.req, a)
	if resp = protocol.ResponseOf(ctx, a.req, resp, err); resp != nil && resp.Len() > a.conn.opts.limits.Message() {
		return protocol.Failure(a.req, dragoman.ErrTooLarge)
	}
	return resp
}

// reply sends the answer, behind what was told before it.
func (a *clientAsked) reply(resp *dragoman.Message) {
	c := a.conn
	a.mu.Lock()
	mark := a.mark
	a.mu.Unlock()
	if k := a.call; k != nil && k.ctx.Err() != nil {
		// The server should learn first that the call is cancelled.
		select {
		case <-k.gone:
			mark = max(mark, k.mark)
		case <-c.ctx.Done():
			return
		}
	}
	_ = c.out.sent(c.ctx, mark) // the answer goes out in any case
	if c.ctx.Err() != nil {
		return
	}
	while := c.ctx
	if a.call != nil {
		while = a.call.ctx // nobody waits for the answer after it
	}
	if err := c.repeat(c.ctx, while, resp, a.session); err != nil && c.ctx.Err() == nil {
		c.log.Warn("answer not taken by the server", "method", a.req.Method(), "error", err)
		if errors.Is(err, ErrSessionGone) {
			c.gone(a.session)
		}
	}
}

// Call asks the server, from inside the request that it made.
func (a *clientAsked) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	return a.conn.Call(ctx, req, from)
}

// Notify tells the server, unless it has cancelled the request: then it wants to
// hear no more of it.
func (a *clientAsked) Notify(_ context.Context, note *dragoman.Message) error {
	if a.ctx.Err() != nil {
		return context.Cause(a.ctx)
	}
	mark, err := a.conn.send(note, a.session)
	a.mu.Lock()
	a.mark = max(a.mark, mark)
	a.mu.Unlock()
	return err
}

// add enters a request, or returns why it is refused.
func (t *clientServed) add(a *clientAsked) *dragoman.Error {
	key := a.req.ID().Key()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open[key] != nil {
		return protocol.IDInUse(a.req)
	}
	if len(t.open) >= clientMaxServed {
		return protocol.Overloaded(fmt.Sprintf("%d requests are under way already; wait for answers before you send more", clientMaxServed))
	}
	t.open[key] = a
	t.busy++
	return nil
}

func (t *clientServed) remove(a *clientAsked) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, a.req.ID().Key())
}

func (t *clientServed) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy--
	if t.busy == 0 && t.idle != nil {
		close(t.idle)
		t.idle = nil
	}
}

// stop cancels the request with that id, and tells whether there is one.
func (t *clientServed) stop(id dragoman.ID) bool {
	t.mu.Lock()
	a := t.open[id.Key()]
	t.mu.Unlock()
	if a != nil {
		a.cancel(dragoman.ErrCancelled)
	}
	return a != nil
}

// wait returns when nothing is served, or after limit.
func (t *clientServed) wait(limit time.Duration) {
	t.mu.Lock()
	if t.busy == 0 {
		t.mu.Unlock()
		return
	}
	if t.idle == nil {
		t.idle = make(chan struct{})
	}
	idle := t.idle
	t.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
}
