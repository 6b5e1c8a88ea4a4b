package everything

import (
	"context"
	"slices"
	"sync"

	"github.com/dragoman-mcp/dragoman/protocol"
)

// A listen is a subscription of the modern era. Its events wait here
// until its own call sends them, since the caller may be sent nothing after that
// call has returned.
type listen struct {
	wanted protocol.Interest
	wake   chan struct{} // holds one token when there is something to do

	mu      sync.Mutex
	waiting []event // guarded by mu
	ended   bool    // guarded by mu
}

// subscribe notifies the caller of changes until it cancels or the server closes.
func subscribe(ctx context.Context, c *call) (any, error) {
	var params struct {
		Notifications *protocol.Interest `json:"notifications"`
	}
	if err := c.req.Decode(&params); err != nil || params.Notifications == nil {
		return nil, invalid("params.notifications must be an object that names the changes to notify, " +
			`such as {"toolsListChanged":true,"resourceSubscriptions":["` + watched + `"]}`)
	}
	l := &listen{wanted: *params.Notifications, wake: make(chan struct{}, 1)}
	l.wanted.URIs = slices.DeleteFunc(l.wanted.URIs, func(uri string) bool { return !c.server.knows(uri) })
	l.wanted.Tasks = nil // there are none
	if c.from == nil {
		l.wanted = protocol.Interest{} // there is no from to notify
	}
	// From here on nothing is missed, though the acknowledgement goes first.
	c.server.addListen(l)
	defer c.server.removeListen(l)

	tag := object{protocol.MetaSubscriptionID: c.req.ID()}
	c.notify(ctx, protocol.NoteAcknowledged, object{"notifications": l.wanted, "_meta": tag})
	for !l.wanted.Empty() {
		events, ended := l.next()
		for _, e := range events {
			params := object{"_meta": tag}
			if e.uri != "" {
				params["uri"] = e.uri
			}
			c.notify(ctx, e.method, params)
		}
		if ended {
			break
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-l.wake:
		}
	}
	return object{"_meta": tag}, nil
}

// put adds an event, if it is wanted. One that waits already is not added again:
// the client will look at what changed after both.
func (l *listen) put(e event) {
	if !l.wanted.Wants(e.method, e.uri) {
		return
	}
	l.mu.Lock()
	if !slices.Contains(l.waiting, e) {
		l.waiting = append(l.waiting, e)
	}
	l.mu.Unlock()
	l.signal()
}

// end ends the subscription after the events that wait.
func (l *listen) end() {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.signal()
}

func (l *listen) signal() {
	select {
	case l.wake <- struct{}{}:
	default: // awake already
	}
}

// next takes out what waits.
func (l *listen) next() (events []event, ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	events, l.waiting = l.waiting, nil
	return events, l.ended
}

// addListen adds a subscription. After Close it ends at once.
func (s *Server) addListen(l *listen) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		l.end()
	}
	s.listens[l] = struct{}{}
}

func (s *Server) removeListen(l *listen) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listens, l)
}
