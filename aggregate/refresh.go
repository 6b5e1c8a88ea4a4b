package aggregate

import (
	"context"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// refresh asks those of the members again whose lists are old, each once even if
// many want to know.
func (a *Aggregate) refresh(ctx context.Context, b *book, r *request, members []*member, kinds ...kind) error {
	type question struct {
		kind   kind
		member *member
		change uint64 // what the member has told of changes
		req    *dragoman.Message
	}
	var all []question
	for _, k := range kinds {
		req, err := listRequest(r, k)
		if err != nil {
			return err
		}
		for _, m := range members {
			if b.old(k, m) {
				all = append(all, question{k, m, m.changes[k].Load(), req})
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	asked := time.Now()
	answers, err := gather(ctx, a, len(all), func(ctx context.Context, i int) (struct{}, error) {
		return struct{}{}, a.ask(ctx, b, all[i].kind, all[i].member, all[i].req)
	})
	for i, answer := range answers {
		if q := &all[i]; answer.err != nil {
			a.log.Debug("a server does not say what it has", "server", q.member.Name(), "list", lists[q.kind].method, "error", answer.err)
			b.fail(q.kind, q.member, asked, q.change)
		}
	}
	return err
}

// ask asks a member what it offers, unless somebody else has just done so.
func (a *Aggregate) ask(ctx context.Context, b *book, k kind, m *member, req *dragoman.Message) error {
	turn := b.turn(k, m)
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if !b.old(k, m) {
		return nil
	}
	change := m.changes[k].Load()
	h, err := a.fetch(ctx, m, k, req)
	if err == nil {
		b.note(k, m, h.keys, change)
	}
	return err
}

// listRequest makes a request for a list by the sender of another request.
func listRequest(r *request, k kind) (*dragoman.Message, error) {
	env, err := protocol.ReadEnvelope(r.Message)
	if err != nil {
		return nil, invalid("%v", err)
	}
	env.LogLevel = nil // nothing is told on the way
	req, err := dragoman.NewRequest(r.ID(), lists[k].method, nil)
	if err != nil {
		return nil, err
	}
	return env.Put(req)
}
