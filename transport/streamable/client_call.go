package streamable

import (
	"context"
	"errors"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/mux"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A clientCall is one request of ours under way.
type clientCall struct {
	conn   *clientConn
	id     int64
	req    *dragoman.Message
	from   dragoman.Peer
	modern bool
	listen bool

	ctx     context.Context // the caller's; ends with the conversation and at the timeout too
	cancel  context.CancelCauseFunc
	unhook  func() bool
	timer   *time.Timer
	started time.Time

	// owned by the caller's goroutine
	renewing bool
	sent     bool
	status   int            // of the last HTTP answer
	session  *clientSession // what it was sent in
	opened   *clientSession // what the answer to initialize opened

	gone     chan struct{} // closed when the server has been told of a cancel, if it is
	mark     uint64        // that notification; set before gone is closed
	answered bool          // that is why the call is over; likewise

	telling sync.Mutex // held while from is told something
	over    bool       // guarded by telling: from must not be used any more

	mu     sync.Mutex
	asking int               // guarded by mu: questions under way
	shut   bool              // guarded by mu: no more questions
	resp   *dragoman.Message // guarded by mu: the answer, if it came elsewhere
	asks   sync.WaitGroup    // the questions
}

// begin enters a call into the table.
func (c *clientConn) begin(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*clientCall, error) {
	if req.Len() > c.opts.limits.Message() {
		return nil, dragoman.ErrTooLarge
	}
	k := &clientCall{
		conn: c, req: req, from: from,
		modern:  protocol.IsModern(req),
		listen:  req.Method() == protocol.MethodListen,
		started: time.Now(),
		gone:    make(chan struct{}),
	}
	k.ctx, k.cancel = context.WithCancelCause(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ended != nil:
		k.cancel(nil)
		return nil, c.ended
	case len(c.calls) >= clientMaxCalls:
		k.cancel(nil)
		return nil, dragoman.ErrOverloaded
	}
	k.id = mux.NewID(c.calls)
	c.calls[k.id] = k
	k.unhook = context.AfterFunc(c.ctx, func() { k.cancel(context.Cause(c.ctx)) })
	if t := c.opts.timeout; !k.listen && t != clientForever {
		k.mu.Lock() // expired may come at once
		k.timer = time.AfterFunc(t, k.expired)
		k.mu.Unlock()
	}
	return k, nil
}

// expired ends the call, unless a question of the server is under way: then its
// answer is what everybody waits for.
func (k *clientCall) expired() {
	k.mu.Lock()
	asking := k.asking > 0
	k.mu.Unlock()
	if asking && k.extend() {
		return
	}
	k.cancel(&TimeoutError{After: time.Since(k.started)})
}

// extend gives the call more time, up to the maximum. It tells whether there was
// any left.
func (k *clientCall) extend() bool {
	if k.timer == nil {
		return true
	}
	left := k.conn.opts.maxTimeout - time.Since(k.started)
	if left <= 0 {
		return false
	}
	k.timer.Reset(min(k.conn.opts.timeout, left))
	return true
}

// finish takes the call out of the table and makes sure that from is not used
// any more. It returns what the caller gets to know of err.
func (k *clientCall) finish(err error) error {
	c := k.conn
	c.mu.Lock()
	delete(c.calls, k.id)
	ended := c.ended
	if ended == nil && c.closing {
		ended = dragoman.ErrClosed
	}
	c.mu.Unlock()
	k.unhook()
	if err != nil && ended == nil && k.ctx.Err() != nil {
		err = context.Cause(k.ctx)
		if k.sent && !k.modern && protocol.Cancellable(k.req) {
			k.mark = c.cancelled(k.id, k.session, err.Error())
		}
	}
	k.answered = err == nil
	close(k.gone)
	if err != nil && ended != nil {
		err = ended
	}
	k.cancel(nil)
	k.mu.Lock()
	k.shut = true
	k.mu.Unlock()
	k.asks.Wait()
	if k.timer != nil {
		k.timer.Stop()
	}
	k.telling.Lock()
	k.over = true
	k.telling.Unlock()
	return err
}

// run makes the call. It is made again only if the server has not looked at it:
// because it has ended the session, or misses headers.
func (k *clientCall) run() (*dragoman.Message, error) {
	c := k.conn
	if k.modern {
		return k.runModern()
	}
	if k.req.Method() != protocol.MethodInitialize {
		k.session = c.session()
	}
	resp, err := k.once(nil)
	if err == nil && c.client.OneSession && resp.IsError() && resp.RPCError().Code == protocol.CodeLost {
		err = c.check(k)
	}
	if !errors.Is(err, ErrSessionGone) || k.renewing || errors.Is(err, ErrNoResponse) {
		return resp, err
	}
	s, gone := c.renew(k.ctx, k.session)
	if gone != nil {
		return nil, gone
	}
	k.session = s
	return k.once(nil)
}

// once sends the request and returns the answer.
func (k *clientCall) once(header http.Header) (*dragoman.Message, error) {
	body, err := k.upstream()
	if err != nil {
		return nil, err
	}
	k.sent = true
	x, err := k.conn.post(k.ctx, body, k.session, header)
	if err != nil {
		return nil, err
	}
	k.status = x.resp.StatusCode
	if k.status < 200 || k.status > 299 {
		defer x.close()
		return k.refused(x)
	}
	resp, err := k.answer(x)
	if err == nil && k.req.Method() == protocol.MethodInitialize && !k.modern {
		err = k.learn(x, resp)
	}
	return resp, err
}

// upstream returns the request as it goes out: with our id, and our token in
// place of the caller's.
func (k *clientCall) upstream() ([]byte, error) {
	id := strconv.FormatInt(k.id, 10)
	out := k.req
	if out.Meta(protocol.MetaProgressToken) != nil {
		var err error
		if out, err = out.Edit().SetMeta(protocol.MetaProgressToken, []byte(id)).Message(); err != nil {
			return nil, err
		}
	}
	return out.AppendWithID(nil, dragoman.IntID(k.id)), nil
}

// downstream returns the answer as the caller knows it.
func (k *clientCall) downstream(resp *dragoman.Message) *dragoman.Message {
	if k.listen {
		resp = k.subscription(resp)
	}
	return resp.WithID(k.req.ID())
}

// subscription puts the caller's id where a listen names its subscription. A
// notification is given one if it has none; an answer belongs to its request anyway.
func (k *clientCall) subscription(m *dragoman.Message) *dragoman.Message {
	if m.Kind() == dragoman.Response && (m.IsError() || m.Meta(protocol.MetaSubscriptionID) == nil) {
		return m
	}
	own, err := m.Edit().SetMeta(protocol.MetaSubscriptionID, []byte(k.req.ID().String())).Message()
	if err != nil {
		return m
	}
	return own
}

// tell tells the caller, unless its call is over. One that panics has at least
// been told.
func (k *clientCall) tell(note *dragoman.Message) {
	if k.from == nil {
		return
	}
	k.telling.Lock()
	defer k.telling.Unlock()
	if !k.over {
		k.conn.tell(k.ctx, k.from, note)
	}
}

// tell tells a peer.
func (c *clientConn) tell(ctx context.Context, peer dragoman.Peer, note *dragoman.Message) {
	defer func() {
		if p := recover(); p != nil {
			c.log.Error("panic while taking a notification", "method", note.Method(), "panic", p, "stack", string(debug.Stack()))
		}
	}()
	if err := peer.Notify(ctx, note); err != nil {
		c.log.Debug("notification not taken", "method", note.Method(), "error", err)
	}
}

// elsewhere ends the call with an answer that came on another stream.
func (k *clientCall) elsewhere(resp *dragoman.Message) {
	k.mu.Lock()
	if k.resp == nil {
		k.resp = resp
	}
	k.mu.Unlock()
	k.cancel(errClientAnswered)
}

// cancelled tells the server that nobody waits for a call any more.
func (c *clientConn) cancelled(id int64, s *clientSession, reason string) (mark uint64) {
	note, err := dragoman.NewNotification(protocol.NoteCancelled, struct {
		RequestID int64  `json:"requestId"`
		Reason    string `json:"reason,omitempty"`
	}{id, reason})
	if err == nil {
		mark, _ = c.send(note, s) // nobody is left to be told
	}
	return mark
}

// callOff tells the server that nobody waits for any call of the session any more.
// Not every server takes the end of a session for that. What a server makes of the
// calls then does not count: they end because the conversation does.
func (c *clientConn) callOff() {
	c.mu.Lock()
	c.closing = true
	s := c.state.session
	var ids []int64
	for id, k := range c.calls {
		if !k.modern && protocol.Cancellable(k.req) {
			ids = append(ids, id)
		}
	}
	c.mu.Unlock()
	if s == nil {
		return
	}
	slices.Sort(ids)
	for _, id := range ids {
		c.cancelled(id, s, "the session ends")
	}
}
