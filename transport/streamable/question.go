package streamable

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/mux"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A question is a request to the client that has no answer yet.
type question struct {
	req   *dragoman.Message
	reply chan *dragoman.Message

	mu   sync.Mutex
	from dragoman.Peer // nil when the question is over; used with mu held
}

// tell gives whoever asked what the client says on the way.
func (q *question) tell(ctx context.Context, note *dragoman.Message) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.from == nil {
		return nil
	}
	return q.from.Notify(ctx, note)
}

func (q *question) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.from = nil
}

// A speaker is what a message to the client goes out by: a stream of its own,
// or that of the request it belongs to.
type speaker interface {
	tell(note *dragoman.Message) error
	ask(ctx context.Context, req *dragoman.Message) error
}

// ask sends a request to the client, under an id of our own, and waits for the
// answer, which comes by POST.
func (v *session) ask(ctx context.Context, req *dragoman.Message, from dragoman.Peer, by speaker) (*dragoman.Message, error) {
	if err := v.Err(); err != nil {
		return nil, err
	}
	q := &question{req: req, from: from, reply: make(chan *dragoman.Message, 1)}
	defer q.end()
	id, err := v.addQuestion(q)
	if err != nil {
		return nil, err
	}
	defer v.takeQuestion(id)
	out := req
	if req.Meta(protocol.MetaProgressToken) != nil {
		if out, err = req.Edit().SetMeta(protocol.MetaProgressToken, strconv.AppendInt(nil, id, 10)).Message(); err != nil {
			return nil, err
		}
	}
	sending, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(v.ctx, func() { cancel(v.Err()) })()
	if err := by.ask(sending, out.WithID(dragoman.IntID(id))); err != nil {
		return nil, err
	}
	select {
	case resp := <-q.reply:
		return resp.WithID(req.ID()), nil
	case <-v.ctx.Done():
		return nil, v.Err()
	case <-ctx.Done():
		note, err := dragoman.NewNotification(protocol.NoteCancelled, map[string]any{"requestId": id, "reason": context.Cause(ctx).Error()})
		if err == nil {
			_ = by.tell(note)
		}
		return nil, context.Cause(ctx)
	}
}

// addQuestion enters a question into the table, under a new id.
func (v *session) addQuestion(q *question) (id int64, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.asked) >= v.server.opts.maxRequests {
		return 0, dragoman.ErrOverloaded
	}
	id = mux.NewID(v.asked)
	v.asked[id] = q
	return id, nil
}

func (v *session) takeQuestion(id int64) *question {
	v.mu.Lock()
	defer v.mu.Unlock()
	q := v.asked[id]
	delete(v.asked, id)
	return q
}

// reply takes a response of the client. Who never was asked is ignored.
func (v *session) reply(resp *dragoman.Message) {
	id, ok := resp.ID().Int()
	if !ok {
		return
	}
	q := v.takeQuestion(id)
	if q == nil {
		v.server.predecessors(v.id, v.owner, func(o *session) bool { q = o.takeQuestion(id); return q != nil })
	}
	if q != nil {
		q.reply <- resp
	}
}

// progress gives a question its progress, with the token of whoever asked.
func (v *session) progress(ctx context.Context, note *dragoman.Message) error {
	id, err := strconv.ParseInt(string(note.Get("progressToken")), 10, 64)
	if err != nil {
		return fmt.Errorf("progress of an unknown token: %w", err)
	}
	v.mu.Lock()
	q := v.asked[id]
	v.mu.Unlock()
	if q == nil {
		return nil
	}
	own, err := note.Edit().Set("progressToken", q.req.Meta(protocol.MetaProgressToken)).Message()
	if err != nil {
		return err
	}
	return q.tell(ctx, own)
}
