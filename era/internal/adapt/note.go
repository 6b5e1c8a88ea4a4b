package adapt

import (
	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Note returns a notification of the server as the client's revision has it, or
// nil if that has no such notification.
func (r Route) Note(note *dragoman.Message) *dragoman.Message {
	if r.Same() {
		return note
	}
	e := note.Edit()
	switch note.Method() {
	case protocol.NoteAcknowledged, protocol.NoteTasks:
		if !r.Client.HasListen() {
			return nil
		}
	case protocol.NoteCancelled:
		// In one era it ends a question of the server, in the other a listen.
		if r.Client.Era() != r.Server.Era() {
			return nil
		}
	case protocol.NoteElicitationComplete:
		if !r.announcesURLs() {
			return nil
		}
	case protocol.NoteTaskStatus:
		if !r.Client.HasCoreTasks() {
			return nil
		}
	case protocol.NoteProgress:
		if !r.Client.HasProgressMessage() {
			e.Drop("message")
		}
	}
	if r.up() {
		e.DropMeta(protocol.MetaSubscriptionID)
	}
	if changed, err := e.Message(); err == nil {
		return changed
	}
	return note // it cannot fail: members are dropped from an object
}

// announcesURLs reports whether the client has ids for visits to a URL, and is
// told when one is over.
func (r Route) announcesURLs() bool {
	return r.Client.HasURLElicitation() && r.Client.ServerMayAsk()
}
