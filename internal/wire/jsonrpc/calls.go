package jsonrpc

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Calls is the table of what we asked and have no answer to.
type Calls struct {
	limit int

	mu         sync.Mutex
	open       map[int64]*Call
	notListens int                 // how many of open are not listens
	abandoned  map[int64]time.Time // when those that were given up count no more
	ended      error               // why no more may be added
	clock      clock               // how long each may take
}

// NewCalls returns a table for so many calls at a time.
func NewCalls(limit int) *Calls {
	return &Calls{limit: limit, open: make(map[int64]*Call), clock: clock{zero: time.Now()}}
}

// An Owner has a call and does not use Wait, because it does something else while the
// call is in flight.
type Owner interface {
	// Ended is called, at most once, when the table has an answer or an error for
	// the call. It should make the owner finish the call. The error is nil if there
	// is an answer.
	Ended(err error)
}

// Begin enters a new call, or returns why it cannot be made; nothing has been sent
// then. The caller waits for it by Wait, removes it, unless it was answered, and
// finishes it.
func (t *Calls) Begin(req *dragoman.Message, from dragoman.Peer) (*Call, error) {
	c := &Call{ready: make(chan struct{}, 1)}
	if err := t.begin(c, req, from); err != nil {
		return nil, err
	}
	return c, nil
}

// BeginOwned is Begin for a call that is part of its owner, who does not use Wait.
func (t *Calls) BeginOwned(c *Call, owner Owner, req *dragoman.Message, from dragoman.Peer) error {
	c.owner = owner
	return t.begin(c, req, from)
}

func (t *Calls) begin(c *Call, req *dragoman.Message, from dragoman.Peer) error {
	c.table, c.req, c.out, c.from = t, req, req, from
	c.listen = protocol.Lasts(req.Method())
	if err := t.add(c); err != nil {
		return err
	}
	c.id = dragoman.IntID(c.key)
	if req.Meta(protocol.MetaProgressToken) != nil {
		var err error
		if c.out, err = req.Edit().SetMeta(protocol.MetaProgressToken, []byte(c.id.String())).Message(); err != nil {
			_, _ = c.Remove()
			return err
		}
	}
	return nil
}

func (t *Calls) add(c *Call) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended != nil {
		return t.ended
	}
	if len(t.open) >= t.limit {
		return dragoman.ErrOverloaded
	}
	c.key = NewID(t.open)
	t.open[c.key] = c
	if !c.listen {
		t.notListens++
		t.start(c)
	}
	return nil
}

// take takes the call with that id out of the table and returns it, or nil.
func (t *Calls) take(id dragoman.ID) *Call {
	key, _ := id.Int() // zero if it is no number, which is no id of ours
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.open[key]
	if c != nil {
		t.remove(c)
	}
	delete(t.abandoned, key)
	return c
}

// remove takes a call out of the table. mu is held.
func (t *Calls) remove(c *Call) {
	delete(t.open, c.key)
	if !c.listen {
		t.notListens--
	}
}

// A Match is what became of an answer.
type Match int

// The ways in which an answer may fit a call.
const (
	Matched Match = iota // a call has it
	Unknown              // it belongs to no call of this table, or to one that has ended
	NoID                 // it is an error without an id, and may belong to several calls
)

// Answer gives a response to the call that it belongs to. An error without an id
// says that the other side could not read what we sent: if only one call is in flight,
// it was that.
func (t *Calls) Answer(resp *dragoman.Message) Match {
	if resp.IsError() && (resp.ID().IsZero() || resp.ID().IsNull()) {
		if c := t.Only(); c != nil {
			if open, _ := c.Remove(); open {
				c.end(resp, nil)
				return Matched
			}
		}
		return NoID
	}
	c := t.take(resp.ID())
	if c == nil {
		return Unknown
	}
	c.end(resp, nil)
	return Matched
}

// Fail ends the call with that id, if there is one, because its answer cannot be
// read. It reports whether there was one.
func (t *Calls) Fail(id dragoman.ID, err error) bool {
	c := t.take(id)
	if c != nil {
		c.end(nil, err)
	}
	return c != nil
}

// CancelListen ends the listen with that id, the one request that a server may end
// by cancelling it.
func (t *Calls) CancelListen(id dragoman.ID) {
	key, _ := id.Int()
	if c := t.get(key); c != nil && c.listen {
		_, _ = c.Remove()
		c.end(nil, dragoman.ErrCancelled)
	}
}

func (t *Calls) get(key int64) *Call {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open[key]
}

// Only returns the one call that has been sent and has no answer, not counting
// listens, or nil. A server/discover that a legacy server has ignored may be pending
// for long; it counts only if there is no other call.
func (t *Calls) Only() (only *Call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.notListens == 0 {
		return nil
	}
	var discover *Call
	for _, c := range t.open {
		switch {
		case c.listen || !c.sent.Load():
		case c.req.Method() == protocol.MethodDiscover:
			discover = c
		case only != nil:
			return nil
		default:
			only = c
		}
	}
	if only == nil {
		return discover
	}
	return only
}

// AbandonedFor is how long a call that was given up counts as in flight for log messages,
// without a response.
const AbandonedFor = 10 * time.Second

// maxAbandoned is how many calls that were given up are remembered.
const maxAbandoned = 1024

// abandon notes that a call was given up. mu is held.
func (t *Calls) abandon(c *Call) {
	if c.listen || !c.sent.Load() {
		return
	}
	if t.abandoned == nil || len(t.abandoned) >= maxAbandoned {
		t.abandoned = make(map[int64]time.Time)
	}
	t.abandoned[c.key] = time.Now().Add(AbandonedFor)
}

// OnlyLogger returns the one call that a log message can belong to, or nil: a call that was
// given up may still log until its response comes, which not every server sends.
func (t *Calls) OnlyLogger() *Call {
	t.mu.Lock()
	now := time.Now()
	maps.DeleteFunc(t.abandoned, func(_ int64, until time.Time) bool { return !now.Before(until) })
	ambiguous := len(t.abandoned) > 0
	t.mu.Unlock()
	if ambiguous {
		return nil
	}
	return t.Only()
}

// HasCalls reports whether there are calls in flight, not counting listens.
func (t *Calls) HasCalls() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.notListens > 0
}

// Progress returns the call that progress belongs to, and the notification with the
// caller's token. The time of the call is counted again. It returns nil if there is no
// such call, or it wants no progress.
func (t *Calls) Progress(note *dragoman.Message) (*Call, *dragoman.Message) {
	key, ok := number(note.Get("progressToken"))
	if !ok {
		return nil, nil
	}
	c := t.get(key)
	if c == nil {
		return nil, nil
	}
	t.renew(c)
	token := c.req.Meta(protocol.MetaProgressToken)
	if token == nil {
		return nil, nil
	}
	own, err := note.Edit().Set("progressToken", token).Message()
	if err != nil {
		return nil, nil
	}
	return c, own
}

// Listens returns the listens that a notification belongs to: the one whose
// subscription it names. Servers of some libraries name none; then those that want
// it.
func (t *Calls) Listens(note *dragoman.Message) (list []*Call) {
	id := note.Meta(protocol.MetaSubscriptionID)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.open) == t.notListens {
		return nil
	}
	if id != nil {
		if key, ok := number(id); ok && t.open[key] != nil && t.open[key].listen {
			list = append(list, t.open[key])
		}
		return list
	}
	for _, c := range t.open {
		if c.listen && c.wants(note) {
			list = append(list, c)
		}
	}
	return list
}

func (c *Call) wants(note *dragoman.Message) bool {
	wanted := protocol.InterestOf(c.req)
	return wanted.Wants(note.Method(), note.URI())
}

// Refuse lets no more calls begin, because of err, and returns those in flight, in
// the order in which they began.
func (t *Calls) Refuse(err error) []*Call {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended == nil {
		t.ended = err
	}
	return slices.SortedFunc(maps.Values(t.open), func(a, b *Call) int { return int(a.key - b.key) })
}

// End ends every call with err, and lets no more begin.
func (t *Calls) End(err error) {
	open := t.Refuse(err)
	t.mu.Lock()
	clear(t.open)
	t.notListens = 0
	t.clock.stop()
	t.mu.Unlock()
	for _, c := range open {
		c.end(nil, err)
	}
}

// A clock ends calls that take too long. One timer serves them all: it is set for the
// call that is due first, and a call that ends before does not change it, since to set
// the timer for each call costs more than all else that is done for a call. Times are
// counted from when the table was made, and are never zero.
type clock struct {
	zero   time.Time
	after  time.Duration // how long a call may take without progress; zero means no limit
	max    time.Duration // whatever progress and questions there are; zero means no limit
	timer  *time.Timer
	at     time.Duration // when the timer fires; zero if it does not run
	paused int           // questions that may be of any call and have no answer
}

func (l *clock) now() time.Duration { return time.Since(l.zero) + 1 }

func (l *clock) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}

// SetTimeout sets how long a call may take, reset by each progress message, and not
// while the other side waits for an answer of ours; and how long at most, even so. A
// call that takes longer ends with a *[dragoman.TimeoutError]. A listen has no limit. It is
// for calls that begin afterwards; zero means none, as before it is called.
func (t *Calls) SetTimeout(after, atMost time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clock.after, t.clock.max = after, atMost
}

// start sets how long a new call may take. mu is held.
func (t *Calls) start(c *Call) {
	if t.clock.after > 0 {
		c.began = t.clock.now()
		t.arm(c, c.began)
	}
}

// arm makes a call that has a limit due again. mu is held.
func (t *Calls) arm(c *Call, now time.Duration) {
	l := &t.clock
	if t.ended != nil || c.began == 0 {
		return
	}
	c.due = now + l.after
	if l.max > 0 {
		c.due = min(c.due, c.began+l.max)
	}
	switch {
	case l.at != 0 && l.at <= c.due:
		return
	case l.timer == nil:
		l.timer = time.AfterFunc(c.due-now, t.expire)
	default:
		l.timer.Reset(c.due - now)
	}
	l.at = c.due
}

// renew counts the time of a call again, because there is progress.
func (t *Calls) renew(c *Call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.began != 0 && c.paused == 0 {
		t.arm(c, t.clock.now())
	}
}

// pause stops counting for a call while the other side waits for an answer; resume
// counts again when it waits no more.
func (t *Calls) pause(c *Call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.paused++
}

func (t *Calls) resume(c *Call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.paused--; c.paused == 0 {
		t.arm(c, t.clock.now())
	}
}

// PauseAll stops counting for all calls, because of a question that may be of any.
// ResumeAll counts again when it has its answer.
func (t *Calls) PauseAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clock.paused++
}

// ResumeAll ends what PauseAll began.
func (t *Calls) ResumeAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.clock.paused--; t.clock.paused > 0 {
		return
	}
	now := t.clock.now()
	for _, c := range t.open {
		t.arm(c, now)
	}
}

// timeout returns the error of a call that was due.
func (l *clock) timeout(c *Call, due time.Duration) error {
	if l.max > 0 && due == c.began+l.max {
		return &dragoman.TimeoutError{After: l.max}
	}
	return &dragoman.TimeoutError{After: l.after, Renewed: due > c.began+l.after}
}

// expire ends the calls that are due, and sets the timer for the next. The caller of
// each tells the other side. A call that is paused is due at its maximum, and sets the
// timer when it is resumed.
func (t *Calls) expire() {
	t.mu.Lock()
	l := &t.clock
	now, late := l.now(), make(map[*Call]error)
	l.at = 0
	for _, c := range t.open {
		due := c.due
		if c.paused > 0 || l.paused > 0 {
			if due = 0; l.max > 0 && c.began != 0 {
				due = c.began + l.max
			}
		}
		switch {
		case due == 0:
		case due <= now:
			late[c] = l.timeout(c, due)
			c.began, c.due = 0, 0
		case l.at == 0 || due < l.at:
			l.at = due
		}
	}
	if l.at != 0 {
		l.timer.Reset(l.at - now)
	}
	t.mu.Unlock()
	for c, err := range late {
		c.end(nil, err)
	}
}
