package jsonrpc

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A Call is one outgoing request in flight. It is written by AppendTo, as it goes out:
// with our id, and our token in place of the caller's.
type Call struct {
	table  *Calls
	key    int64 // in the table
	id     dragoman.ID
	req    *dragoman.Message // the caller's
	out    *dragoman.Message // with our token
	from   dragoman.Peer
	owner  Owner         // may be nil
	ready  chan struct{} // holds one token when there is something to take; nil if there is an owner
	sent   atomic.Bool
	listen bool

	over     bool // guarded by mu: resp or err is set, or Finish was called; nothing more is taken
	finished bool // guarded by telling

	// Guarded by Calls.mu; see clock.
	began  time.Duration // zero if it may take forever
	due    time.Duration // when it has taken too long
	paused int           // questions of the other side that have no answer yet

	mu        sync.Mutex // guards the fields up to the blank line
	notes     Queue[struct{}]
	resp      *dragoman.Message
	err       error
	questions map[context.Context]context.CancelFunc // questions without an answer

	answering sync.WaitGroup // questions that from is answering
	telling   sync.Mutex     // held while from is told something by Notify
}

// ID returns the id under which the request goes out.
func (c *Call) ID() dragoman.ID { return c.id }

// Request returns the request as the caller made it.
func (c *Call) Request() *dragoman.Message { return c.req }

// From returns the caller, who may be nil. See Ask and Notify.
func (c *Call) From() dragoman.Peer { return c.from }

// Owner returns what BeginOwned was given.
func (c *Call) Owner() Owner { return c.owner }

// IsListen reports whether the request is one that lasts.
func (c *Call) IsListen() bool { return c.listen }

// Len returns how many bytes AppendTo appends.
func (c *Call) Len() int { return c.out.Len() - len(c.out.ID().String()) + len(c.id.String()) }

// AppendTo appends the request as it goes out.
func (c *Call) AppendTo(dst []byte) []byte { return c.out.AppendWithID(dst, c.id) }

// Message returns the request as it goes out.
func (c *Call) Message() *dragoman.Message { return c.out.WithID(c.id) }

// Sent says that the request is on its way: what the other side asks from now on may
// belong to it.
func (c *Call) Sent() { c.sent.Store(true) }

// WasSent reports whether Sent was called.
func (c *Call) WasSent() bool { return c.sent.Load() }

// Incoming returns an answer or a notification as the caller knows it: with its id,
// also where a listen names its subscription. A notification of a listen is given
// that name if it has none; an answer belongs to its request anyway.
func (c *Call) Incoming(m *dragoman.Message) *dragoman.Message {
	answer := m.Kind() == dragoman.Response
	if c.listen && !(answer && (m.IsError() || m.Meta(protocol.MetaSubscriptionID) == nil)) {
		if own, err := m.Edit().SetMeta(protocol.MetaSubscriptionID, []byte(c.req.ID().String())).Message(); err == nil {
			m = own
		}
	}
	if answer {
		m = m.WithID(c.req.ID())
	}
	return m
}

// end gives the call its answer or its error. The first counts.
func (c *Call) end(resp *dragoman.Message, err error) {
	c.mu.Lock()
	if c.over {
		c.mu.Unlock()
		return
	}
	c.resp, c.err, c.over = resp, err, true
	c.Wake()
	c.mu.Unlock()
	if c.owner != nil {
		c.owner.Ended(err)
	}
}

// Outcome returns the answer or the error that the table has for the call. It
// reports false if there is none.
func (c *Call) Outcome() (resp *dragoman.Message, over bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resp, c.over, c.err
}

// Ready returns a channel that holds a token when there is something for Wait to take.
func (c *Call) Ready() <-chan struct{} { return c.ready }

// Wake puts the token into Ready, also for who has taken it from there without Wait.
func (c *Call) Wake() {
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// Enqueue queues a notification that Wait gives to the caller, if there is room.
func (c *Call) Enqueue(note *dragoman.Message) {
	if c.from == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		c.Wake()
		c.notes.Put(note, struct{}{})
	}
}

// Wait gives the caller what is queued until the answer comes, and returns that. If
// ctx ends first, the error is its cause.
func (c *Call) Wait(ctx context.Context, log *slog.Logger) (*dragoman.Message, error) {
	for {
		ended := false
		select {
		case <-c.ready:
		case <-ctx.Done():
			ended = true
		}
		for more := true; more; {
			c.mu.Lock()
			over := c.over
			if ended && !over {
				c.mu.Unlock()
				return nil, context.Cause(ctx)
			}
			var note *dragoman.Message
			note, _, more = c.notes.Next()
			c.mu.Unlock()
			switch {
			case more:
				Notify(ctx, c.from, note, log) // a caller that cannot be told still gets the answer
				ended = ctx.Err() != nil
			case over:
				return c.resp, c.err
			}
		}
	}
}

// Notify tells the caller at once, unless the call is finished.
func (c *Call) Notify(ctx context.Context, note *dragoman.Message, log *slog.Logger) {
	if c.from == nil {
		return
	}
	c.telling.Lock()
	defer c.telling.Unlock()
	if !c.finished {
		Notify(ctx, c.from, note, log)
	}
}

// Ask reserves the caller for one question of the other side, until done is called.
// Meanwhile the time of the call is not counted. The context ends with done, with parent
// and with the call. It returns false if the call is over, or has no from.
func (c *Call) Ask(parent context.Context) (ctx context.Context, done func(), ok bool) {
	c.mu.Lock()
	if c.over || c.from == nil {
		c.mu.Unlock()
		return nil, nil, false
	}
	ctx, cancel := context.WithCancel(parent)
	if c.questions == nil {
		c.questions = make(map[context.Context]context.CancelFunc)
	}
	c.questions[ctx] = cancel
	c.answering.Add(1)
	c.mu.Unlock()
	c.table.pause(c)
	return ctx, func() {
		cancel()
		c.mu.Lock()
		delete(c.questions, ctx)
		c.mu.Unlock()
		c.table.resume(c)
		c.answering.Done()
	}, true
}

// Remove takes the call out of the table, and reports whether it was there. The
// error says why no more calls may begin, if that is so.
func (c *Call) Remove() (open bool, ended error) {
	t := c.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if open = t.open[c.key] == c; open {
		t.remove(c)
	}
	return open, t.ended
}

// Abandon is Remove for a call whose caller has gone before there is a response.
func (c *Call) Abandon() (open bool) {
	t := c.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if open = t.open[c.key] == c; open {
		t.remove(c)
		t.abandon(c)
	}
	return open
}

// Finish returns when the caller is not used any more. Questions that it is answering
// are cancelled.
func (c *Call) Finish() {
	c.mu.Lock()
	c.over = true
	for _, cancel := range c.questions {
		cancel()
	}
	c.mu.Unlock()
	c.answering.Wait()
	c.telling.Lock()
	c.finished = true
	c.telling.Unlock()
}

// CancelNote returns the notification that nobody waits for the call any more.
func (c *Call) CancelNote(reason string) *dragoman.Message {
	note, err := dragoman.NewNotification(protocol.NoteCancelled, struct {
		RequestID int64  `json:"requestId"`
		Reason    string `json:"reason,omitempty"`
	}{c.key, reason})
	if err != nil {
		panic(err) // a number and a text can be written
	}
	return note
}
