package manager

import (
	"context"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// overhearing is a peer of a conversation. What it is told of changed lists, the
// keeper hears too.
type overhearing struct {
	dragoman.Peer
	conn *kept
}

// Notify implements dragoman.Peer.
func (o overhearing) Notify(ctx context.Context, note *dragoman.Message) error {
	switch method := note.Method(); method {
	case protocol.NoteToolsChanged, protocol.NotePromptsChanged, protocol.NoteResourcesChanged:
		o.conn.keeper.hear(o.conn, method)
	}
	return o.Peer.Notify(ctx, note)
}

// overhear takes what a conversation of whomever tells of changed lists.
func (u *Upstream) overhear(c *kept, note string) {
	u.lists.mu.Lock()
	modern := u.lists.modern
	u.lists.mu.Unlock()
	if modern {
		return // it tells our subscription too
	}
	if !c.mine.Load() && !u.set.sessionsShare {
		u.lists.differs(note)
	}
	u.lists.want(note, true)
}

// OnChange has f called when lists of the server may have changed, with the method
// of the notification that says so. f must not block.
func (u *Upstream) OnChange(f func(note string)) (stop func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	key := new(int)
	u.ears[key] = f
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.ears, key)
	}
}

// announce tells who wants to know that lists may have changed.
func (u *Upstream) announce(note string) {
	u.mu.Lock()
	ears := make([]func(string), 0, len(u.ears))
	for _, f := range u.ears {
		ears = append(ears, f)
	}
	u.mu.Unlock()
	for _, f := range ears {
		f(note)
	}
}
