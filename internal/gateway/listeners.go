package gateway

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// listeners are those who are told when a reload changes what of a server is offered,
// and how. They are the clients whom the server has promised to tell of changed lists, by
// its capabilities in a session of the legacy era, by its acknowledgement of a listen in
// the modern one; and the unions that the server is in. What the server itself tells of
// changes does not come this way.
type listeners struct {
	mu      sync.Mutex
	all     map[*listener]struct{} // guarded by mu
	sweepAt int                    // how many there are when those are forgotten that have gone; guarded by mu
}

// A listener is a session, a listen, or a union. As a peer it is whom the server tells
// of what a listen is about.
type listener struct {
	dragoman.Peer                                   // the client
	id            dragoman.ID                       // of a listen
	asked         protocol.Interest                 // by a listen
	hides         func(note *dragoman.Message) bool // of a listen: what it is not told
	gone          func() bool                       // reports whether a session is over; nil of others, which are removed

	mu    sync.Mutex
	wants protocol.Interest // in lists; guarded by mu
}

// add has somebody told from now on.
func (s *listeners) add(l *listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = make(map[*listener]struct{})
	}
	// Sessions that are over are forgotten when the number has doubled, so that none
	// needs a goroutine that waits for its end.
	if len(s.all) >= s.sweepAt {
		maps.DeleteFunc(s.all, func(l *listener, _ struct{}) bool { return l.gone != nil && l.gone() })
		s.sweepAt = 2*len(s.all) + 16
	}
	s.all[l] = struct{}{}
}

// remove has nobody told after it has returned.
func (s *listeners) remove(l *listener) {
	s.mu.Lock()
	delete(s.all, l)
	s.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wants = protocol.Interest{}
}

// tell tells everybody of lists that have changed. It does not wait for anybody.
func (s *listeners) tell(changed *protocol.Interest) {
	if changed.Empty() {
		return
	}
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.all))
	s.mu.Unlock()
	for _, l := range all {
		l.tell(changed)
	}
}

// tell holds the lock meanwhile: who has been removed is not told, and nobody before
// the acknowledgement.
func (l *listener) tell(changed *protocol.Interest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	wanted := l.wants.And(changed)
	for note := range wanted.ChangeNotes() {
		if !l.id.IsZero() {
			note, _ = note.Edit().SetMeta(protocol.MetaSubscriptionID, []byte(l.id.String())).Message() // an id is JSON
		}
		_ = l.Peer.Notify(context.Background(), note) // who cannot be told has gone
	}
}

// Notify implements dragoman.Peer, for a listen: it passes on what the server tells.
func (l *listener) Notify(ctx context.Context, note *dragoman.Message) error {
	switch {
	case l.hides(note):
		return nil
	case note.Method() != protocol.NoteAcknowledged:
		return l.Peer.Notify(ctx, note)
	}
	note, wants, err := l.acknowledged(note)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wants = wants
	return l.Peer.Notify(ctx, note)
}

// acknowledged returns the server's acknowledgement, and the lists that it promises to tell
// of. We tell of these alone, too: who promised more would promise the server's own changes.
// A kind that was not asked for is not promised, whatever the server says; what cannot be
// read promises nothing.
func (l *listener) acknowledged(note *dragoman.Message) (*dragoman.Message, protocol.Interest, error) {
	said, text := protocol.InterestOf(note), note.Get("notifications")
	edited := false
	for _, kind := range []struct {
		name, none  string
		said, asked bool
	}{
		{"toolsListChanged", "false", said.Tools, l.asked.Tools},
		{"promptsListChanged", "false", said.Prompts, l.asked.Prompts},
		{"resourcesListChanged", "false", said.Resources, l.asked.Resources},
		{"resourceSubscriptions", "[]", len(said.URIs) > 0, len(l.asked.URIs) > 0},
		{"taskIds", "[]", len(said.Tasks) > 0, len(l.asked.Tasks) > 0},
	} {
		if kind.said && !kind.asked {
			text, edited = dragoman.WithMember(text, kind.name, []byte(kind.none)), true
		}
	}
	if edited {
		var err error
		if note, err = note.Edit().Set("notifications", text).Message(); err != nil {
			return nil, protocol.Interest{}, err
		}
	}
	return note, said.And(&l.asked), nil
}
