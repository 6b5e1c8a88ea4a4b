package down

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/adapt"
	"github.com/dragoman-mcp/dragoman/era/internal/pool"
	"github.com/dragoman-mcp/dragoman/internal/util/retry"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A pendingCall is one request upstream that the server may answer by asking. It lives
// until the server has answered it, which may take several requests of the client,
// its turns. As a peer it is the caller as the server sees it.
type pendingCall struct {
	server  *Server
	owner   pool.Key
	entry   *pool.Entry
	session *session
	route   adapt.Route
	up      *dragoman.Message // as it is sent
	first   []*question       // that are to be answered before
	stop    context.CancelCauseFunc
	over    chan struct{} // closed when resp or err is set

	// Guarded by session.mu.
	id             string             // of a call that has been suspended
	can            protocol.Abilities // of the client, as its last turn says
	turn           *turn              // that waits for the answer; nil while the call is suspended
	rounds         int                // how often the client was asked
	expiry         *time.Timer        // of the suspension
	expired        bool               // given up
	progress       float64            // the last that a turn was told
	latestProgress *dragoman.Message  // the newest progress that nobody was told
	kept           int64              // bytes that wait while the call is suspended
	done           bool
	delivered      bool // its outcome is a turn's, and cannot expire any more
	lost           bool // it ended, or its session did, while nobody waited for it
	resp           *dragoman.Message
	err            error
}

// A turn is a request of the client while it waits for a call.
type turn struct {
	*request
	client callerPeer
	token  json.RawMessage // for progress, or nil
	wake   chan struct{}   // holds one token when there is something to look at
}

func newTurn(r *request) *turn {
	return &turn{
		request: r, client: callerPeer{from: r.from},
		token: r.Meta(protocol.MetaProgressToken),
		wake:  make(chan struct{}, 1),
	}
}

func (t *turn) signal() {
	select {
	case t.wake <- struct{}{}:
	default: // awake already
	}
}

// begin starts a call. rounds is how often the client was asked before for the
// same request.
func (s *Server) begin(ctx context.Context, r *request, rounds int) (*dragoman.Message, error) {
	e, ss, err := s.take(ctx, r)
	if err != nil {
		return s.failed(ctx, r, err)
	}
	up, err := ss.toServer(r, r.Message)
	if err != nil {
		s.pool.Release(e)
		return s.failed(ctx, r, err)
	}
	ss.raiseLogLevel(ctx, r.level)
	if ctx.Err() != nil {
		s.pool.Release(e)
		return nil, context.Cause(ctx)
	}
	upctx, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	t := newTurn(r)
	c := &pendingCall{
		server: s, owner: r.owner, entry: e, session: ss, route: ss.route(r.rev), up: up, stop: stop,
		over: make(chan struct{}), can: r.kind.can, turn: t, rounds: rounds, progress: math.Inf(-1),
	}
	ss.add(c)
	if r.level >= 0 {
		ss.join(c)
	}
	// Ends when the server has answered, or the call is cancelled: by its turn, at
	// the end of its suspension or of its session, or by Close.
	if !s.busy.Start(func() { c.run(upctx) }) {
		ss.finish(c, nil, protocol.Draining())
		ss.leave(c)
		s.pool.Release(e)
		stop(nil)
		return r.Fail(protocol.Draining()), nil
	}
	return c.waitOutcome(ctx, t)
}

// add makes a call one that the server may ask in. It carries the questions that
// waited for one, and is not sent before they are answered: the server may need
// that. For the roots it needs that before any call. Another call may carry such a
// question, but if that waits for its client, which may never come back, this one
// does.
func (ss *session) add(c *pendingCall) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.calls = append(ss.calls, c)
	c.first = slices.Clone(ss.earlyRoots)
	if ss.main {
		return // nobody is asked there
	}
	for _, q := range ss.open {
		if q.carrier != nil && (q.carrier.turn != nil || !slices.Contains(ss.earlyRoots, q)) {
			continue
		}
		if ss.assignQuestion(q); q.carrier == c {
			c.first = append(c.first, q)
		}
	}
}

// run makes the call upstream. The session is given back before anybody learns
// of the answer, so that the client's next request finds it free.
func (c *pendingCall) run(ctx context.Context) {
	defer c.stop(nil)
	var resp *dragoman.Message
	err := c.wait(ctx)
	if err == nil {
		resp, err = c.session.run(ctx, c.up, c)
	}
	c.session.leave(c)
	c.server.pool.Release(c.entry)
	orphans := c.session.finish(c, resp, err)
	c.session.leave(c) // a turn may have come meanwhile and wanted logs
	close(c.over)
	c.session.settleAll(orphans, func(q *question) *dragoman.Message {
		return q.msg.Fail(invalid("the call that this question belongs to is over"))
	})
}

// wait waits until the questions that came before the call are open no more, and the
// server has had their answers and the time to put them to use.
func (c *pendingCall) wait(ctx context.Context) error {
	if len(c.first) == 0 {
		return nil
	}
	for _, q := range c.first {
		select {
		case <-q.done:
		case <-c.session.conn.Done():
			return c.session.conn.Err()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	ss := c.session
	for range usePings {
		ss.settle(ctx)
		if err := retry.Sleep(ctx, useTime/usePings); err != nil {
			return err
		}
	}
	ss.mu.Lock()
	ss.earlyRoots = without(ss.earlyRoots, c.first...)
	ss.mu.Unlock()
	return nil
}

// finish notes the outcome of a call. It returns its questions that no other call
// can carry.
func (ss *session) finish(c *pendingCall, resp *dragoman.Message, err error) []*question {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.calls = slices.DeleteFunc(ss.calls, func(other *pendingCall) bool { return other == c })
	switch {
	case c.expired:
		resp = nil // nobody comes for it
	case c.turn == nil && resp != nil && !c.keep(resp.Len()):
		resp, err = nil, protocol.Overloaded(tooMuchWaits)
	}
	c.done, c.resp, c.err = true, resp, err
	c.lost = c.lost || c.turn == nil
	if c.turn != nil {
		c.turn.signal()
	}
	return ss.drop(c, err != nil)
}

// Call takes a question of the server.
func (c *pendingCall) Call(ctx context.Context, msg *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	by := c
	if !c.session.correlates {
		by = nil // the conversation does not say that it belongs to this call
	}
	return c.session.question(ctx, msg, by)
}

// Notify takes what the server tells about the call.
func (c *pendingCall) Notify(ctx context.Context, note *dragoman.Message) error {
	switch note.Method() {
	case protocol.NoteProgress:
		c.advance(ctx, note)
		return nil
	case protocol.NoteMessage:
		c.log(ctx, note)
		return nil
	}
	if c.session.handled(note) {
		return nil
	}
	if t := c.current(); t != nil {
		return t.client.notify(ctx, c.route.Note(note))
	}
	return nil
}

// current returns the turn, or nil.
func (c *pendingCall) current() *turn {
	c.session.mu.Lock()
	defer c.session.mu.Unlock()
	return c.turn
}

// log implements logger.
func (c *pendingCall) log(ctx context.Context, note *dragoman.Message) {
	if t := c.current(); t != nil && isSevere(note, t.level) {
		_ = t.client.notify(ctx, c.route.Note(note)) // who cannot be told still gets the answer
	}
}

// advance tells the turn how far the call is. What does not say that it is
// further than before is dropped. While there is no turn, the newest is kept.
func (c *pendingCall) advance(ctx context.Context, note *dragoman.Message) {
	var done float64
	if json.Unmarshal(note.Get("progress"), &done) != nil {
		return
	}
	c.session.mu.Lock()
	t := c.turn
	switch {
	case done <= c.progress:
		t = nil
	case t == nil && note.Len() <= maxProgress:
		c.latestProgress = note
	case t == nil:
	default:
		c.progress, c.latestProgress = done, nil
	}
	c.session.mu.Unlock()
	if t == nil || t.token == nil {
		return
	}
	if !bytes.Equal(note.Get("progressToken"), t.token) {
		var err error
		if note, err = note.Edit().Set("progressToken", t.token).Message(); err != nil {
			return
		}
	}
	_ = t.client.notify(ctx, c.route.Note(note)) // who cannot be told still gets the answer
}

// waitOutcome waits for the call on behalf of a turn: until the server has answered,
// has asked something, or ctx ends.
func (c *pendingCall) waitOutcome(ctx context.Context, t *turn) (*dragoman.Message, error) {
	defer t.client.end()
	ss := c.session
	var gathered <-chan time.Time // more questions are waited for until then
	for {
		due := false
		select {
		case <-ctx.Done():
			c.stop(context.Cause(ctx))
			<-c.over
			c.forget()
			return nil, context.Cause(ctx)
		case <-t.wake:
		case <-gathered:
			gathered, due = nil, true
		}
		ss.mu.Lock()
		if c.done {
			c.turn, c.delivered = nil, true
			ss.mu.Unlock()
			c.forget()
			return c.outcome(ctx, t)
		}
		questions := ss.questionsOf(c)
		ss.mu.Unlock()
		open := slices.DeleteFunc(slices.Clone(questions), func(q *question) bool { return !q.canBeAskedOf(t.kind.can) })
		if len(open) < len(questions) {
			ss.settleAll(slices.DeleteFunc(questions, func(q *question) bool { return q.canBeAskedOf(t.kind.can) }), (*question).refusal)
		}
		switch {
		case len(open) == 0:
			gathered = nil
		case due:
			if resp := c.suspend(t); resp != nil {
				return resp, nil
			}
		case gathered == nil:
			gathered = time.After(c.server.opts.Gather)
		}
	}
}

// outcome returns the answer of a turn at which the call has ended.
func (c *pendingCall) outcome(ctx context.Context, t *turn) (*dragoman.Message, error) {
	if c.lost && c.err != nil && ctx.Err() == nil {
		return t.Fail(invalid("the call was lost while it waited for your answers, and is not repeated: %v", c.err)), nil
	}
	if !t.again && c.rounds == 0 && ctx.Err() == nil && protocol.MayResend(t.Method(), c.err) {
		t.again = true
		return c.server.begin(ctx, t.request, 0)
	}
	if c.err != nil {
		return c.server.failed(ctx, t.request, c.err)
	}
	return c.server.answer(t.request, c.session, c.resp.WithID(t.ID()), c.rounds)
}
