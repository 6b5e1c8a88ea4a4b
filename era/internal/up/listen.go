package up

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A listen is one subscriptions/listen of a session. It is also whom the server
// tells.
type listen struct {
	watch  *watch
	want   protocol.Interest
	cancel context.CancelFunc
	began  time.Time
	acked  chan protocol.Interest // gets what the server acknowledged, once
	ended  chan struct{}          // closed when the server tells no more

	ack protocol.Interest // of the owner of the watch, once acked
	err error             // why it ended, nil if in good order; set before ended is closed
	no  *dragoman.Error   // the server's refusal; set before ended is closed
}

// open begins a listen.
func (w *watch) open(want protocol.Interest) *listen {
	ctx, cancel := context.WithCancel(w.ctx)
	l := &listen{watch: w, want: want, cancel: cancel, began: time.Now(), acked: make(chan protocol.Interest, 1), ended: make(chan struct{})}
	// Ends when the server ends the listen, or with cancel; the watch waits for it.
	go func() {
		defer close(l.ended)
		defer cancel()
		l.run(ctx)
	}()
	return l
}

func (l *listen) run(ctx context.Context) {
	v := l.watch.session
	env := *v.envelope(l.watch.hello)
	env.LogLevel = nil // there are no log messages on a listen
	req, err := v.server.request(protocol.MethodListen, struct {
		Notifications protocol.Interest `json:"notifications"`
	}{l.want}, env)
	if err != nil {
		l.err = err
		return
	}
	resp, err := v.server.link.Call(ctx, req, l)
	switch {
	case err != nil:
		l.err = err
	case resp == nil:
		l.err = errors.New("up: the server gave no answer to " + protocol.MethodListen)
	case resp.IsError():
		l.no = resp.RPCError()
	}
}

// end ends the listen and waits until nothing more comes.
func (l *listen) end() {
	l.cancel()
	<-l.ended
}

// hears tells whether changes of a resource are among what the server tells.
func (l *listen) hears(uri string) bool { return slices.Contains(l.ack.URIs, uri) }

// Notify takes what the server tells.
func (l *listen) Notify(_ context.Context, note *dragoman.Message) error {
	if note.Method() != protocol.NoteAcknowledged {
		l.watch.heard(note)
		return nil
	}
	var ack protocol.Interest
	// What cannot be read acknowledges nothing.
	_ = json.Unmarshal(note.Get("notifications"), &ack)
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
