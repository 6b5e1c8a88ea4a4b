package down

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/pool"
	"github.com/dragoman-mcp/dragoman/internal/backoff"
	"github.com/dragoman-mcp/dragoman/internal/subscription"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// MaxLosses is how many conversations in a row a subscription may lose before it is
// given up.
const MaxLosses = 5

// Steady is how long a conversation must last for that to start over.
const Steady = time.Minute

// AfterLosses is the wait before another conversation. The first in a row is opened at
// once.
var AfterLosses = backoff.Backoff{Min: 100 * time.Millisecond, Max: time.Second}

// A clientListen is one subscriptions/listen of a client. What it is to tell waits here until its own
// request tells it, since the client may be told nothing after that has returned.
type clientListen struct {
	wanted protocol.Interest
	kept   protocol.Interest // what the session it is in has acknowledged
	wake   chan struct{}     // holds one token when something waits
	queue  subscription.Queue
}

// listen serves a subscription on the goroutine that brought it.
func (s *Server) listen(ctx context.Context, r *request) (*dragoman.Message, error) {
	var params struct {
		Notifications *protocol.Interest `json:"notifications"`
	}
	if !decodes(r.Message, &params) || params.Notifications == nil {
		return r.Fail(invalid("params.notifications must be an object that says of which changes to tell, such as " +
			`{"toolsListChanged":true}`)), nil
	}
	l := &clientListen{wanted: *params.Notifications, wake: make(chan struct{}, 1)}
	if r.from == nil {
		l.wanted = protocol.Interest{} // nobody would hear it
	}
	e, v, err := s.take(ctx, r)
	if err != nil {
		return s.failed(ctx, r, err)
	}
	if err := v.addListen(ctx, l); err != nil {
		s.pool.Release(e)
		return s.failed(ctx, r, err)
	}
	info := v.info
	s.acknowledge(ctx, r, l)
	for opened, losses := time.Now(), 0; !l.kept.Empty() && e != nil; {
		v := e.Item.(*session)
		select {
		case <-l.wake:
			l.deliver(ctx, r, v)
			continue
		case <-v.conn.Done():
		case <-ctx.Done():
		case <-s.ctx.Done():
		}
		v.removeListen(l)
		s.pool.Release(e)
		e = nil
		if time.Since(opened) > Steady {
			losses = 0
		}
		for losses < MaxLosses && e == nil && ctx.Err() == nil && s.ctx.Err() == nil {
			losses++
			e = s.listenAgain(ctx, r, l, losses)
		}
		opened = time.Now()
	}
	if e != nil {
		e.Item.(*session).removeListen(l)
		s.pool.Release(e)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	meta := map[string]any{protocol.MetaSubscriptionID: r.ID()}
	if info != nil {
		meta[protocol.MetaServerInfo] = info
	}
	return r.Reply(map[string]any{"resultType": protocol.ResultComplete, "_meta": meta})
}

// acknowledge tells the client what it will hear of.
func (s *Server) acknowledge(ctx context.Context, r *request, l *clientListen) {
	note, err := dragoman.NewNotification(protocol.NoteAcknowledged, map[string]any{
		"notifications": l.kept, "_meta": map[string]any{protocol.MetaSubscriptionID: r.ID()},
	})
	if err == nil && r.from != nil {
		_ = r.from.Notify(ctx, note) // who cannot be told has gone, which ctx will say
	}
}

// listenAgain moves a subscription whose session is lost to another. What may have
// changed meanwhile is told as changed. It returns nil if that failed.
func (s *Server) listenAgain(ctx context.Context, r *request, l *clientListen, losses int) *pool.Entry {
	select {
	case <-time.After(AfterLosses.Wait(losses - 1)):
	case <-ctx.Done():
		return nil
	case <-s.ctx.Done():
		return nil
	}
	before := l.kept
	e, v, err := s.take(ctx, r)
	if err != nil {
		return nil
	}
	if err := v.addListen(ctx, l); err != nil {
		s.pool.Release(e)
		return nil
	}
	subscribed := l.kept.URIs // dismiss ends all of these
	l.kept = l.kept.And(&before)
	l.kept.URIs = subscribed
	for note := range l.kept.ChangeNotes() {
		l.put(note)
	}
	return e
}

// addListen makes a subscription hear of the session's changes. Many servers tell of
// changes without having declared it, so a list counts if the server has it, and a
// resource if the server takes the subscription.
func (v *session) addListen(ctx context.Context, l *clientListen) error {
	v.mu.Lock()
	if len(v.listens) >= MaxListens {
		v.mu.Unlock()
		return protocol.Overloaded("too many subscriptions are open; end one before you open another")
	}
	v.listens[l] = struct{}{} // from here on nothing is missed
	v.mu.Unlock()
	l.kept = protocol.Interest{
		Tools:     l.wanted.Tools && v.receivesBackground && v.serves.Tools != nil,
		Prompts:   l.wanted.Prompts && v.receivesBackground && v.serves.Prompts != nil,
		Resources: l.wanted.Resources && v.receivesBackground && v.serves.Resources != nil,
	}
	if !v.receivesBackground || v.serves.Resources == nil || len(l.wanted.URIs) == 0 {
		return nil
	}
	if err := v.watching.lock(ctx); err != nil {
		v.unlist(l)
		return err
	}
	var err error
	for _, uri := range l.wanted.URIs {
		if len(l.kept.URIs) == MaxURIs {
			break
		}
		if slices.Contains(l.kept.URIs, uri) {
			continue
		}
		if v.watched[uri] == 0 {
			var resp *dragoman.Message
			resp, err = v.ask(ctx, protocol.MethodSubscribe, map[string]string{"uri": uri})
			if err != nil {
				break
			}
			if resp.IsError() {
				v.server.log.Debug("the server refuses a subscription", "uri", uri, "error", resp.RPCError())
				continue
			}
		}
		v.watched[uri]++
		l.kept.URIs = append(l.kept.URIs, uri)
	}
	v.watching.unlock()
	if err != nil {
		v.removeListen(l)
	}
	return err
}

// removeListen ends a subscription. The server is told of resources that nobody else
// wants to hear of.
func (v *session) removeListen(l *clientListen) {
	v.unlist(l)
	if len(l.kept.URIs) == 0 || v.Over() || v.server.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), partTimeout)
	defer cancel()
	if v.watching.lock(ctx) != nil {
		return
	}
	defer v.watching.unlock()
	for _, uri := range l.kept.URIs {
		if v.watched[uri]--; v.watched[uri] > 0 {
			continue
		}
		delete(v.watched, uri)
		if _, err := v.ask(ctx, protocol.MethodUnsubscribe, map[string]string{"uri": uri}); errors.Is(err, dragoman.ErrClosed) {
			return
		}
	}
}

func (v *session) unlist(l *clientListen) {
	v.mu.Lock()
	delete(v.listens, l)
	v.mu.Unlock()
	if n := l.queue.Dropped(); n > 0 {
		v.server.log.Warn("a subscription was not told of everything", "dropped", n)
	}
}

// changed tells all subscriptions of a change.
func (v *session) changed(note *dragoman.Message) {
	v.mu.Lock()
	all := make([]*clientListen, 0, len(v.listens))
	for l := range v.listens {
		all = append(all, l)
	}
	v.mu.Unlock()
	for _, l := range all {
		l.put(note)
	}
}

// put adds a change.
func (l *clientListen) put(note *dragoman.Message) {
	if !l.wanted.Wants(note.Method(), note.URI()) {
		return
	}
	l.queue.Put(note)
	select {
	case l.wake <- struct{}{}:
	default: // awake already
	}
}

// deliver tells the client what waits.
func (l *clientListen) deliver(ctx context.Context, r *request, v *session) {
	for _, note := range l.queue.Take() {
		if note = v.route(r.rev).Note(note); note == nil {
			continue
		}
		if tagged, err := note.Edit().SetMeta(protocol.MetaSubscriptionID, json.RawMessage(r.ID().String())).Message(); err == nil {
			_ = r.from.Notify(ctx, tagged) // who cannot be told has gone, which ctx will say
		}
	}
}
