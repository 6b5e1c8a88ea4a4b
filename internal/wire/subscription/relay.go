package subscription

import (
	"context"
	"sync"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A Relay is the client of a listen that is passed on to a server. As a Peer it is what
// the server notifies; as a Sink it is notified of other changes of lists, as far as the
// server has acknowledged them.
type Relay struct {
	to    dragoman.Peer
	id    dragoman.ID
	asked protocol.Interest

	mu           sync.Mutex
	acknowledged bool              // guarded by mu
	honored      protocol.Interest // by each acknowledgement so far; guarded by mu
	closed       bool              // the request has its answer; guarded by mu
}

// NewRelay returns the client of a listen. It must be closed before the answer is passed
// on.
func NewRelay(req *dragoman.Message, client dragoman.Peer) *Relay {
	return &Relay{to: client, id: req.ID(), asked: protocol.InterestOf(req)}
}

// Acknowledged reports whether the server has acknowledged the listen.
func (r *Relay) Acknowledged() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.acknowledged
}

// Close has Offer do nothing from then on.
func (r *Relay) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

// Offer implements Sink: it notifies the client.
func (r *Relay) Offer(note *dragoman.Message) {
	r.mu.Lock()
	defer r.mu.Unlock() // also while notifying: nothing comes before the acknowledgement, or after Close
	if !r.closed && wants(&r.honored, note) {
		_ = notify(context.Background(), r.to, r.id, note) // a client that cannot be notified has gone
	}
}

// Call implements dragoman.Peer. A listen takes no requests.
func (r *Relay) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	return r.to.Call(ctx, req, from)
}

// Notify implements dragoman.Peer. An acknowledgement after the first one is that of a
// listen that was sent again: the client may have missed changes, and gets those in its
// place.
func (r *Relay) Notify(ctx context.Context, note *dragoman.Message) error {
	if note.Method() != protocol.NoteAcknowledged {
		return r.to.Notify(ctx, note)
	}
	honored := protocol.InterestOf(note)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.acknowledged {
		r.acknowledged, r.honored = true, honored.And(&r.asked)
		note, err := r.narrowed(note, &honored)
		if err != nil {
			return err
		}
		return r.to.Notify(ctx, note)
	}
	r.honored = r.honored.And(&honored)
	for note := range r.honored.ChangeNotes() {
		if err := notify(ctx, r.to, r.id, note); err != nil {
			return err
		}
	}
	return nil
}

// narrowed returns an acknowledgement without the kinds of changes that the client did not
// ask for. The rest is as the server has written it.
func (r *Relay) narrowed(note *dragoman.Message, honored *protocol.Interest) (*dragoman.Message, error) {
	text, edited := note.Get("notifications"), false
	for _, kind := range []struct {
		name, none     string
		honored, asked bool
	}{
		{"toolsListChanged", "false", honored.Tools, r.asked.Tools},
		{"promptsListChanged", "false", honored.Prompts, r.asked.Prompts},
		{"resourcesListChanged", "false", honored.Resources, r.asked.Resources},
		{"resourceSubscriptions", "[]", len(honored.URIs) > 0, len(r.asked.URIs) > 0},
		{"taskIds", "[]", len(honored.Tasks) > 0, len(r.asked.Tasks) > 0},
	} {
		if kind.honored && !kind.asked {
			text, edited = dragoman.WithMember(text, kind.name, []byte(kind.none)), true
		}
	}
	if !edited {
		return note, nil
	}
	return note.Edit().Set("notifications", text).Message()
}
