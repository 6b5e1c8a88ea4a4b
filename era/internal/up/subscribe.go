package up

import (
	"context"
	"fmt"
	"slices"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A wish is a resource whose changes a client wants to hear of.
type wish struct {
	uri  string
	done chan error // gets nil when it is granted; has room for it
}

// subscribe serves resources/subscribe: it is answered when the server has
// acknowledged it.
func (v *session) subscribe(ctx context.Context, h *hello, req *dragoman.Message) (*dragoman.Message, error) {
	uri := req.URI()
	if uri == "" {
		return invalid(req, "params.uri must be a string that is not empty"), nil
	}
	w := v.watching(h)
	if w == nil {
		return nil, dragoman.ErrClosed
	}
	wish := &wish{uri, make(chan error, 1)}
	if err := w.add(wish); err != nil {
		return req.Fail(err), nil
	}
	var err error
	select {
	case err = <-wish.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-w.over:
		err = dragoman.ErrClosed
	}
	if err != nil {
		return protocol.Failure(req, err), nil
	}
	return req.Reply(nil)
}

// unsubscribe serves resources/unsubscribe. From then on the client hears
// nothing of that resource; the server gets to know in a while.
func (v *session) unsubscribe(req *dragoman.Message) (*dragoman.Message, error) {
	uri := req.URI()
	if uri == "" {
		return invalid(req, "params.uri must be a string that is not empty"), nil
	}
	v.mu.Lock()
	w := v.watch
	v.mu.Unlock()
	if w != nil {
		w.remove(uri)
	}
	return req.Reply(nil)
}

// add notes a wish. The error says that there are too many.
func (w *watch) add(new *wish) *dragoman.Error {
	w.mu.Lock()
	defer w.mu.Unlock()
	limit := w.session.server.opts.MaxSubscriptions
	if !w.uris[new.uri] && len(w.uris)+w.asking >= limit {
		return protocol.Overloaded(fmt.Sprintf("a session may subscribe to %d resources; unsubscribe from some first", limit))
	}
	delete(w.dropped, new.uri)
	w.wishes = append(w.wishes, new)
	w.asking++
	w.rouse()
	return nil
}

// remove makes the client hear no more of a resource.
func (w *watch) remove(uri string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.uris[uri] {
		return
	}
	delete(w.uris, uri)
	w.dropped[uri] = true
	w.rouse()
}

// take takes out the wishes and returns what to listen for, with them and
// without what was dropped.
func (w *watch) take() (wishes []*wish, want protocol.Interest) {
	want = w.hello.facts.lists
	w.mu.Lock()
	defer w.mu.Unlock()
	wishes, w.wishes = w.wishes, nil
	for uri := range w.uris {
		want.URIs = append(want.URIs, uri)
	}
	for _, wish := range wishes {
		if !w.uris[wish.uri] {
			want.URIs = append(want.URIs, wish.uri)
		}
	}
	slices.Sort(want.URIs) // the same set is the same request
	want.URIs = slices.Compact(want.URIs)
	return wishes, want
}

// grant answers wishes by what a listen hears. It returns how many it hears.
func (w *watch) grant(wishes []*wish, l *listen) (granted int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asking -= len(wishes)
	for _, wish := range wishes {
		if l.hears(wish.uri) {
			w.uris[wish.uri] = true
			granted++
			wish.done <- nil
			continue
		}
		wish.done <- fault(protocol.CodeInvalidParams,
			"the server does not tell of changes of "+wish.uri+"; resources/list names those there are")
	}
	return granted
}

// refuse answers wishes that could not be sent to the server.
func (w *watch) refuse(wishes []*wish, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asking -= len(wishes)
	for _, wish := range wishes {
		wish.done <- err
	}
}
