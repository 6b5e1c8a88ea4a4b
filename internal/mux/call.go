package mux

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// calls is the table of what we asked and have no answer to.
type calls struct {
	mu     sync.Mutex
	open   map[int64]*call
	past   []int64 // the ids of those that ended last, in a ring of maxPast
	oldest int     // the place in past that is next to be forgotten
	asking int     // how many of open are not listens
	ended  error   // why no more may be added
	limit  limit   // how long each may take
}

// maxPast is how many calls that have ended are remembered, to tell answers that
// come late from those that are not for us.
const maxPast = 256

// A call is one request of ours under way. The caller's goroutine waits for
// ready and takes what has arrived.
type call struct {
	id     int64
	req    *dragoman.Message
	from   dragoman.Peer
	listen bool
	ready  chan struct{} // holds one token when there is something to take
	sent   atomic.Bool   // the request has been given to the queue

	// Guarded by calls.mu.
	due   time.Time // when it has taken too long; zero if it may take for ever
	asked int       // questions of the other side that have no answer

	mu    sync.Mutex
	notes noteQueue
	resp  *dragoman.Message
	err   error
	over  bool // resp or err is set; nothing more is taken

	asks   sync.WaitGroup // questions that from is answering
	cancel []context.CancelFunc
}

// Call implements dragoman.Peer.
func (c *Conn) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	k := &call{
		req: req, from: from,
		listen: req.Method() == protocol.MethodListen,
		ready:  make(chan struct{}, 1),
	}
	if err := c.calls.add(k, c.opts.MaxCalls); err != nil {
		return nil, err
	}
	mark, err := c.send(ctx, k)
	if err != nil {
		c.calls.remove(k.id)
		k.finish()
		return nil, err
	}
	resp, err := k.wait(ctx, c.opts.Logger)
	if resp == nil {
		if err == nil { // ctx ended first
			err = context.Cause(ctx)
		}
		if open, _ := c.calls.remove(k.id); open != nil && protocol.Cancellable(req) {
			c.cancelled(k.id, err)
		}
	}
	k.finish()
	if err != nil {
		return nil, err
	}
	c.out.wasRead(mark)
	c.learn(req, resp)
	return k.downstream(resp), nil
}

// wait hands what arrives to from until the answer comes. Both results are nil
// when ctx ended first.
func (k *call) wait(ctx context.Context, log *slog.Logger) (*dragoman.Message, error) {
	for {
		ended := false
		select {
		case <-k.ready:
		case <-ctx.Done():
			ended = true
		}
		k.mu.Lock()
		notes, over := k.notes.take(), k.over
		k.mu.Unlock()
		if over || !ended {
			for _, note := range notes {
				tell(ctx, k.from, note, log) // who cannot be told still gets the answer
			}
		}
		if over {
			return k.resp, k.err
		}
		if ended {
			return nil, nil
		}
	}
}

// downstream returns the answer as the caller knows it.
func (k *call) downstream(resp *dragoman.Message) *dragoman.Message {
	if k.listen {
		resp = k.subscription(resp)
	}
	return resp.WithID(k.req.ID())
}

// subscription puts the caller's id where a listen names its subscription. A
// notification is given one if it has none; an answer belongs to its request anyway.
func (k *call) subscription(m *dragoman.Message) *dragoman.Message {
	if m.Kind() == dragoman.Response && m.Meta(protocol.MetaSubscriptionID) == nil {
		return m
	}
	own, err := m.Edit().SetMeta(protocol.MetaSubscriptionID, []byte(k.req.ID().String())).Message()
	if err != nil {
		return m
	}
	return own
}

// tell queues a notification for the caller. It tells whether there was room.
func (k *call) tell(note *dragoman.Message) bool {
	if k.from == nil {
		return true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over {
		return true
	}
	k.wake()
	return k.notes.put(note)
}

// answer ends the call. The first answer counts.
func (k *call) answer(resp *dragoman.Message, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.over {
		k.resp, k.err, k.over = resp, err, true
		k.wake()
	}
}

func (k *call) wake() {
	select {
	case k.ready <- struct{}{}:
	default:
	}
}

// ask reserves from for one question of the other side. The context ends with
// the call. It returns false when the call is over.
func (k *call) ask(parent context.Context) (context.Context, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over || k.from == nil {
		return nil, false
	}
	ctx, cancel := context.WithCancel(parent)
	k.cancel = append(k.cancel, cancel)
	k.asks.Add(1)
	return ctx, true
}

// finish makes sure that from is not used any more.
func (k *call) finish() {
	k.mu.Lock()
	k.over = true
	cancel := k.cancel
	k.mu.Unlock()
	for _, f := range cancel {
		f()
	}
	k.asks.Wait()
}

func (t *calls) add(k *call, limit int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended != nil {
		return t.ended
	}
	if len(t.open) >= limit {
		return dragoman.ErrOverloaded
	}
	k.id = NewID(t.open)
	t.open[k.id] = k
	if !k.listen {
		t.asking++
		t.begin(k)
	}
	return nil
}

// remove takes a call out of the table. It returns nil if it is not there, and
// then tells whether it was lately.
func (t *calls) remove(id int64) (k *call, late bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k = t.open[id]
	if k == nil {
		return nil, slices.Contains(t.past, id)
	}
	delete(t.open, id)
	if !k.listen {
		t.asking--
	}
	if len(t.past) < maxPast {
		t.past = append(t.past, id)
	} else {
		t.past[t.oldest] = id
		t.oldest = (t.oldest + 1) % maxPast
	}
	return k, false
}

// get returns the call with that id, or nil.
func (t *calls) get(id int64) *call {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open[id]
}

// only returns the one call that has been sent and has no answer, not counting
// listens, or nil.
func (t *calls) only() (only *call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.asking == 0 {
		return nil
	}
	for _, k := range t.open {
		switch {
		case k.listen || !k.sent.Load():
		case only != nil:
			return nil
		default:
			only = k
		}
	}
	return only
}

// listens returns the listens under way.
func (t *calls) listens() (list []*call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.open) == t.asking {
		return nil
	}
	for _, k := range t.open {
		if k.listen {
			list = append(list, k)
		}
	}
	return list
}

// waits tells whether there are calls under way, not counting listens.
func (t *calls) waits() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.asking > 0
}

// endAll answers every call with err, and refuses new ones.
func (t *calls) endAll(err error) {
	t.mu.Lock()
	open := t.open
	t.open = make(map[int64]*call)
	t.asking = 0
	if t.ended == nil {
		t.ended = err
	}
	t.limit.stop()
	t.mu.Unlock()
	for _, k := range open {
		k.answer(nil, err)
	}
}

// Notify implements dragoman.Peer. It does not wait: see the package's limits.
func (c *Conn) Notify(_ context.Context, note *dragoman.Message) error {
	full, err := c.out.offer(note)
	if full {
		c.end(dragoman.ErrSlow)
		return c.Err()
	}
	return err
}

// cancelled tells the other side that nobody waits for a call any more.
func (c *Conn) cancelled(id int64, reason error) {
	note, err := dragoman.NewNotification(protocol.NoteCancelled, struct {
		RequestID int64  `json:"requestId"`
		Reason    string `json:"reason,omitempty"`
	}{id, reason.Error()})
	if err == nil {
		_ = c.Notify(c.ctx, note)
	}
}

// number reads an id or token that we minted.
func number(text json.RawMessage) (int64, bool) {
	n, err := strconv.ParseInt(string(text), 10, 64)
	return n, err == nil
}
