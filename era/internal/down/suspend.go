package down

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/pool"
	"github.com/dragoman-mcp/dragoman/era/internal/rounds"
	"github.com/dragoman-mcp/dragoman/internal/util/limit"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// suspended are the calls whose clients have been asked, until they are answered or
// given up.
type suspended struct {
	server *Server
	room   *limit.Bytes // of what waits for clients: calls, their answers, and server requests; by caller

	mu      sync.Mutex
	calls   map[string]*pendingCall // by id; also those with a turn at the moment
	count   int                     // those without
	of      map[string]int          // by caller
	spent   map[string]spentState   // states to be used once that have been
	spentOf map[string]int          // how many of them are a caller's
	closed  bool
}

// A spentState is a state that has been used, until it expires.
type spentState struct {
	expires time.Time
	caller  string
}

func (d *suspended) init(s *Server) {
	d.server, d.room = s, limit.NewBytes(maxWaiting)
	d.calls, d.of = make(map[string]*pendingCall), make(map[string]int)
	d.spent, d.spentOf = make(map[string]spentState), make(map[string]int)
}

// admit takes a call in, if there is room. Otherwise it says why not. The caller holds session.mu.
func (d *suspended) admit(c *pendingCall, owner pool.Key) (why string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch opts := &d.server.opts; {
	case d.closed:
		return "the server is stopping"
	case d.count >= opts.MaxSuspended:
		return fmt.Sprintf("%d calls wait for their clients' answers already", opts.MaxSuspended)
	case d.of[owner.Caller] >= opts.SuspendedPerCaller:
		return fmt.Sprintf("%d of its calls wait for its answers already", opts.SuspendedPerCaller)
	case !c.keep(c.up.Len()):
		return tooMuchWaits
	}
	d.count++
	d.of[owner.Caller]++
	d.calls[c.id] = c
	return ""
}

// tooMuchWaits is why nothing more is kept for a client.
const tooMuchWaits = "too many bytes wait for its answers already"

// keep takes room for what waits for the client of a call that is suspended. It reports whether there
// was some. The caller holds session.mu.
func (c *pendingCall) keep(size int) bool {
	if c.server.suspended.room.Take(c.owner.Caller, int64(size)) != nil {
		return false
	}
	c.kept += int64(size)
	return true
}

// unkeep gives the room of a call back that is suspended no more. The caller holds session.mu.
func (c *pendingCall) unkeep() {
	c.server.suspended.room.Release(c.owner.Caller, c.kept)
	c.kept = 0
}

func (d *suspended) get(id string) *pendingCall {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls[id]
}

// resumed notes that a call is suspended no more.
func (d *suspended) resumed(owner pool.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count--
	if d.of[owner.Caller]--; d.of[owner.Caller] <= 0 {
		delete(d.of, owner.Caller)
	}
}

// remove forgets a call.
func (d *suspended) remove(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.calls, id)
}

// use uses up a state of a caller that counts once. It reports whether it had not been. One caller
// has as many as there are suspended calls, and all have sixteen times as many.
func (d *suspended) use(id, caller string, expires time.Time) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, used := d.spent[id]; used {
		return false, nil
	}
	full := func() bool {
		most := d.server.opts.MaxSuspended
		return d.spentOf[caller] >= most || len(d.spent) >= 16*most
	}
	if full() {
		now := time.Now()
		for id, s := range d.spent {
			if now.After(s.expires) {
				d.unspend(id, s.caller)
			}
		}
	}
	if full() {
		return false, protocol.Overloaded("too many calls are being sent again after their user was sent to a web site; try again later")
	}
	d.spent[id] = spentState{expires, caller}
	d.spentOf[caller]++
	return true, nil
}

// unspend forgets a state. The caller holds mu.
func (d *suspended) unspend(id, caller string) {
	delete(d.spent, id)
	if d.spentOf[caller]--; d.spentOf[caller] <= 0 {
		delete(d.spentOf, caller)
	}
}

// close gives up all calls that are suspended.
func (d *suspended) close() {
	d.mu.Lock()
	d.closed = true
	calls := make([]*pendingCall, 0, len(d.calls))
	for _, c := range d.calls {
		calls = append(calls, c)
	}
	d.mu.Unlock()
	for _, c := range calls {
		c.expire(0)
	}
}

// forget makes sure that a call which a turn has the answer of is not found again.
func (c *pendingCall) forget() {
	c.session.mu.Lock()
	id := c.id
	c.session.mu.Unlock()
	if id != "" {
		c.server.suspended.remove(id)
	}
}

// A state is what a requestState holds.
type state struct {
	ID      string `json:"s"`
	Method  string `json:"m"`
	Digest  []byte `json:"d"`
	Expires int64  `json:"e"` // in milliseconds since 1970
	Round   int    `json:"r"`

	// Visits are the web sites that the user was sent to, if that is what the
	// round was about: then no call is suspended, and the retry is sent again.
	Visits []urlElicitation `json:"v,omitempty"`
}

// suspend ends a turn by asking its client. If that cannot be, the questions are
// answered with an error, the call continues and the result is nil.
func (c *pendingCall) suspend(t *turn) *dragoman.Message {
	ss, opts := c.session, &c.server.opts
	sum, err := rounds.Digest(t.Message)
	ss.mu.Lock()
	questions := ss.questionsOf(c)
	if c.done || len(questions) == 0 {
		ss.mu.Unlock()
		t.signal()
		return nil
	}
	if c.id == "" {
		c.id = rand.Text()
	}
	why := ""
	switch {
	case err != nil:
		why = err.Error()
	case c.rounds >= opts.MaxRounds:
		why = fmt.Sprintf("it has been asked %d times in this call", c.rounds)
	default:
		why = c.server.suspended.admit(c, t.owner)
	}
	if why != "" {
		ss.mu.Unlock()
		ss.settleAll(questions, func(q *question) *dragoman.Message { return q.failed(why) })
		return nil
	}
	defer ss.mu.Unlock()
	c.rounds++
	round := c.rounds
	asked := make(map[string]asking, len(questions))
	for _, q := range questions {
		asked[q.key] = asking{q.method, q.params}
	}
	resp := c.server.ask(t.request, ss, asked, state{ID: c.id, Digest: sum, Round: round})
	c.turn = nil
	c.expiry = time.AfterFunc(opts.SuspendTimeout, func() { c.expire(round) })
	return resp
}

// An asking is an entry of inputRequests.
type asking struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`
}

// ask returns the answer that asks for input. st is completed and sealed.
func (s *Server) ask(r *request, ss *session, asked map[string]asking, st state) *dragoman.Message {
	st.Method = r.Method()
	st.Expires = time.Now().Add(s.opts.SuspendTimeout).UnixMilli()
	result := map[string]any{
		"resultType":    protocol.ResultInputRequired,
		"inputRequests": asked,
		"requestState":  s.seal.Seal("state", r.principal(), st),
	}
	if ss.info != nil {
		result["_meta"] = map[string]json.RawMessage{protocol.MetaServerInfo: ss.info}
	}
	resp, err := r.Reply(result)
	if err != nil {
		return r.Fail(failure(protocol.CodeInternal, nil, "the server's question cannot be passed on: %v", err))
	}
	return resp
}

// expire gives up a call whose client did not come back after a round, or after
// whichever there was if round is 0.
func (c *pendingCall) expire(round int) {
	ss := c.session
	ss.mu.Lock()
	if c.turn != nil || c.delivered || c.expired || c.expiry == nil || round != 0 && c.rounds != round {
		ss.mu.Unlock()
		return
	}
	c.expired, c.resp = true, nil
	c.expiry.Stop()
	c.unkeep()
	ss.calls = slices.DeleteFunc(ss.calls, func(other *pendingCall) bool { return other == c })
	rest := ss.drop(c, true)
	ss.mu.Unlock()
	c.server.suspended.remove(c.id)
	c.server.suspended.resumed(c.owner)
	ss.settleAll(rest, func(q *question) *dragoman.Message { return q.expired("it did not come back in time") })
	c.stop(errExpired)
}

var errExpired = errors.New("down: the client did not come back in time")

// resume takes a request that comes back with answers.
func (s *Server) resume(ctx context.Context, r *request) (*dragoman.Message, error) {
	st, answers, refusal := s.readState(r)
	if refusal != nil {
		return r.Fail(refusal), nil
	}
	if st.Visits != nil {
		return s.resumeAfterURLs(ctx, r, st, answers)
	}
	c := s.suspended.get(st.ID)
	if c == nil {
		return r.Fail(invalid("params.requestState is of a call that is over: its answer has been given, or nobody came for it; " +
			"it is not repeated, call again without requestState and inputResponses if you want that")), nil
	}
	t := newTurn(r)
	given, missed, refusal := c.attach(t, st, answers)
	if refusal != nil {
		return r.Fail(refusal), nil
	}
	s.suspended.resumed(c.owner)
	if r.level >= 0 {
		c.session.raiseLogLevel(ctx, r.level)
	}
	if missed != nil {
		c.advance(ctx, missed)
	}
	c.session.settleAll(given, func(q *question) *dragoman.Message { return q.answered(answers[q.key]) })
	t.signal() // there may be something to look at already
	return c.waitOutcome(ctx, t)
}

// readState reads requestState and inputResponses of a request. Everything that
// can be told without the call is checked.
func (s *Server) readState(r *request) (st state, answers map[string]json.RawMessage, refusal *dragoman.Error) {
	text := given(r.Message, "requestState")
	if text == nil {
		return st, nil, invalid("params.inputResponses without requestState; send the requestState back that came with the questions")
	}
	if given(r.Message, "inputResponses") != nil {
		if answers, refusal = rounds.Answers(r.Message); refusal != nil {
			return st, nil, refusal
		}
	}
	sealed, _ := dragoman.Text(text)
	if err := s.seal.Open(sealed, "state", r.principal(), &st); err != nil {
		return st, nil, invalid("params.requestState %v; send it back as it came", err)
	}
	sum, err := rounds.Digest(r.Message)
	switch {
	case err != nil:
		return st, nil, invalid("params cannot be read: %v", err)
	case st.Method != r.Method() || string(st.Digest) != string(sum):
		return st, nil, invalid("params.requestState is of a call with another method or other params; send the same request again")
	case time.Now().UnixMilli() > st.Expires:
		return st, nil, invalid("params.requestState has expired; the call was given up and is not repeated")
	}
	return st, answers, nil
}

// Suspended returns how many calls wait for their clients' input.
func (s *Server) Suspended() int {
	s.suspended.mu.Lock()
	defer s.suspended.mu.Unlock()
	return s.suspended.count
}

// Continues reports whether a request carries the requestState of a call that waits here for its
// client's input.
func (s *Server) Continues(ctx context.Context, req *dragoman.Message) bool {
	r, refusal := s.read(ctx, req, nil, false)
	if refusal != nil {
		return false
	}
	var st state
	sealed, _ := dragoman.Text(given(req, "requestState"))
	if s.seal.Open(sealed, "state", r.principal(), &st) != nil {
		return false
	}
	return st.Visits != nil || s.suspended.get(st.ID) != nil
}

// attach makes t the turn of a call that is suspended. It returns the questions that
// t answers, which other calls of the session may carry by now, and the progress that
// nobody was told.
func (c *pendingCall) attach(t *turn, st state, answers map[string]json.RawMessage) (given []*question, missed *dragoman.Message, refusal *dragoman.Error) {
	ss := c.session
	ss.mu.Lock()
	defer ss.mu.Unlock()
	switch {
	case c.expired:
		return nil, nil, invalid("params.requestState has expired; the call was given up and is not repeated")
	case c.turn != nil:
		return nil, nil, invalid("params.requestState has been used; another request waits for this call")
	case c.rounds != st.Round:
		return nil, nil, invalid("params.requestState is of an earlier round of this call; send the one that came with the last questions")
	}
	c.expiry.Stop()
	c.unkeep()
	c.turn, c.can = t, t.kind.can
	missed, c.latestProgress = c.latestProgress, nil
	for _, q := range ss.open {
		if _, ok := answers[q.key]; ok {
			given = append(given, q)
		}
	}
	if c.done {
		return given, missed, nil
	}
	c.lost = ss.Over()
	if t.level >= 0 {
		ss.loggers[c] = struct{}{}
	} else {
		delete(ss.loggers, c)
	}
	return given, missed, nil
}
