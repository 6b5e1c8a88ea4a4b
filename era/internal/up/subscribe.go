package up

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/subscription"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// firstHold is how long a list waits for the first listen.
const firstHold = 500 * time.Millisecond

// subscription returns the session's subscription to changes, and opens it if there is none.
func (ss *session) subscription(h *handshake) *subscription.Subscription {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.changes != nil {
		return ss.changes
	}
	// Ends with the client's conversation, or with Close, which waits for it.
	ss.changes = subscription.New(ss.ctx, &subscription.Options{
		Send: func(ctx context.Context, want protocol.Interest, from dragoman.Peer) (*dragoman.Message, error) {
			return ss.listen(ctx, h, want, from)
		},
		Notify: func(note *dragoman.Message) {
			if out := h.route.Note(note); out != nil {
				_ = ss.client.Notify(ss.ctx, out) // one who cannot be told has gone
			}
		},
		Busy: &ss.server.busy, Done: ss.client.Done(),
		Max: ss.server.opts.MaxSubscriptions, Logger: ss.server.opts.Logger,
	})
	ss.changes.Want(h.facts.lists)
	return ss.changes
}

// listen sends a listen of the session.
func (ss *session) listen(ctx context.Context, h *handshake, want protocol.Interest, from dragoman.Peer) (*dragoman.Message, error) {
	env := *ss.envelope(h)
	env.LogLevel = nil // there are no log messages on a listen
	req, err := ss.server.request(protocol.MethodListen, map[string]any{"notifications": want}, env)
	if err != nil {
		return nil, err
	}
	return ss.server.link.Call(ctx, req, from)
}

// openListen waits until changes are heard of, if that is on its way: whoever has a
// list is told when it changes, from then on.
func (ss *session) openListen(ctx context.Context) {
	ss.mu.Lock()
	k := ss.changes
	ss.mu.Unlock()
	if k != nil {
		k.Await(ctx, firstHold)
	}
}

// subscribe serves resources/subscribe: it is answered when the server has
// acknowledged it.
func (ss *session) subscribe(ctx context.Context, h *handshake, req *dragoman.Message) (*dragoman.Message, error) {
	uri := req.URI()
	if uri == "" {
		return invalid(req, "params.uri must be a string that is not empty"), nil
	}
	err := ss.subscription(h).Add(ctx, uri)
	switch e, refused := errors.AsType[*dragoman.Error](err); {
	case err == nil:
		return req.Reply(nil)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case refused && !protocol.IsGatewayError(e) && e.Code != protocol.CodeInvalidParams: // then the client's own params are not the reason
		err = fmt.Errorf("the server refused to tell of changes, with error %d: %s", e.Code, e.Message)
	}
	return protocol.Failure(req, err), nil
}

// unsubscribe serves resources/unsubscribe. From then on the client hears
// nothing of that resource; the server is told later.
func (ss *session) unsubscribe(req *dragoman.Message) (*dragoman.Message, error) {
	uri := req.URI()
	if uri == "" {
		return invalid(req, "params.uri must be a string that is not empty"), nil
	}
	ss.mu.Lock()
	k := ss.changes
	ss.mu.Unlock()
	if k != nil {
		k.Remove(uri)
	}
	return req.Reply(nil)
}
