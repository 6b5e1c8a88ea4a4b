package streamable

import (
	"context"
	"errors"
	"sync"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A source is where a message came from: the stream of a call that is under
// way, or one that belongs to none, if call is nil.
type source struct {
	call *clientCall
	late bool // the stream of a call that has its answer
}

// take takes what a stream of the call brings. It returns the answer, if that
// was it, or why there will be none.
func (k *clientCall) take(data []byte) (*dragoman.Message, error) {
	return k.conn.take(data, source{call: k})
}

// take takes one message, or a batch where the revision has them.
func (c *clientConn) take(data []byte, from source) (*dragoman.Message, error) {
	m, err := c.opts.limits.Parse(data)
	if err == nil {
		return c.dispatch(m, from)
	}
	if errors.Is(err, dragoman.ErrTooLarge) {
		const ends = 256
		kind, id := c.oversize(data[:min(len(data), ends)], data[max(0, len(data)-ends):])
		if from.call == nil || !from.call.wasAnswer(kind, id) {
			err = nil
		}
		return nil, err
	}
	if jsonrpc.IsBatch(data) && c.session().batches() {
		return c.batch(data, from)
	}
	c.log.Warn("not a message", "error", err, "text", redact.Line(string(data[:min(len(data), 256)])))
	p, ok := errors.AsType[*dragoman.ParseError](err)
	if ok && from.call != nil && p.Kind == dragoman.Response && p.ID == from.call.ID() {
		return nil, err
	}
	return nil, nil
}

// batch takes the messages of an array. The answer, if it is among them, comes
// after the others.
func (c *clientConn) batch(data []byte, from source) (resp *dragoman.Message, err error) {
	parts, _ := dragoman.Elements(data) // what cannot be read is skipped
	for _, part := range parts {
		m, err := c.opts.limits.Parse(part)
		if err != nil {
			continue
		}
		answer, err := c.dispatch(m, from)
		if err != nil {
			return nil, err
		}
		if answer != nil && resp == nil {
			resp = answer
		}
	}
	return resp, nil
}

// dispatch takes one message, by its method first, then by its id.
func (c *clientConn) dispatch(m *dragoman.Message, from source) (*dragoman.Message, error) {
	switch k := from.call; m.Kind() {
	case dragoman.Response:
		return c.response(m, k), nil
	case dragoman.Request:
		if k != nil && k.modern {
			c.log.Warn("the server asks, which its revision does not allow", "method", m.Method())
			return nil, nil
		}
		c.serve(m, from)
		return nil, nil
	default:
		if jsonrpc.LacksID(m) {
			_ = jsonrpc.RefuseNoID(c.ctx, c.local, m, c.log) // there is no id to answer
			return nil, nil
		}
		return nil, c.notification(m, from)
	}
}

// response returns the answer to k, and gives answers to others to them.
func (c *clientConn) response(m *dragoman.Message, k *clientCall) *dragoman.Message {
	unnamed := m.ID().IsNull() || m.ID().IsZero()
	if k != nil && (m.ID() == k.ID() || unnamed && m.IsError()) {
		return m
	}
	if !unnamed {
		c.calls.Answer(m) // ignored if it is of no call in flight
	}
	return nil
}

// notification gives a notification to whom it belongs. The error ends the call
// on whose stream it came.
func (c *clientConn) notification(m *dragoman.Message, from source) error {
	k := from.call
	switch m.Method() {
	case protocol.NoteProgress:
		c.progress(m, k)
		return nil
	case protocol.NoteCancelled:
		id, ok := dragoman.ParseID(m.Get("requestId"))
		if ok && !c.requests.Cancel(id) && k != nil && k.IsListen() && id == k.ID() {
			return dragoman.ErrCancelled
		}
		return nil
	case protocol.NoteToolsChanged:
		c.tools.Forget(nil)
	case protocol.NoteMessage:
		if from.late {
			return nil // it belongs to a call that is over
		}
	}
	switch {
	case k == nil || k.From() == nil && !k.modern && !k.IsListen():
		c.enqueue(nil, m)
	default:
		k.tell(k.Incoming(m))
	}
	return nil
}

// progress gives a call its progress, with the caller's token: at once if it
// came on the call's own stream.
func (c *clientConn) progress(m *dragoman.Message, on *clientCall) {
	of, own := c.calls.Progress(m)
	switch {
	case of == nil: // of no call in flight
	case of.Owner() == jsonrpc.Owner(on):
		on.tell(own)
	default:
		c.enqueue(of.Owner().(*clientCall), own)
	}
}

// enqueue tells the local peer, or a call, in the background. When there is no room,
// the notification is dropped.
func (c *clientConn) enqueue(k *clientCall, note *dragoman.Message) {
	if !c.in.Put(note, k) {
		c.log.Debug("notification dropped: the local peer is slow to take them", "method", note.Method())
	}
}

// deliver delivers what was enqueued.
func (c *clientConn) deliver(note *dragoman.Message, k *clientCall) {
	if k != nil {
		k.tell(note)
		return
	}
	jsonrpc.Notify(c.ctx, c.local, note, c.log)
}

// A question is one request of the server.
type question struct {
	conn *clientConn
	req  *dragoman.Message

	// owned by the goroutine that answers
	call *clientCall     // whose caller is asked, or nil
	ctx  context.Context // ends with the call
	done func()          // see rpc.Call.Ask

	mu   sync.Mutex
	mark uint64 // guarded by mu: the last notification that must go before the answer
}

// serve answers a request of the server on a goroutine of its own: who made the
// call on whose stream it came is asked, or else the local peer.
func (c *clientConn) serve(req *dragoman.Message, from source) {
	q := &question{conn: c, req: req}
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
		c.postRefusal(req.Fail(refusal))
		return
	}
	// Ends when the peer has answered and the server has the answer; at the latest
	// with the conversation, if the peer returns when its context ends.
	go func() {
		defer r.Done()
		resp := q.serve(r)
		r.Free()
		if resp != nil {
			q.reply(resp)
		}
	}()
}

// serve returns the answer to the request, or nil if it was cancelled. If the call of
// its stream has been answered meanwhile, but there are others, then the server may
// have asked on the stream of the wrong one, and the local peer is asked.
func (q *question) serve(r *jsonrpc.Request) *dragoman.Message {
	c, k := q.conn, q.call
	if k == nil {
		return q.answerBy(r.Context(), c.local, r)
	}
	ctx, cancel := context.WithCancelCause(q.ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.Context(), func() { cancel(context.Cause(r.Context())) })()
	resp := q.answerBy(ctx, k.From(), r)
	ended := ctx.Err() != nil
	q.done()
	if !ended || r.Context().Err() != nil || resp == nil || !resp.IsError() {
		return resp
	}
	select {
	case <-k.cancelSent:
	case <-c.ctx.Done():
		return resp
	}
	if !k.answered || !c.calls.HasCalls() {
		return resp
	}
	q.call = nil
	return q.answerBy(r.Context(), c.local, r)
}

// answerBy returns the answer of peer, or nil if the request was cancelled.
func (q *question) answerBy(ctx context.Context, peer dragoman.Peer, r *jsonrpc.Request) *dragoman.Message {
	resp := jsonrpc.Serve(ctx, peer, q.req, r, q.conn.log)
	if resp != nil && resp.Len() > q.conn.opts.limits.Message() {
		return protocol.Failure(q.req, dragoman.ErrTooLarge)
	}
	return resp
}

// postRefusal sends an answer in the background. Answers that find no room in the
// table of requests are dropped: the server asks faster than it takes answers.
func (c *clientConn) postRefusal(resp *dragoman.Message) {
	if !c.requests.TryEnter() {
		return
	}
	// Ends when the server has the answer, or with the conversation.
	go func() {
		defer c.requests.Leave()
		if err := c.repeat(c.ctx, c.ctx, resp); err != nil {
			c.log.Debug("answer not taken by the server", "error", err)
		}
	}()
}

// reply sends the answer, after the notifications that were sent before it.
func (q *question) reply(resp *dragoman.Message) {
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
	_ = c.out.waitSent(c.ctx, mark) // the answer is sent even if that failed
	if c.ctx.Err() != nil {
		return
	}
	while := c.ctx
	if q.call != nil {
		while = q.call.ctx // after that the server does not need the answer
	}
	if err := c.repeat(c.ctx, while, resp); err != nil && c.ctx.Err() == nil {
		c.log.Warn("answer not taken by the server", "method", q.req.Method(), "error", err)
	}
}

// Call asks the server, from inside the request that it made.
func (q *question) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	return q.conn.Call(ctx, req, from)
}

// Notify tells the server, before the answer.
func (q *question) Notify(_ context.Context, note *dragoman.Message) error {
	mark, err := q.conn.send(note)
	q.mu.Lock()
	q.mark = max(q.mark, mark)
	q.mu.Unlock()
	return err
}
