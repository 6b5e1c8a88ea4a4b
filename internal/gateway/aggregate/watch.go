package aggregate

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/subscription"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A watch is a subscription to resources and tasks of one member, on behalf of a
// client's: the client's own request, for a part of what it names.
type watch struct {
	*subscription.Sent
	member       *member
	acknowledged protocol.Interest // by the member, in our terms; of the listener's goroutine
}

// watch begins to watch resources and tasks, by our ids, of a member.
func (l *listener) watch(ctx context.Context, m *member, uris, tasks []string) *watch {
	wanted := protocol.Interest{URIs: uris}
	for _, id := range tasks {
		wanted.Tasks = append(wanted.Tasks, id[len(m.Name()+taskMark):])
	}
	w := &watch{member: m, Sent: subscription.NewSent(ctx, func(note *dragoman.Message) { l.changed(m, note) })}
	// Ends when the member ends the subscription, or with Cancel, as a Peer promises.
	if !l.aggregate.busy.Start(func() {
		defer l.Rouse()
		w.Run(func(ctx context.Context, from dragoman.Peer) (*dragoman.Message, error) {
			text, err := json.Marshal(wanted)
			if err != nil {
				return nil, err
			}
			req, err := l.request.Edit().Set("notifications", text).Message()
			if err != nil {
				return nil, err
			}
			return m.Requests().Call(ctx, req, from)
		})
		if !errors.Is(w.Err(), context.Canceled) {
			l.aggregate.log.Debug("a server reports changes of its resources no more", "server", m.Name(), "error", w.Err())
		}
	}) {
		w.Cancel() // the aggregate is closed
	}
	return w
}

// changed takes a change that a member reports.
func (l *listener) changed(m *member, note *dragoman.Message) {
	switch note.Method() {
	case protocol.NoteTasks:
		marked, err := m.mark(note)
		if err != nil {
			return
		}
		note = marked
	case protocol.NoteResourceUpdated:
	default:
		return // the member was not asked for it
	}
	l.Put(note)
}

// accept takes in what the member has acknowledged.
func (w *watch) accept(ack protocol.Interest) {
	w.acknowledged.URIs = ack.URIs
	for _, id := range ack.Tasks {
		w.acknowledged.Tasks = append(w.acknowledged.Tasks, w.member.Name()+taskMark+id)
	}
}

// await waits until the members have acknowledged the watches, for PerMember at
// most. Those that have not are ended.
func (l *listener) await(ctx context.Context, watches []*watch) {
	late := time.NewTimer(l.aggregate.opts.PerMember)
	defer late.Stop()
	for _, w := range watches {
		select {
		case ack := <-w.Acked:
			w.accept(ack)
		case <-w.Ended:
			w.acceptNow()
		case <-late.C:
			w.acceptNow()
			late.Reset(0) // for the others too
		case <-ctx.Done():
			return
		case <-l.aggregate.ctx.Done():
			return
		}
		if w.acknowledged.Empty() {
			w.Cancel()
			continue
		}
		l.watches = append(l.watches, w)
	}
}

// acceptNow takes in what the member has acknowledged by now.
func (w *watch) acceptNow() {
	select {
	case ack := <-w.Acked:
		w.accept(ack)
	default:
	}
}

// covers reports whether a resource or a task is watched.
func (l *listener) covers(of func(*protocol.Interest) []string, name string) bool {
	return slices.ContainsFunc(l.watches, func(w *watch) bool { return slices.Contains(of(&w.acknowledged), name) })
}

func urisOf(f *protocol.Interest) []string  { return f.URIs }
func tasksOf(f *protocol.Interest) []string { return f.Tasks }
