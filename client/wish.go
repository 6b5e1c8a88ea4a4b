package client

import (
	"context"
	"slices"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A wish is a change of what is listened to.
type wish struct {
	uri  string
	done chan error // gets the outcome, and has room for it
}

// add listens to the changes of a resource.
func (w *watch) add(ctx context.Context, uri string) error { return w.change(ctx, uri, true) }

// remove stops to.
func (w *watch) remove(ctx context.Context, uri string) error { return w.change(ctx, uri, false) }

func (w *watch) change(ctx context.Context, uri string, wanted bool) error {
	c := w.side.client
	order := &wish{uri: uri, done: make(chan error, 1)}
	w.mu.Lock()
	if w.uris[uri] == wanted {
		w.mu.Unlock()
		return nil
	}
	if wanted {
		w.uris[uri] = true
	} else {
		delete(w.uris, uri)
	}
	w.wishes = append(w.wishes, order)
	w.mu.Unlock()
	inner, k := c.newCall(ctx, c.opts.Timeout, nil)
	defer k.end()
	w.rouse()
	var err error
	select {
	case err = <-order.done:
	case <-inner.Done():
		err = context.Cause(inner)
		w.withdraw(order)
	case <-c.ctx.Done():
		err = dragoman.ErrClosed
	}
	if err == nil {
		return nil
	}
	return c.fault(ctx, inner, k, protocol.MethodListen, nil, err)
}

// withdraw takes back a wish that nobody waits for any more, unless it has been
// granted.
func (w *watch) withdraw(order *wish) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-order.done:
	default:
		delete(w.uris, order.uri)
	}
	select {
	case w.wake <- struct{}{}:
	default: // awake already
	}
}

// settle tells those who wait what has become of their wishes.
func (w *watch) settle(wishes []*wish, ack protocol.Interest, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, order := range wishes {
		switch {
		case !w.uris[order.uri]:
			order.done <- nil // what is not wanted any more need not be heard
			continue
		case err != nil:
			order.done <- err
		case slices.Contains(ack.URIs, order.uri):
			order.done <- nil
			continue
		default:
			order.done <- &dragoman.Error{Code: protocol.CodeInvalidParams, Message: "the server does not tell of changes of this resource"}
		}
		delete(w.uris, order.uri)
	}
}
