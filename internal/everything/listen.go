package everything

import (
	"context"
	"slices"
	"sync"

	"github.com/dragoman-mcp/dragoman/protocol"
)

// A listen is a subscription of the modern era. What it is to tell waits here
// until its own call tells it, since the caller may be told nothing after that
// call has returned.
type listen struct {
	filter filter
	wake   chan struct{} // holds one token when there is something to do

	mu      sync.Mutex
	waiting []event // guarded by mu
	ended   bool    // guarded by mu
}

// A filter says of which changes a client wants to hear.
type filter struct {
	Tools     bool     `json:"toolsListChanged,omitempty"`
	Prompts   bool     `json:"promptsListChanged,omitempty"`
	Resources bool     `json:"resourcesListChanged,omitempty"`
	Updates   []string `json:"resourceSubscriptions,omitempty"`
}

func (f *filter) empty() bool {
	return !f.Tools && !f.Prompts && !f.Resources && len(f.Updates) == 0
}

func (f *filter) wants(e event) bool {
	switch e.method {
	case protocol.NoteToolsChanged:
		return f.Tools
	case protocol.NotePromptsChanged:
		return f.Prompts
	case protocol.NoteResourcesChanged:
		return f.Resources
	}
	return slices.Contains(f.Updates, e.uri)
}

// subscribe tells the caller of changes until it cancels or the server closes.
func subscribe(ctx context.Context, c *call) (any, error) {
	var params struct {
		Notifications *filter `json:"notifications"`
	}
	if err := c.req.Decode(&params); err != nil || params.Notifications == nil {
		return nil, invalid("params.notifications must be an object that says of which changes to tell, " +
			`such as {"toolsListChanged":true,"resourceSubscriptions":["` + watched + `"]}`)
	}
	l := &listen{filter: *params.Notifications, wake: make(chan struct{}, 1)}
	l.filter.Updates = slices.DeleteFunc(l.filter.Updates, func(uri string) bool { return !c.server.knows(uri) })
	if c.from == nil {
		l.filter = filter{} // nobody would hear it
	}
	// From here on nothing is missed, though the acknowledgement goes first.
	c.server.open(l)
	defer c.server.leave(l)

	tag := object{protocol.MetaSubscriptionID: c.req.ID()}
	c.notify(ctx, protocol.NoteAcknowledged, object{"notifications": l.filter, "_meta": tag})
	for !l.filter.empty() {
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
	if !l.filter.wants(e) {
		return
	}
	l.mu.Lock()
	if !slices.Contains(l.waiting, e) {
		l.waiting = append(l.waiting, e)
	}
	l.mu.Unlock()
	l.rouse()
}

// end makes the subscription end after what waits has been told.
func (l *listen) end() {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.rouse()
}

func (l *listen) rouse() {
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

// open makes a subscription hear of changes. After Close it ends at once.
func (s *Server) open(l *listen) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		l.end()
	}
	s.listens[l] = struct{}{}
}

func (s *Server) leave(l *listen) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listens, l)
}
