package era

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	// maxLosses is how many conversations in a row a subscription may lose before
	// it is given up, and steady is how long one must last for that to start over.
	maxLosses = 5
	steady    = time.Minute

	// lossPause is the wait before the second attempt in a row to open another;
	// it doubles.
	lossPause = 100 * time.Millisecond
)

// pause waits before an attempt, after so many losses in a row. It tells whether
// to go on: not if whoever wants it has gone.
func (s *Server) pause(gone <-chan struct{}, losses int) bool {
	var wait time.Duration
	if losses > 1 {
		wait = lossPause << (losses - 2)
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-gone:
	case <-s.ctx.Done():
	}
	return false
}

// listen passes a subscription on. When its conversation is lost, it goes on on
// another, and what may have changed meanwhile is told as changed. If there is no
// other, it ends in good order.
func (l *link) listen(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if from == nil {
		return l.Call(ctx, req, nil)
	}
	h := &listener{Peer: from, id: req.ID()}
	resp, err := l.Call(ctx, req, h)
	for losses, began := 0, time.Now(); h.lost(resp, err); {
		if time.Since(began) > steady {
			losses = 0
		}
		if losses++; losses > maxLosses || !l.server.pause(ctx.Done(), losses) {
			break
		}
		began = time.Now()
		h.again()
		resp, err = l.Call(ctx, req, h)
	}
	switch {
	case ctx.Err() != nil && errors.Is(err, dragoman.ErrClosed):
		return nil, err // who leaves may have missed something before
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case h.lost(resp, err):
		return req.Reply(map[string]any{
			"resultType": protocol.ResultComplete, "_meta": map[string]any{protocol.MetaSubscriptionID: req.ID()},
		})
	}
	return resp, err
}

// A listener is a client with a subscription, as the server sees it.
type listener struct {
	dragoman.Peer
	id dragoman.ID

	mu      sync.Mutex
	heard   bool              // the server has acknowledged the subscription, on whatever conversation; guarded by mu
	kept    protocol.Interest // what it has acknowledged all along; guarded by mu
	renewed bool              // the next acknowledgement is not the first; guarded by mu
}

// lost tells whether a subscription that had begun was lost on the way. An answer
// of the server is an end, whatever it says.
func (h *listener) lost(resp *dragoman.Message, err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.heard || errors.Is(err, dragoman.ErrOverloaded) {
		return false
	}
	return err != nil || resp != nil && resp.IsError() && resp.RPCError().Code == protocol.CodeUnavailable
}

// again notes that the subscription is sent once more.
func (h *listener) again() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.renewed = true
}

// Notify tells the client. It is told of the first acknowledgement alone; the
// others mean that it may have missed something.
func (h *listener) Notify(ctx context.Context, note *dragoman.Message) error {
	if note.Method() != protocol.NoteAcknowledged {
		return h.Peer.Notify(ctx, note)
	}
	var ack protocol.Interest
	_ = json.Unmarshal(note.Get("notifications"), &ack) // what cannot be read acknowledges nothing
	h.mu.Lock()
	if !h.renewed {
		h.heard, h.kept = true, ack
		h.mu.Unlock()
		return h.Peer.Notify(ctx, note)
	}
	h.kept = h.kept.And(&ack)
	kept := h.kept
	h.mu.Unlock()
	return h.remind(ctx, kept)
}

// remind tells the client what may have changed while nobody listened.
func (h *listener) remind(ctx context.Context, kept protocol.Interest) error {
	for note := range kept.Reminders() {
		own, err := note.Edit().SetMeta(protocol.MetaSubscriptionID, []byte(h.id.String())).Message()
		if err == nil {
			err = h.Peer.Notify(ctx, own)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
