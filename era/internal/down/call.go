package down

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/adapt"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A call is one request upstream that the server may answer by asking. It lives
// until the server has answered it, which may take several requests of the client,
// its turns. As a peer it is the caller as the server sees it.
type call struct {
	server  *Server
	session *session
	route   adapt.Route
	up      *dragoman.Message // as it was sent
	stop    context.CancelCauseFunc
	over    chan struct{} // closed when resp or err is set

	mu        sync.Mutex
	id        string      // at the desk; set at the first round
	turn      *turn       // that waits for the answer; nil while the call is suspended
	questions []*question // that have no answer yet, oldest first
	keys      int         // of questions
	rounds    int         // how often the client was asked
	expiry    *time.Timer // of the suspension
	expired   bool
	told      float64           // the last progress that a turn was told
	kept      *dragoman.Message // the newest progress that nobody was told
	done      bool
	lost      bool // it ended, or its session did, while nobody waited for it
	resp      *dragoman.Message
	err       error
}

// begin starts a call. rounds is how often the client was asked before for the
// same request.
func (s *Server) begin(ctx context.Context, r *request, rounds int) (*dragoman.Message, error) {
	v, err := s.pool.get(ctx, r, true)
	if err != nil {
		return s.failed(ctx, r, err)
	}
	up, err := v.upward(r, r.Message)
	if err != nil {
		s.pool.release(v, true)
		return s.failed(ctx, r, err)
	}
	v.raise(ctx, r.level)
	if ctx.Err() != nil {
		s.pool.release(v, true)
		return nil, context.Cause(ctx)
	}
	upctx, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	t := newTurn(r)
	c := &call{
		server: s, session: v, route: v.route(r.rev), up: up, stop: stop,
		over: make(chan struct{}), turn: t, rounds: rounds, told: math.Inf(-1),
	}
	v.setAsking(c, true)
	if r.level >= 0 {
		v.join(c)
	}
	// Ends when the server has answered, or the call is cancelled: by its turn, at
	// the end of its suspension or of its session, or by Close.
	if !s.busy.Start(func() { c.run(upctx) }) {
		v.setAsking(c, false)
		v.leave(c)
		s.pool.release(v, true)
		stop(nil)
		return r.Fail(protocol.Draining()), nil
	}
	return c.attend(ctx, t)
}

// run makes the call upstream. The session is given back before anybody learns
// of the answer, so that the client's next request finds it free.
func (c *call) run(ctx context.Context) {
	defer c.stop(nil)
	resp, err := c.session.run(ctx, c.up, c)
	c.session.setAsking(c, false)
	c.session.leave(c)
	c.server.pool.release(c.session, true)

	c.mu.Lock()
	c.done, c.resp, c.err = true, resp, err
	c.lost = c.lost || c.turn == nil
	orphans := c.questions
	c.questions = nil
	if c.turn != nil {
		c.turn.rouse()
	}
	c.mu.Unlock()
	c.session.leave(c) // a turn may have come meanwhile and wanted logs
	close(c.over)
	for _, q := range orphans {
		q.settle(q.msg.Fail(invalid("the call that this question belongs to is over")))
	}
}

// Call takes a question of the server. It waits for the client's answer.
func (c *call) Call(ctx context.Context, msg *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	if msg.Method() == protocol.MethodPing {
		return unasked(msg), nil
	}
	q, refusal := newQuestion(c.route, msg)
	if refusal != nil {
		return msg.Fail(refusal), nil
	}
	c.mu.Lock()
	if c.done || c.expired {
		c.mu.Unlock()
		return unasked(msg), nil
	}
	if len(c.questions) >= MaxQuestions {
		c.mu.Unlock()
		return msg.Fail(protocol.Overloaded("too many questions are open in this call; wait for answers")), nil
	}
	c.keys++
	q.key = strconv.Itoa(c.keys)
	c.questions = append(c.questions, q)
	if c.turn != nil {
		c.turn.rouse()
	}
	c.mu.Unlock()
	select {
	case resp := <-q.answer:
		return resp, nil
	case <-ctx.Done():
		c.withdraw(q)
		return nil, context.Cause(ctx)
	}
}

// withdraw forgets a question that the server does not want to know any more.
func (c *call) withdraw(q *question) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, other := range c.questions {
		if other == q {
			c.questions = append(c.questions[:i:i], c.questions[i+1:]...)
			break
		}
	}
	if c.turn != nil {
		c.turn.rouse()
	}
}

// Notify takes what the server tells about the call.
func (c *call) Notify(ctx context.Context, note *dragoman.Message) error {
	switch note.Method() {
	case protocol.NoteProgress:
		c.progress(ctx, note)
		return nil
	case protocol.NoteMessage:
		c.log(ctx, note)
		return nil
	}
	if c.session.took(note) {
		return nil
	}
	c.mu.Lock()
	t := c.turn
	c.mu.Unlock()
	if t == nil {
		return nil
	}
	return t.ear.tell(ctx, c.route.Note(note))
}

// log implements logger.
func (c *call) log(ctx context.Context, note *dragoman.Message) {
	c.mu.Lock()
	t := c.turn
	c.mu.Unlock()
	if t != nil && loud(note, t.level) {
		_ = t.ear.tell(ctx, c.route.Note(note)) // who cannot be told still gets the answer
	}
}

// progress tells the turn how far the call is. What does not say that it is
// further than before is dropped. While there is no turn, the newest is kept.
func (c *call) progress(ctx context.Context, note *dragoman.Message) {
	var done float64
	if json.Unmarshal(note.Get("progress"), &done) != nil {
		return
	}
	c.mu.Lock()
	t := c.turn
	switch {
	case done <= c.told:
		t = nil
	case t == nil:
		c.kept = note
	default:
		c.told, c.kept = done, nil
	}
	c.mu.Unlock()
	if t == nil || t.token == nil {
		return
	}
	if !bytes.Equal(note.Get("progressToken"), t.token) {
		var err error
		if note, err = note.Edit().Set("progressToken", t.token).Message(); err != nil {
			return
		}
	}
	_ = t.ear.tell(ctx, c.route.Note(note)) // who cannot be told still gets the answer
}
