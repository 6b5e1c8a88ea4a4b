package down

import (
	"context"
	"encoding/json"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A turn is a request of the client while it waits for a call.
type turn struct {
	*request
	ear   ear
	token json.RawMessage // for progress, or nil
	wake  chan struct{}   // holds one token when there is something to look at
}

func newTurn(r *request) *turn {
	return &turn{
		request: r, ear: ear{from: r.from},
		token: r.Meta(protocol.MetaProgressToken),
		wake:  make(chan struct{}, 1),
	}
}

func (t *turn) rouse() {
	select {
	case t.wake <- struct{}{}:
	default: // awake already
	}
}

// attend waits for the call on behalf of a turn: until the server has answered,
// has asked something, or ctx ends.
func (c *call) attend(ctx context.Context, t *turn) (*dragoman.Message, error) {
	defer t.ear.hush()
	var gathered <-chan time.Time // more questions are waited for until then
	for {
		due := false
		select {
		case <-ctx.Done():
			c.stop(context.Cause(ctx))
			<-c.over
			c.leaveDesk()
			return nil, context.Cause(ctx)
		case <-t.wake:
		case <-gathered:
			gathered, due = nil, true
		}
		c.mu.Lock()
		if c.done {
			c.turn = nil
			c.mu.Unlock()
			c.leaveDesk()
			return c.outcome(ctx, t)
		}
		refused := c.cannot(t)
		open := len(c.questions)
		c.mu.Unlock()
		for _, q := range refused {
			q.settle(q.refusal())
		}
		switch {
		case open == 0:
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

// leaveDesk makes the desk forget the call, which its turn has the answer of.
func (c *call) leaveDesk() {
	c.mu.Lock()
	id := c.id
	c.mu.Unlock()
	if id != "" {
		c.server.desk.remove(id)
	}
}

// cannot takes out the questions that the client of a turn cannot be asked. The
// caller holds mu.
func (c *call) cannot(t *turn) (refused []*question) {
	left := c.questions[:0]
	for _, q := range c.questions {
		if t.kind.can.answers(q) {
			left = append(left, q)
		} else {
			refused = append(refused, q)
		}
	}
	clear(c.questions[len(left):])
	c.questions = left
	return refused
}

// outcome returns the answer of a turn at which the call has ended.
func (c *call) outcome(ctx context.Context, t *turn) (*dragoman.Message, error) {
	if c.lost && c.err != nil && ctx.Err() == nil {
		return t.Fail(invalid("the call was lost while it waited for your answers, and is not repeated: %v", c.err)), nil
	}
	if c.err != nil {
		return c.server.failed(ctx, t.request, c.err)
	}
	return c.server.answer(t.request, c.session, c.resp.WithID(t.ID()), c.rounds)
}
