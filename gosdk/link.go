package gosdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// maxWaiting is how many messages wait for the SDK to read them. A notification over that is
// refused; answers and requests are bounded by who asks.
const maxWaiting = 1024

// A link joins the SDK, which reads and writes messages, with a peer. As a peer itself it is
// the SDK's side: what it is asked and told, the SDK reads.
type link struct {
	life   context.Context // ends with the link
	cancel context.CancelCauseFunc
	ready  chan struct{} // closed by join
	other  dragoman.Peer // after ready
	calls  sync.WaitGroup
	marks  *marks // of a server; nil of a client

	mu        sync.Mutex
	waiting   []jsonrpc.Message // guarded by mu, as is the rest
	more      chan struct{}     // has one while there is something in waiting
	lastID    int64
	questions map[int64]*question           // the SDK is at
	asked     map[string]context.CancelFunc // by the SDK and not given up, under its ids
}

// A question is a request that the SDK works on.
type question struct {
	id     dragoman.ID // as who asks knows it
	answer chan *jsonrpc.Response
	life   context.Context // ends with the question
	cancel context.CancelFunc

	mu   sync.Mutex
	from dragoman.Peer  // nil if there is nobody, or the question is over; guarded by mu
	uses sync.WaitGroup // of from
}

// use returns whom the SDK tells and asks while it works on the question, until done is called. It is
// nil if there is nobody: handlers may be late.
func (q *question) use() (from dragoman.Peer, done func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.from == nil {
		return nil, nil
	}
	q.uses.Add(1)
	return q.from, q.uses.Done
}

// end has from used no more.
func (q *question) end() {
	q.mu.Lock()
	q.from = nil
	q.mu.Unlock()
	q.cancel()
	q.uses.Wait()
}

// named returns what the SDK says about its subscription, whose name is the id of the listen, with the id
// that who asks knows.
func (q *question) named(m *dragoman.Message) (*dragoman.Message, error) {
	return m.Edit().SetMeta(protocol.MetaSubscriptionID, []byte(q.id.String())).Message()
}

func newLink(m *marks) *link {
	l := &link{marks: m, ready: make(chan struct{}), more: make(chan struct{}, 1), questions: make(map[int64]*question), asked: make(map[string]context.CancelFunc)}
	l.life, l.cancel = context.WithCancelCause(context.Background())
	return l
}

// join says who is on the other side.
func (l *link) join(other dragoman.Peer) {
	if other == nil {
		other = dragoman.NoPeer
	}
	l.other = other
	close(l.ready)
}

// end ends the link, for a reason.
func (l *link) end(reason error) {
	if !errors.Is(reason, dragoman.ErrClosed) {
		reason = fmt.Errorf("%w: %w", dragoman.ErrClosed, reason)
	}
	l.cancel(reason)
}

// wait waits for the requests of the SDK that are in flight, and who else uses the link.
func (l *link) wait() { l.calls.Wait() }

// Done implements dragoman.Conn.
func (l *link) Done() <-chan struct{} { return l.life.Done() }

// Err implements dragoman.Conn.
func (l *link) Err() error { return context.Cause(l.life) }

// push has the SDK read a message. It reports whether there was room.
func (l *link) push(m jsonrpc.Message, bounded bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if bounded && len(l.waiting) >= maxWaiting {
		return false
	}
	l.waiting = append(l.waiting, m)
	select {
	case l.more <- struct{}{}:
	default:
	}
	return true
}

// Call implements dragoman.Peer: the SDK answers, under an id of our own.
func (l *link) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	q := &question{id: req.ID(), from: from, answer: make(chan *jsonrpc.Response, 1)}
	q.life, q.cancel = context.WithCancel(l.life)
	l.mu.Lock()
	l.lastID++
	id := l.lastID
	l.questions[id] = q
	l.mu.Unlock()
	defer l.forget(id, q)
	theirs, err := jsonrpc.MakeID(float64(id))
	if err != nil {
		return nil, err
	}
	r := &jsonrpc.Request{ID: theirs, Method: req.Method(), Params: req.Params()}
	if l.marks != nil {
		extra, unmark := l.marks.mark(ctx, q)
		defer unmark()
		r.Extra = extra
	}
	l.push(r, false)
	select {
	case r := <-q.answer:
		resp, err := respond(req, r)
		if err == nil && resp.Meta(protocol.MetaSubscriptionID) != nil {
			return q.named(resp)
		}
		return resp, err
	case <-l.life.Done():
		return nil, context.Cause(l.life)
	case <-ctx.Done():
		note, err := json.Marshal(map[string]any{"requestId": id, "reason": context.Cause(ctx).Error()})
		if err == nil {
			l.push(&jsonrpc.Request{Method: protocol.NoteCancelled, Params: note}, false)
		}
		return nil, context.Cause(ctx)
	}
}

func (l *link) forget(id int64, q *question) {
	l.mu.Lock()
	delete(l.questions, id)
	l.mu.Unlock()
	q.end()
}

// respond returns the answer of the SDK to a request. Of an error that wraps one with a code, the message
// is the outer one, as on the SDK's own transports.
func respond(req *dragoman.Message, r *jsonrpc.Response) (*dragoman.Message, error) {
	if r.Error == nil {
		return req.Reply(r.Result)
	}
	e := &dragoman.Error{Code: protocol.CodeInternal, Message: r.Error.Error()}
	if told, ok := errors.AsType[*jsonrpc.Error](r.Error); ok {
		e.Code, e.Data = int(told.Code), told.Data
	}
	return req.Fail(e), nil
}

// Notify implements dragoman.Peer.
func (l *link) Notify(_ context.Context, note *dragoman.Message) error {
	if err := context.Cause(l.life); err != nil {
		return err
	}
	if !l.push(&jsonrpc.Request{Method: note.Method(), Params: note.Params()}, true) {
		return dragoman.ErrOverloaded
	}
	return nil
}

// A connection is what the SDK has of a link.
type connection struct{ *link }

// SessionID implements mcp.Connection.
func (connection) SessionID() string { return "" }

// Read implements mcp.Connection.
func (c connection) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		c.mu.Lock()
		if len(c.waiting) > 0 {
			m := c.waiting[0]
			c.waiting[0] = nil
			if c.waiting = c.waiting[1:]; len(c.waiting) > 0 {
				select {
				case c.more <- struct{}{}:
				default:
				}
			}
			c.mu.Unlock()
			return m, nil
		}
		c.mu.Unlock()
		select {
		case <-c.more:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-c.life.Done():
			return nil, endOf(context.Cause(c.life))
		}
	}
}

// endOf is what the SDK reads at the end of a conversation: it knows io.EOF as a good one.
func endOf(reason error) error {
	if reason == dragoman.ErrClosed { //nolint:errorlint // without a reason
		return io.EOF
	}
	return reason
}

// Write implements mcp.Connection. A request is answered by what Read returns.
func (c connection) Write(ctx context.Context, m jsonrpc.Message) error {
	select {
	case <-c.ready:
	case <-c.life.Done():
	}
	if err := context.Cause(c.life); err != nil {
		return endOf(err)
	}
	to, life, done := c.other, c.life, func() {}
	if q, ok := ctx.Value(relatedKey{}).(*question); ok {
		if from, end := q.use(); from != nil {
			to, life, done = from, q.life, end
		}
	}
	switch m := m.(type) {
	case *jsonrpc.Request:
		if m.ID.IsValid() {
			return c.ask(ctx, m, to, life, done)
		}
		defer done()
		return c.tell(ctx, m, to)
	case *jsonrpc.Response:
		c.answered(m)
	}
	done()
	return nil
}

// answered gives an answer of the SDK to who waits for it. Who does not any more has been told
// so.
func (c connection) answered(r *jsonrpc.Response) {
	id, _ := r.ID.Raw().(int64)
	c.mu.Lock()
	q := c.questions[id]
	delete(c.questions, id)
	c.mu.Unlock()
	if q != nil {
		q.answer <- r
	}
}

// errLate is the answer to what a handler asks when the request that it works on is over.
var errLate = &dragoman.Error{Code: protocol.CodeInternal, Message: "the request that this belongs to is over: ask before the handler returns"}

// ask has the other side answer a request of the SDK, as long as life lasts. It calls done when to is
// used no more.
func (c connection) ask(ctx context.Context, r *jsonrpc.Request, to dragoman.Peer, life context.Context, done func()) error {
	req, err := dragoman.NewRequest(idOf(r.ID), r.Method, params(r.Params))
	if err != nil {
		done()
		return rejected(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	key := fmt.Sprint(r.ID.Raw())
	c.mu.Lock()
	c.asked[key] = cancel
	c.mu.Unlock()
	c.calls.Go(func() {
		defer cancel()
		defer context.AfterFunc(life, cancel)()
		resp, err := to.Call(ctx, req, c.link)
		done()
		c.mu.Lock()
		_, wanted := c.asked[key]
		delete(c.asked, key)
		c.mu.Unlock()
		if !wanted || c.life.Err() != nil {
			return // the SDK has given it up, or reads that all is over
		}
		if err != nil && life.Err() != nil {
			err = errLate
		}
		if err != nil {
			resp = protocol.Failure(req, err)
		}
		c.push(response(r.ID, resp), false)
	})
	return nil
}

// tell tells the other side a notification of the SDK.
func (c connection) tell(ctx context.Context, r *jsonrpc.Request, to dragoman.Peer) error {
	note, err := dragoman.NewNotification(r.Method, params(r.Params))
	if err != nil {
		return rejected(err)
	}
	if r.Method == protocol.NoteCancelled {
		c.cancelled(note)
		return nil
	}
	if q := c.subscribed(note); q != nil {
		from, done := q.use()
		if from == nil {
			return nil // nobody listens any more
		}
		defer done()
		to = from
		if note, err = q.named(note); err != nil {
			return rejected(err)
		}
	}
	if err := to.Notify(ctx, note); err != nil {
		return rejected(err)
	}
	return nil
}

// subscribed returns the listen that a notification belongs to, or nil.
func (c connection) subscribed(note *dragoman.Message) *question {
	id, err := strconv.ParseInt(string(note.Meta(protocol.MetaSubscriptionID)), 10, 64)
	if err != nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.questions[id]
}

// cancelled ends a request of the SDK that it does not want answered any more. Who works on it is
// told by the end of its call: nobody else knows the ids of the SDK.
func (c connection) cancelled(note *dragoman.Message) {
	var p struct{ RequestID json.RawMessage }
	if note.Decode(&p) != nil {
		return
	}
	key := string(p.RequestID)
	if text, err := strconv.Unquote(key); err == nil {
		key = text
	}
	c.mu.Lock()
	cancel := c.asked[key]
	delete(c.asked, key)
	c.mu.Unlock()
	if cancel != nil { // it is nil if there is an answer already
		cancel()
	}
}

// Close implements mcp.Connection.
func (c connection) Close() error {
	c.end(dragoman.ErrClosed)
	return nil
}

// codeRejected is the error by which the SDK continues after a message that could not be
// written. Any other ends the session.
const codeRejected = -32005

func rejected(err error) error { return &jsonrpc.Error{Code: codeRejected, Message: err.Error()} }

// idOf returns an id of the SDK.
func idOf(id jsonrpc.ID) dragoman.ID {
	if n, ok := id.Raw().(int64); ok {
		return dragoman.IntID(n)
	}
	return dragoman.StringID(fmt.Sprint(id.Raw()))
}

// params returns params as NewRequest takes them.
func params(text json.RawMessage) any {
	if len(text) == 0 || string(text) == "null" {
		return nil
	}
	return text
}

// response returns an answer for the SDK.
func response(id jsonrpc.ID, m *dragoman.Message) *jsonrpc.Response {
	if e := m.RPCError(); e != nil {
		return &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: int64(e.Code), Message: e.Message, Data: e.Data}}
	}
	return &jsonrpc.Response{ID: id, Result: m.Result()}
}
