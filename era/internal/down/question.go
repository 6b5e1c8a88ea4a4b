package down

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/adapt"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A question is what the server asked, until it is answered. It belongs to a session,
// and some call of that session carries it to the client.
type question struct {
	msg    *dragoman.Message // as the server asked
	route  adapt.Route
	key    string // in inputRequests; its own within the session
	method string
	params json.RawMessage // as the client is asked
	url    bool            // an elicitation that sends the user to a web site
	tools  bool            // sampling with tools
	size   int64           // bytes that are kept of it
	came   time.Time
	answer chan *dragoman.Message // holds the answer, once
	done   chan struct{}          // closed when it is open no more

	// Guarded by session.mu.
	by      *pendingCall // whose it is, if the conversation says so
	carrier *pendingCall // nil while there is none
	expiry  *time.Timer  // of a question that nobody carries
}

// newQuestion makes a question of what a server asks. The error says why it
// cannot be asked.
func newQuestion(route adapt.Route, msg *dragoman.Message) (*question, *dragoman.Error) {
	switch msg.Method() {
	case protocol.MethodElicit, protocol.MethodCreateMessage, protocol.MethodListRoots:
	default:
		return nil, failure(protocol.CodeMethodNotFound, nil, "method not found: %s", msg.Method())
	}
	asked, refusal := route.ServerRequest(msg)
	if refusal != nil {
		return nil, refusal
	}
	q := &question{
		msg: msg, route: route, method: msg.Method(), params: asked.Params(), size: int64(msg.Len()), came: time.Now(),
		answer: make(chan *dragoman.Message, 1), done: make(chan struct{}),
	}
	if asked != msg {
		q.size += int64(asked.Len())
	}
	if q.params == nil {
		q.params = json.RawMessage("{}") // some clients take none for an error
	}
	var mode string
	q.url = json.Unmarshal(asked.Get("mode"), &mode) == nil && mode == "url"
	q.tools = asked.Get("tools") != nil || asked.Get("toolChoice") != nil
	return q, nil
}

// canBeAskedOf reports whether a client can be asked it.
func (q *question) canBeAskedOf(can protocol.Abilities) bool {
	return can.Answers(q.method, q.url, q.tools)
}

// question takes what the server asks and waits for the client's answer. by is the
// call that it is said to belong to, or nil.
//
// In the session of our own there is nobody to ask. But some servers ask all sessions,
// so that may be meant for somebody else: it is left to them, unless a request of ours
// seems to wait for the answer.
func (ss *session) question(ctx context.Context, msg *dragoman.Message, by *pendingCall) (*dragoman.Message, error) {
	if m := msg.Method(); m == protocol.MethodPing || m == protocol.MethodListRoots && ss.main || !ss.ready.Load() {
		return notAsked(msg), nil
	}
	q, refusal := newQuestion(ss.route(protocol.Latest), msg)
	if refusal != nil {
		return msg.Fail(refusal), nil
	}
	ss.mu.Lock()
	switch {
	case !q.canBeAskedOf(ss.kind.can):
		ss.mu.Unlock()
		return q.refusal(), nil
	case by != nil && (by.done || by.expired), ss.main && len(ss.calls) > 0:
		ss.mu.Unlock()
		return notAsked(msg), nil
	case len(ss.open) >= MaxServerRequests:
		ss.mu.Unlock()
		return msg.Fail(protocol.Overloaded("too many questions are open in this session; wait for answers")), nil
	case ss.server.suspended.room.Take(ss.owner.Caller, q.size) != nil:
		ss.mu.Unlock()
		return q.failed(tooMuchWaits), nil //nolint:nilerr // the response says it
	}
	ss.nextKey++
	q.key, q.by = strconv.Itoa(ss.nextKey), by
	ss.open = append(ss.open, q)
	ss.assignQuestion(q)
	ss.noteAsker(q)
	if q.carrier == nil && q.method == protocol.MethodListRoots {
		ss.earlyRoots = append(ss.earlyRoots, q)
	}
	ss.mu.Unlock()
	select {
	case resp := <-q.answer:
		return resp, nil
	case <-ctx.Done():
		ss.mu.Lock()
		c := q.carrier
		ss.close(q)
		if c != nil && c.turn != nil {
			c.turn.signal() // it may have nothing left to ask
		}
		ss.mu.Unlock()
		return nil, context.Cause(ctx)
	}
}

// reassign refuses a question in the session of our own if a request of ours is under
// way, or if it has been open for too long.
func (ss *session) reassign(q *question) {
	ss.mu.Lock()
	again := ss.running.Load() == 0 && time.Since(q.came) < ss.server.opts.SuspendTimeout
	if again && slices.Contains(ss.open, q) {
		q.expiry.Reset(ownTime)
	}
	ss.mu.Unlock()
	if again {
		return
	}
	ss.settleAll([]*question{q}, func(q *question) *dragoman.Message { return notAsked(q.msg) })
}

// assignQuestion finds the call that carries a question: the one that it belongs to, or else
// the likeliest of those whose client can be asked it, the oldest of several. Without any the
// question waits for the next call. The caller holds mu.
func (ss *session) assignQuestion(q *question) {
	q.carrier = q.by
	if q.by == nil {
		best := -1
		for _, c := range ss.calls {
			if c.expired || !q.canBeAskedOf(c.can) {
				continue
			}
			if n := c.likelihood(); n > best {
				q.carrier, best = c, n
			}
		}
	}
	if q.expiry != nil {
		q.expiry.Stop()
		q.expiry = nil
	}
	switch c := q.carrier; {
	case c == nil && ss.main:
		q.expiry = time.AfterFunc(ownTime, func() { ss.reassign(q) })
	case c == nil:
		q.expiry = time.AfterFunc(ss.server.opts.SuspendTimeout, func() {
			ss.settleAll([]*question{q}, func(q *question) *dragoman.Message { return q.expired("it made no call in time") })
		})
	case c.turn != nil:
		c.turn.signal()
	}
}

// likelihood rates how likely it is that a request of the server belongs to the call. A
// suspended call still waits for the response to an earlier one, and its client may not come
// back; and a tool that has asked before mostly asks each time. The caller holds session.mu.
func (c *pendingCall) likelihood() (n int) {
	if c.turn != nil {
		n += 2
	}
	if c.server.askers.has(c.up) {
		n++
	}
	return n
}

// noteAsker remembers that a call asks, if that is certain: the connection says so, or there
// is no other request in flight. The caller holds mu.
func (ss *session) noteAsker(q *question) {
	if c := q.carrier; c != nil && (q.by != nil || len(ss.calls) == 1 && ss.running.Load() == 1) {
		ss.server.askers.add(c.up)
	}
}

// maxAskers is how many tools, prompts and resources are remembered as asking, and
// maxAskerName how long the name of one may be.
const maxAskers, maxAskerName = 1024, 256

// askers remembers which tools, prompts and resources ask for input.
type askers struct {
	mu    sync.Mutex
	known map[string]struct{} // guarded by mu
}

func askerName(req *dragoman.Message) string {
	return req.Method() + " " + req.Name() + req.URI()
}

func (a *askers) has(req *dragoman.Message) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.known[askerName(req)]
	return ok
}

func (a *askers) add(req *dragoman.Message) {
	name := askerName(req)
	if len(name) > maxAskerName {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known == nil || len(a.known) >= maxAskers {
		a.known = make(map[string]struct{})
	}
	a.known[name] = struct{}{}
}

// questionsOf returns the questions that a call carries, oldest first. The caller holds
// mu.
func (ss *session) questionsOf(c *pendingCall) (list []*question) {
	for _, q := range ss.open {
		if q.carrier == c {
			list = append(list, q)
		}
	}
	return list
}

// close makes a question open no more, and reports whether it was. The caller holds
// mu.
func (ss *session) close(q *question) bool {
	i := slices.Index(ss.open, q)
	if i < 0 {
		return false
	}
	ss.open = slices.Delete(ss.open, i, i+1)
	ss.server.suspended.room.Release(ss.owner.Caller, q.size)
	if q.carrier == nil {
		ss.earlyRoots = without(ss.earlyRoots, q)
	}
	q.carrier = nil
	if q.expiry != nil {
		q.expiry.Stop()
	}
	close(q.done)
	return true
}

// without returns the questions but for some.
func without(list []*question, some ...*question) []*question {
	return slices.DeleteFunc(list, func(q *question) bool { return slices.Contains(some, q) })
}

// settleAll answers questions that are still open.
func (ss *session) settleAll(list []*question, answer func(*question) *dragoman.Message) {
	for _, q := range list {
		ss.mu.Lock()
		open := ss.close(q)
		ss.mu.Unlock()
		if open {
			q.answer <- answer(q)
		}
	}
}

// drop takes the questions of a call that carries none any more, and gives those to
// other calls that may be theirs. It returns the rest, which nobody can be asked.
// given says that the call was given up, and not answered. The caller holds mu.
func (ss *session) drop(c *pendingCall, given bool) (rest []*question) {
	for _, q := range ss.questionsOf(c) {
		if q.by == c || given && len(ss.calls) == 0 {
			rest = append(rest, q)
			continue
		}
		ss.assignQuestion(q)
	}
	return rest
}

// answered returns the server's answer out of the client's, a bare result.
func (q *question) answered(result json.RawMessage) *dragoman.Message {
	resp, err := q.msg.Reply(result)
	if err == nil {
		resp, err = q.route.Answer(q.method, resp)
	}
	if err != nil {
		return q.msg.Fail(failure(protocol.CodeInternal, nil, "the client's answer cannot be passed on: %v", err))
	}
	return resp
}

// refusal is the answer to what the client did not say it can be asked.
func (q *question) refusal() *dragoman.Message {
	if q.method == protocol.MethodElicit {
		return q.elicited("decline")
	}
	return q.msg.Fail(failure(protocol.CodeMethodNotFound, nil, "the client of this call does not support %s as it was asked", q.method))
}

// expired is the answer to what the client will not be asked any more, because of
// why.
func (q *question) expired(why string) *dragoman.Message {
	if q.method == protocol.MethodElicit {
		return q.elicited("cancel")
	}
	return q.failed(why)
}

func (q *question) failed(why string) *dragoman.Message {
	return q.msg.Fail(failure(protocol.CodeInternal, nil, "the client cannot be asked: %s", why))
}

func (q *question) elicited(action string) *dragoman.Message {
	resp, err := q.msg.Reply(map[string]string{"action": action})
	if err != nil {
		return q.failed(err.Error())
	}
	return resp
}

// notAsked answers a question for which there is nobody to ask.
func notAsked(q *dragoman.Message) *dragoman.Message {
	var result string
	switch q.Method() {
	case protocol.MethodPing:
		result = `{}`
	case protocol.MethodListRoots:
		result = `{"roots":[]}`
	default:
		return q.Fail(invalid("%s belongs to no call of the client in flight, so no client can answer it", q.Method()))
	}
	resp, err := q.Reply([]byte(result))
	if err != nil {
		return q.Fail(failure(protocol.CodeInternal, nil, "%v", err))
	}
	return resp
}
