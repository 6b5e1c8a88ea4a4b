package aggregate

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A watch is a subscription to resources and tasks of one member, on behalf of a
// client's. It is the client's own request, and whom the member tells.
type watch struct {
	listener *listener
	member   *member
	cancel   context.CancelFunc
	began    time.Time
	acked    chan protocol.Interest // gets what the member acknowledged, once
	done     chan struct{}          // closed when the member tells no more

	acknowledged protocol.Interest // what the member has acknowledged, in our terms; of the listener's goroutine
}

// watch begins to watch resources and tasks, by our ids, of a member.
func (l *listener) watch(ctx context.Context, m *member, uris, tasks []string) *watch {
	ctx, cancel := context.WithCancel(ctx)
	w := &watch{listener: l, member: m, cancel: cancel, began: time.Now(), acked: make(chan protocol.Interest, 1), done: make(chan struct{})}
	wanted := protocol.Interest{URIs: uris}
	for _, id := range tasks {
		wanted.Tasks = append(wanted.Tasks, id[len(m.Name()+taskMark):])
	}
	// Ends when the member ends the subscription, or with cancel, as a Peer promises.
	if !l.aggregate.busy.Start(func() {
		defer l.Rouse()
		defer close(w.done)
		defer cancel()
		w.run(ctx, wanted)
	}) {
		cancel()
		close(w.done)
	}
	return w
}

func (w *watch) run(ctx context.Context, wanted protocol.Interest) {
	text, err := json.Marshal(wanted)
	if err != nil {
		return // strings always encode
	}
	req, err := w.listener.request.Edit().Set("notifications", text).Message()
	if err == nil {
		var resp *dragoman.Message
		if resp, err = w.member.Requests().Call(ctx, req, w); err == nil && resp != nil && resp.IsError() {
			err = resp.RPCError()
		}
	}
	if ctx.Err() == nil {
		w.listener.aggregate.log.Debug("a server tells of its resources no more", "server", w.member.Name(), "error", err)
	}
}

// Notify takes what the member tells.
func (w *watch) Notify(_ context.Context, note *dragoman.Message) error {
	switch note.Method() {
	case protocol.NoteAcknowledged:
		select {
		case w.acked <- protocol.InterestOf(note):
		default: // there is but one
		}
		return nil
	case protocol.NoteResourceUpdated, protocol.NoteTasks:
	default:
		return nil // nobody asked for it
	}
	if note.Method() == protocol.NoteTasks {
		var err error
		if note, err = w.member.mark(note); err != nil {
			return err
		}
	}
	w.listener.Put(note)
	return nil
}

// Call refuses a question, which has no place here.
func (w *watch) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	return dragoman.Nobody.Call(ctx, req, from)
}

// over reports whether the member tells no more.
func (w *watch) over() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
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
		case ack := <-w.acked:
			w.accept(ack)
		case <-w.done:
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
			w.cancel()
			continue
		}
		l.watches = append(l.watches, w)
	}
}

// acceptNow takes in what the member has acknowledged by now.
func (w *watch) acceptNow() {
	select {
	case ack := <-w.acked:
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
