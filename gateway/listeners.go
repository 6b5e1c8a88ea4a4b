package gateway

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// listeners are the clients of one server that are told when a reload changes which
// of its tools are offered, and how. They are those whom the server has promised to
// tell of changed tools: by its capabilities in a session of the legacy era, by its
// acknowledgement of a listen in the modern one. What the server itself tells of
// changes does not come this way.
type listeners struct {
	mu      sync.Mutex
	all     map[*listener]struct{} // guarded by mu
	sweepAt int                    // how many there are when those are forgotten that have gone; guarded by mu
}

// A listener is a session, or a listen. As a peer it is whom the server tells of
// what a listen is about.
type listener struct {
	dragoman.Peer                   // the client
	note          *dragoman.Message // what it is told
	gone          func() bool       // reports whether a session is over; nil of a listen, which is removed

	mu    sync.Mutex
	wants bool // guarded by mu
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
	l.wants = false
}

// tell tells everybody. It does not wait for anybody.
func (s *listeners) tell() {
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.all))
	s.mu.Unlock()
	for _, l := range all {
		l.tell()
	}
}

// tell holds the lock meanwhile: who has been removed is not told, and nobody before
// the acknowledgement.
func (l *listener) tell() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wants {
		_ = l.Peer.Notify(context.Background(), l.note) // who cannot be told has gone
	}
}

// Notify implements dragoman.Peer, for a listen: it passes on what the server tells.
func (l *listener) Notify(ctx context.Context, note *dragoman.Message) error {
	if note.Method() != protocol.NoteAcknowledged {
		return l.Peer.Notify(ctx, note)
	}
	var ack protocol.Interest
	_ = json.Unmarshal(note.Get("notifications"), &ack) // what cannot be read acknowledges nothing
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wants = ack.Tools
	return l.Peer.Notify(ctx, note)
}

// toolsChanged is the note that tools have changed. id is that of the listen for
// which it is; none if it is for a session.
func toolsChanged(id dragoman.ID) (*dragoman.Message, error) {
	note, err := dragoman.NewNotification(protocol.NoteToolsChanged, nil)
	if err != nil || id.IsZero() {
		return note, err
	}
	return note.Edit().SetMeta(protocol.MetaSubscriptionID, []byte(id.String())).Message()
}
