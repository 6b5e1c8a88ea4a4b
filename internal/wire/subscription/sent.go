package subscription

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A Sent is one subscriptions/listen that is sent to a server. It takes the notifications
// of the server.
type Sent struct {
	Acked  chan protocol.Interest // gets what the server acknowledged, once
	Ended  chan struct{}          // closed when it has ended
	Opened time.Time

	ctx    context.Context
	cancel context.CancelFunc
	notify func(note *dragoman.Message)

	err     error           // why it ended, nil if the server ended it; set before Ended is closed
	refusal *dragoman.Error // by the server; set before Ended is closed
}

var _ dragoman.Peer = (*Sent)(nil)

// NewSent returns a listen that notify is called with the changes of. It ends with ctx.
func NewSent(ctx context.Context, notify func(note *dragoman.Message)) *Sent {
	l := &Sent{Acked: make(chan protocol.Interest, 1), Ended: make(chan struct{}), Opened: time.Now(), notify: notify}
	l.ctx, l.cancel = context.WithCancel(ctx)
	return l
}

// Run sends the listen by a function that returns its answer. It returns when the listen
// has ended.
func (l *Sent) Run(send func(ctx context.Context, from dragoman.Peer) (*dragoman.Message, error)) {
	defer close(l.Ended)
	defer l.cancel()
	resp, err := send(l.ctx, l)
	switch {
	case err != nil:
		l.err = err
	case resp == nil:
		l.err = errors.New("no answer to " + protocol.MethodListen)
	case resp.IsError():
		l.refusal = resp.RPCError()
	}
}

// Cancel ends the listen, without waiting for that.
func (l *Sent) Cancel() { l.cancel() }

// HasEnded reports whether the listen has ended.
func (l *Sent) HasEnded() bool {
	select {
	case <-l.Ended:
		return true
	default:
		return false
	}
}

// Err returns why the listen has ended.
func (l *Sent) Err() error {
	switch {
	case l.err != nil:
		return l.err
	case l.refusal != nil:
		return l.refusal
	}
	return errors.New("the server has ended the subscription")
}

// Notify implements dragoman.Peer.
func (l *Sent) Notify(_ context.Context, note *dragoman.Message) error {
	if note.Method() != protocol.NoteAcknowledged {
		l.notify(note)
		return nil
	}
	select {
	case l.Acked <- protocol.InterestOf(note):
	default: // there is but one
	}
	return nil
}

// Call implements dragoman.Peer. A listen takes no requests.
func (l *Sent) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	return dragoman.NoPeer.Call(ctx, req, from)
}

// A sent is a listen of a Subscription.
type sent struct {
	*Sent
	want protocol.Interest
	ack  protocol.Interest // of the Subscription's goroutine, once acknowledged
}

// open begins a listen.
func (s *Subscription) open(want protocol.Interest) *sent {
	l := &sent{Sent: NewSent(s.ctx, s.received), want: want}
	// Ends when the server ends the listen, or with Cancel; the Subscription waits for it.
	go l.Run(func(ctx context.Context, from dragoman.Peer) (*dragoman.Message, error) {
		return s.opts.Send(ctx, want, from)
	})
	return l
}

// end ends the listen and waits until nothing more comes.
func (l *sent) end() {
	l.cancel()
	<-l.Ended
}

// permanent reports whether a listen has ended for a reason that will not change.
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

// covers reports whether the server has acknowledged a resource.
func (l *sent) covers(uri string) bool { return slices.Contains(l.ack.URIs, uri) }

// serves reports whether the listen is open for exactly this interest.
func (l *sent) serves(want *protocol.Interest) bool {
	rest := func(i *protocol.Interest) [3]bool { return [3]bool{i.Tools, i.Prompts, i.Resources} }
	return !l.HasEnded() && rest(&l.want) == rest(want) && slices.Equal(l.want.Tasks, want.Tasks) &&
		len(l.ack.URIs) == len(want.URIs) && !slices.ContainsFunc(want.URIs, func(uri string) bool { return !l.covers(uri) })
}
