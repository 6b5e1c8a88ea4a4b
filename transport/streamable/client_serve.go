package streamable

import (
	"context"
	"sync"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/rpc"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A clientQuestion is one request of the server.
type clientQuestion struct {
	conn    *clientConn
	req     *dragoman.Message
	session *clientSession

	// owned by the goroutine that answers
	call *clientCall     // whose caller is asked, or nil
	ctx  context.Context // ends with the call
	done func()          // lets the call go on

	mu   sync.Mutex
	mark uint64 // guarded by mu: the last notification that must go before the answer
}

// serve answers a request of the server on a goroutine of its own: who made the
// call on whose stream it came is asked, or else the local peer.
func (c *clientConn) serve(req *dragoman.Message, from clientSource) {
	q := &clientQuestion{conn: c, req: req, session: from.session}
	if k := from.call; k != nil {
		if ctx, done, ok := k.Ask(k.ctx); ok {
			q.call, q.ctx, q.done = k, ctx, done
		}
	}
	r, refusal := c.requests.Begin(c.ctx, req, q)
	if refusal != nil {
		if q.call != nil {
			q.done()
		}
		c.refuse(req.Fail(refusal), q.session)
		return
	}
	// Ends when the peer has answered and the server has the answer, at the
	// latest with the conversation if the peer heeds its context.
	go func() {
		defer r.Done()
		resp := q.ask(r)
		r.Free()
		if resp != nil {
			q.reply(resp)
		}
	}()
}

// ask returns the answer to the request, or nil if it was cancelled. If the call of
// its stream has been answered meanwhile, but there are others, then the server may
// have asked on the stream of the wrong one, and the local peer is asked.
func (q *clientQuestion) ask(r *rpc.Request) *dragoman.Message {
	c, k := q.conn, q.call
	if k == nil {
		return q.answer(r.Context(), c.local, r)
	}
	ctx, cancel := context.WithCancelCause(q.ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.Context(), func() { cancel(context.Cause(r.Context())) })()
	resp := q.answer(ctx, k.From(), r)
	q.done()
	if ctx.Err() == nil || r.Context().Err() != nil || resp == nil || !resp.IsError() {
		return resp
	}
	select {
	case <-k.cancelSent:
	case <-c.ctx.Done():
		return resp
	}
	if !k.answered || !c.calls.Asking() {
		return resp
	}
	q.call = nil
	return q.answer(r.Context(), c.local, r)
}

// answer returns the answer of peer, or nil if the request was cancelled.
func (q *clientQuestion) answer(ctx context.Context, peer dragoman.Peer, r *rpc.Request) *dragoman.Message {
	resp := rpc.Serve(ctx, peer, q.req, r, q.conn.log)
	if resp != nil && resp.Len() > q.conn.opts.limits.Message() {
		return protocol.Failure(q.req, dragoman.ErrTooLarge)
	}
	return resp
}

// refuse sends an answer in the background. Answers that find no room in the
// table of requests are dropped: the server asks faster than it takes answers.
func (c *clientConn) refuse(resp *dragoman.Message, s *clientSession) {
	if !c.requests.TryEnter() {
		return
	}
	// Ends when the server has the answer, or with the conversation.
	go func() {
		defer c.requests.Leave()
		if err := c.repeat(c.ctx, c.ctx, resp, s); err != nil {
			c.log.Debug("answer not taken by the server", "error", err)
		}
	}()
}

// reply sends the answer, behind what was told before it.
func (q *clientQuestion) reply(resp *dragoman.Message) {
	c := q.conn
	q.mu.Lock()
	mark := q.mark
	q.mu.Unlock()
	if k := q.call; k != nil && k.ctx.Err() != nil {
		// The server should learn first that the call is cancelled.
		select {
		case <-k.cancelSent:
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
	if q.call != nil {
		while = q.call.ctx // nobody waits for the answer after it
	}
	if err := c.repeat(c.ctx, while, resp, q.session); err != nil && c.ctx.Err() == nil {
		c.log.Warn("answer not taken by the server", "method", q.req.Method(), "error", err)
	}
}

// Call asks the server, from inside the request that it made.
func (q *clientQuestion) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	return q.conn.Call(ctx, req, from)
}

// Notify tells the server, before the answer.
func (q *clientQuestion) Notify(_ context.Context, note *dragoman.Message) error {
	mark, err := q.conn.send(note, q.session)
	q.mu.Lock()
	q.mark = max(q.mark, mark)
	q.mu.Unlock()
	return err
}
