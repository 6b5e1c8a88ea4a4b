package subscription

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A sent is one subscriptions/listen that was sent to a server. It takes the notifications
// of the server.
type sent struct {
	owner  *Subscription
	want   protocol.Interest
	cancel context.CancelFunc
	opened time.Time
	acked  chan protocol.Interest // gets what the server acknowledged, once
	ended  chan struct{}          // closed when it has ended

	ack     protocol.Interest // of the Subscription's goroutine, once acked
	err     error             // why it ended, nil if in good order; set before ended is closed
	refusal *dragoman.Error   // the server's refusal; set before ended is closed
}

var _ dragoman.Peer = (*sent)(nil)

// open begins a listen.
func (s *Subscription) open(want protocol.Interest) *sent {
	ctx, cancel := context.WithCancel(s.ctx)
	l := &sent{owner: s, want: want, cancel: cancel, opened: time.Now(), acked: make(chan protocol.Interest, 1), ended: make(chan struct{})}
	// Ends when the server ends the listen, or with cancel; the Subscription waits for it.
	go func() {
		defer close(l.ended)
		defer cancel()
		l.run(ctx)
	}()
	return l
}

func (l *sent) run(ctx context.Context) {
	resp, err := l.owner.opts.Send(ctx, l.want, l)
	switch {
	case err != nil:
		l.err = err
	case resp == nil:
		l.err = errors.New("no answer to " + protocol.MethodListen)
	case resp.IsError():
		l.refusal = resp.RPCError()
	}
}

// end ends the listen and waits until nothing more comes.
func (l *sent) end() {
	l.cancel()
	<-l.ended
}

// hasEnded reports whether the listen has ended.
func (l *sent) hasEnded() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// permanent reports whether a listen has ended for a reason that will not
// change.
func (l *sent) permanent() bool {
	switch {
	case l.err != nil:
		return false
	case l.refusal == nil:
		return l.ack.Empty()
	case l.refusal.Code == protocol.CodeInvalidParams:
		return len(l.want.URIs) == 0 // else one of them may be the reason
	}
	return l.refusal.Code == protocol.CodeMethodNotFound
}

// reason returns why a listen has ended.
func (l *sent) reason() error {
	switch {
	case l.err != nil:
		return l.err
	case l.refusal != nil:
		return l.refusal
	}
	return errors.New("the server has ended the subscription")
}

// covers reports whether the server has acknowledged a resource.
func (l *sent) covers(uri string) bool { return slices.Contains(l.ack.URIs, uri) }

// serves reports whether the listen is open for exactly this interest.
func (l *sent) serves(want *protocol.Interest) bool {
	rest := func(i *protocol.Interest) [3]bool { return [3]bool{i.Tools, i.Prompts, i.Resources} }
	return !l.hasEnded() && rest(&l.want) == rest(want) && slices.Equal(l.want.Tasks, want.Tasks) &&
		len(l.ack.URIs) == len(want.URIs) && !slices.ContainsFunc(want.URIs, func(uri string) bool { return !l.covers(uri) })
}

// Notify implements dragoman.Peer.
func (l *sent) Notify(_ context.Context, note *dragoman.Message) error {
	if note.Method() != protocol.NoteAcknowledged {
		l.owner.received(note)
		return nil
	}
	select {
	case l.acked <- protocol.InterestOf(note):
	default: // there is but one
	}
	return nil
}

// Call implements dragoman.Peer. A listen takes no requests.
func (l *sent) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	return dragoman.Nobody.Call(ctx, req, from)
}
