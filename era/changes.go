package era

import (
	"context"
	"slices"
	"sync"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/subscription"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// maxListens is how many subscriptions/listen a Changes serves.
const maxListens = 16384

// Changes reports changes of lists and resources to the clients of a server that
// [FromMethods] makes. Set it in its options. The fields are not changed afterwards.
type Changes struct {
	// Tools, Prompts and Resources say of which lists changes are reported.
	Tools, Prompts, Resources bool

	// Subscribable reports whether clients may subscribe to a resource. If nil, they may
	// subscribe to none.
	Subscribable func(uri string) bool

	hub  subscription.Hub
	init sync.Once
	end  sync.Once
	over chan struct{} // closed by Close
}

// Publish notifies the clients that have subscribed to a change. note is
// notifications/tools/list_changed, or another notification that a
// subscriptions/listen can ask for.
func (c *Changes) Publish(note *dragoman.Message) { c.hub.Publish(note) }

// Close ends all subscriptions, after what was published before. Requests are served as
// before.
func (c *Changes) Close() error {
	c.end.Do(func() { close(c.closed()) })
	return nil
}

func (c *Changes) closed() chan struct{} {
	c.init.Do(func() { c.over = make(chan struct{}) })
	return c.over
}

// capabilities returns what server/discover says of changes of a kind of list. c may be nil.
func (c *Changes) capabilities(list string) map[string]bool {
	can := make(map[string]bool)
	if c == nil {
		return can
	}
	if list == "tools" && c.Tools || list == "prompts" && c.Prompts || list == "resources" && c.Resources {
		can["listChanged"] = true
	}
	if list == "resources" && c.Subscribable != nil {
		can["subscribe"] = true
	}
	return can
}

// listen serves subscriptions/listen.
func (c *Changes) listen(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (any, error) {
	l, refused := subscription.NewListen(req, from)
	if refused != nil {
		return nil, refused
	}
	uris := slices.DeleteFunc(l.Wanted.URIs, func(uri string) bool { return c.Subscribable == nil || !c.Subscribable(uri) })
	l.Wanted = l.Wanted.And(&protocol.Interest{Tools: c.Tools, Prompts: c.Prompts, Resources: c.Resources})
	l.Wanted.URIs = uris
	l.Honored = l.Wanted
	if !c.hub.Add(l, maxListens) { // from here on nothing is missed
		return nil, protocol.Overloaded("too many subscriptions are open; end one before you open another")
	}
	defer c.hub.Remove(l)
	l.Acknowledge(ctx)
	for ended := l.Honored.Empty(); !ended; l.Deliver(ctx, nil) {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-c.closed():
			ended = true
		case <-l.Wake():
		}
	}
	return l.Response().Result(), nil
}
