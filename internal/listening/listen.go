package listening

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A listen is one subscriptions/listen. It is also whom the server tells.
type listen struct {
	keeper *Keeper
	want   protocol.Interest
	cancel context.CancelFunc
	began  time.Time
	acked  chan protocol.Interest // gets what the server acknowledged, once
	ended  chan struct{}          // closed when the server tells no more

	ack protocol.Interest // of the Keeper's goroutine, once acked
	err error             // why it ended, nil if in good order; set before ended is closed
	no  *dragoman.Error   // the server's refusal; set before ended is closed
}

var _ dragoman.Peer = (*listen)(nil)

// open begins a listen.
func (k *Keeper) open(want protocol.Interest) *listen {
	ctx, cancel := context.WithCancel(k.ctx)
	l := &listen{keeper: k, want: want, cancel: cancel, began: time.Now(), acked: make(chan protocol.Interest, 1), ended: make(chan struct{})}
	// Ends when the server ends the listen, or with cancel; the Keeper waits for it.
	go func() {
		defer close(l.ended)
		defer cancel()
		l.run(ctx)
	}()
	return l
}

func (l *listen) run(ctx context.Context) {
	resp, err := l.keeper.opts.Send(ctx, l.want, l)
	switch {
	case err != nil:
		l.err = err
	case resp == nil:
		l.err = errors.New("no answer to " + protocol.MethodListen)
	case resp.IsError():
		l.no = resp.RPCError()
	}
}

// end ends the listen and waits until nothing more comes.
func (l *listen) end() {
	l.cancel()
	<-l.ended
}

// over reports whether the server tells no more.
func (l *listen) over() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// hopeless reports whether a listen has ended because the server has nothing to
// tell, which is not going to change.
func (l *listen) hopeless() bool {
	switch {
	case l.err != nil:
		return false
	case l.no == nil:
		return l.ack.Empty()
	case l.no.Code == protocol.CodeInvalidParams:
		return len(l.want.URIs) == 0 // else one of them may be the reason
	}
	return l.no.Code == protocol.CodeMethodNotFound
}

// reason says why a listen has ended.
func (l *listen) reason() error {
	switch {
	case l.err != nil:
		return l.err
	case l.no != nil:
		return l.no
	}
	return errors.New("the server has ended the subscription")
}

// hears reports whether changes of a resource are among what the server tells.
func (l *listen) hears(uri string) bool { return slices.Contains(l.ack.URIs, uri) }

// serves reports whether the listen is open for exactly what is wanted.
func (l *listen) serves(want *protocol.Interest) bool {
	rest := func(i *protocol.Interest) [3]bool { return [3]bool{i.Tools, i.Prompts, i.Resources} }
	return !l.over() && rest(&l.want) == rest(want) && slices.Equal(l.want.Tasks, want.Tasks) &&
		len(l.ack.URIs) == len(want.URIs) && !slices.ContainsFunc(want.URIs, func(uri string) bool { return !l.hears(uri) })
}

// Notify takes what the server tells.
func (l *listen) Notify(_ context.Context, note *dragoman.Message) error {
	if note.Method() != protocol.NoteAcknowledged {
		l.keeper.heard(note)
		return nil
	}
	var ack protocol.Interest
	_ = json.Unmarshal(note.Get("notifications"), &ack) // what cannot be read acknowledges nothing
	select {
	case l.acked <- ack:
	default: // there is but one
	}
	return nil
}

// Call refuses a question, which has no place here.
func (l *listen) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	return dragoman.Nobody.Call(ctx, req, from)
}
