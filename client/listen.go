package client

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A listen is one subscriptions/listen. It is also whom the server tells.
type listen struct {
	client *Client
	began  time.Time
	cancel context.CancelFunc
	acked  chan protocol.Interest // gets what the server acknowledged, once
	ended  chan struct{}          // closed when the server tells no more

	ack protocol.Interest // of the owner of the watch, once acked
	err error             // why it ended; set before ended is closed
	no  *dragoman.Error   // the server's refusal; set before ended is closed
}

var errEnded = errors.New("the server has ended the subscription")

// open begins a listen.
func (w *watch) open(want protocol.Interest) *listen {
	ctx, cancel := context.WithCancel(w.side.client.ctx)
	l := &listen{client: w.side.client, began: time.Now(), cancel: cancel, acked: make(chan protocol.Interest, 1), ended: make(chan struct{})}
	// Ends when the server ends the listen, or with cancel; end waits for it.
	go func() {
		defer close(l.ended)
		defer cancel()
		l.run(ctx, w.side, want)
	}()
	return l
}

func (l *listen) run(ctx context.Context, m *modern, want protocol.Interest) {
	l.err = errEnded
	req, err := dragoman.NewRequest(l.client.mint(), protocol.MethodListen, map[string]any{"notifications": want})
	if err != nil {
		l.err = err
		return
	}
	k := &call{failures: l.client.dialer.count()}
	resp, err := m.send(context.WithValue(ctx, callKey{}, k), req, l)
	switch {
	case err != nil:
		l.err = err
	case resp == nil || !resp.IsError():
	case k.answered.Load():
		l.no = resp.RPCError()
		l.err = l.no
	default:
		l.err = l.client.unsent(k, protocol.MethodListen, resp.RPCError())
	}
}

// hopeless tells whether a listen has ended because the server has nothing to
// tell, which is not going to change.
func (l *listen) hopeless() bool {
	if l.no == nil {
		return errors.Is(l.err, errEnded) && l.ack.Empty()
	}
	return l.no.Code == protocol.CodeMethodNotFound || l.no.Code == protocol.CodeInvalidParams
}

// acknowledged waits until the server has said of what it will tell.
func (l *listen) acknowledged(ctx context.Context) (protocol.Interest, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, ackTimeout, &late{ackTimeout})
	defer cancel()
	select {
	case ack := <-l.acked:
		return ack, nil
	case <-l.ended:
		select {
		case ack := <-l.acked: // both at once: the server had nothing to tell
			return ack, nil
		default:
		}
		return protocol.Interest{}, l.err
	case <-ctx.Done():
		return protocol.Interest{}, context.Cause(ctx)
	}
}

// end ends the listen and waits until nothing more comes.
func (l *listen) end() {
	l.cancel()
	<-l.ended
}

// Call refuses a question, which has no place here.
func (l *listen) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	return dragoman.Nobody.Call(ctx, req, from)
}

// Notify takes what the server tells.
func (l *listen) Notify(_ context.Context, note *dragoman.Message) error {
	if note.Method() != protocol.NoteAcknowledged {
		l.client.tell(note)
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
