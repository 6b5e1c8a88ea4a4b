package subscription

import (
	"context"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Limits of what one client names. What exceeds them is left out of the acknowledgement of
// its listen.
const (
	// MaxNames is how many resources it may name, and how many tasks.
	MaxNames = 1024

	// maxNameBytes bounds the length of the resources, and of the tasks.
	maxNameBytes = 256 << 10
)

// A Listen is a subscriptions/listen of a client that is answered here. Changes wait in it
// until the goroutine that serves the request delivers them: after the acknowledgement,
// and before the response, after which the client must not be notified of anything.
type Listen struct {
	// Wanted is what the client asks for, within the limits. It is empty if there is no
	// client to notify. It is not changed any more once the Listen is in a Hub.
	Wanted protocol.Interest

	// Honored is what is acknowledged. It belongs to the goroutine that serves the
	// request.
	Honored protocol.Interest

	req   *dragoman.Message
	to    dragoman.Peer // may be nil
	wake  chan struct{} // holds one token when there is something to do
	queue queue
}

// NewListen reads a listen of a client, which is nil if it cannot be notified. The error
// is the answer to one that cannot be read.
func NewListen(req *dragoman.Message, client dragoman.Peer) (*Listen, *dragoman.Error) {
	var params struct {
		Notifications *protocol.Interest `json:"notifications"`
	}
	if err := req.Decode(&params); err != nil || params.Notifications == nil {
		return nil, &dragoman.Error{
			Code:    protocol.CodeInvalidParams,
			Message: `params.notifications must be an object that names the changes to report, such as {"toolsListChanged":true}`,
		}
	}
	l := &Listen{req: req, to: client, wake: make(chan struct{}, 1)}
	if client != nil {
		l.Wanted = *params.Notifications
		l.Wanted.URIs, l.Wanted.Tasks = withinLimits(l.Wanted.URIs), withinLimits(l.Wanted.Tasks)
	}
	return l, nil
}

// withinLimits returns names without those that are too many, too long, empty, or named
// twice.
func withinLimits(names []string) (out []string) {
	seen, size := make(map[string]bool), 0
	for _, name := range names {
		if len(out) < MaxNames && name != "" && !seen[name] && size+len(name) <= maxNameBytes {
			seen[name] = true
			size += len(name)
			out = append(out, name)
		}
	}
	return out
}

// Wants reports whether the client has asked for a change.
func (l *Listen) Wants(note *dragoman.Message) bool { return wants(&l.Wanted, note) }

func wants(i *protocol.Interest, note *dragoman.Message) bool {
	about := note.URI()
	if note.Method() == protocol.NoteTasks {
		about, _ = dragoman.Text(note.Get("taskId"))
	}
	return i.Wants(note.Method(), about)
}

// Offer implements Sink: it adds a change that the client has asked for.
func (l *Listen) Offer(note *dragoman.Message) {
	if l.Wants(note) {
		l.Put(note)
	}
}

// Put adds a change.
func (l *Listen) Put(note *dragoman.Message) {
	l.queue.put(note)
	l.Rouse()
}

// Rouse has the goroutine that serves the request look what there is to do.
func (l *Listen) Rouse() {
	select {
	case l.wake <- struct{}{}:
	default: // awake already
	}
}

// Wake receives when there is something to do.
func (l *Listen) Wake() <-chan struct{} { return l.wake }

// Dropped returns how many changes were lost because too many waited.
func (l *Listen) Dropped() int { return l.queue.dropped() }

// Acknowledge sends what is honored to the client.
func (l *Listen) Acknowledge(ctx context.Context) {
	note, err := dragoman.NewNotification(protocol.NoteAcknowledged, map[string]any{"notifications": l.Honored})
	if err == nil && l.to != nil {
		_ = notify(ctx, l.to, l.req.ID(), note) // a client that cannot be notified has gone, which ends ctx
	}
}

// Deliver notifies the client of the changes that wait. convert returns what the client
// gets in place of a change, or nil; it may be nil itself.
func (l *Listen) Deliver(ctx context.Context, convert func(*dragoman.Message) *dragoman.Message) {
	for _, note := range l.queue.take() {
		if convert != nil {
			note = convert(note)
		}
		if note != nil && l.to != nil {
			_ = notify(ctx, l.to, l.req.ID(), note) // a client that cannot be notified has gone, which ends ctx
		}
	}
}

// Response is the answer to a listen that ends in good order.
func (l *Listen) Response() *dragoman.Message { return protocol.EndOfListen(l.req) }

// notify sends a notification of the listen with an id.
func notify(ctx context.Context, client dragoman.Peer, id dragoman.ID, note *dragoman.Message) error {
	note, err := note.Edit().SetMeta(protocol.MetaSubscriptionID, []byte(id.String())).Message()
	if err != nil {
		return err
	}
	return client.Notify(ctx, note)
}
