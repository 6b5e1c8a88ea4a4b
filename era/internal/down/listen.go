package down

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/pool"
	"github.com/dragoman-mcp/dragoman/internal/util/retry"
	"github.com/dragoman-mcp/dragoman/internal/wire/subscription"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// MaxLosses is how many conversations in a row a subscription may lose before it is
// given up.
const MaxLosses = 5

// Steady is how long a conversation must last for that to start over.
const Steady = time.Minute

// AfterLosses is the wait before another conversation. The first in a row is opened at
// once.
var AfterLosses = retry.Backoff{Min: 100 * time.Millisecond, Max: time.Second}

// A clientListen is one subscriptions/listen of a client. What it is to tell waits here until its own
// request tells it, since the client may be told nothing after that has returned.
type clientListen struct {
	wanted       protocol.Interest
	acknowledged protocol.Interest // what the session it is in has acknowledged
	wake         chan struct{}     // holds one token when something waits
	queue        subscription.Queue
}

// listens are the subscriptions of each owner, whatever session they are in.
type listens struct {
	mu      sync.Mutex
	byOwner map[pool.Key]map[*clientListen]struct{} // guarded by mu
}

func (ls *listens) add(owner pool.Key, l *clientListen) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.byOwner == nil {
		ls.byOwner = make(map[pool.Key]map[*clientListen]struct{})
	}
	if ls.byOwner[owner] == nil {
		ls.byOwner[owner] = make(map[*clientListen]struct{})
	}
	ls.byOwner[owner][l] = struct{}{}
}

func (ls *listens) remove(owner pool.Key, l *clientListen) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	delete(ls.byOwner[owner], l)
	if len(ls.byOwner[owner]) == 0 {
		delete(ls.byOwner, owner)
	}
}

func (ls *listens) of(owner pool.Key) []*clientListen {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return slices.Collect(maps.Keys(ls.byOwner[owner]))
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
	e, ss, err := s.take(ctx, r)
	if err != nil {
		return s.failed(ctx, r, err)
	}
	if err := ss.addListen(ctx, l); err != nil {
		s.pool.Release(e)
		return s.failed(ctx, r, err)
	}
	info := ss.info
	s.acknowledge(ctx, r, l)
	for opened, losses := time.Now(), 0; !l.acknowledged.Empty() && e != nil; {
		ss := e.Item.(*session)
		select {
		case <-l.wake:
			l.deliver(ctx, r, ss)
			continue
		case <-ss.conn.Done():
		case <-ctx.Done():
		case <-s.ctx.Done():
		}
		ss.removeListen(l)
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
		"notifications": l.acknowledged, "_meta": map[string]any{protocol.MetaSubscriptionID: r.ID()},
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
	before := l.acknowledged
	e, ss, err := s.take(ctx, r)
	if err != nil {
		return nil
	}
	if err := ss.addListen(ctx, l); err != nil {
		s.pool.Release(e)
		return nil
	}
	subscribed := l.acknowledged.URIs // dismiss ends all of these
	l.acknowledged = l.acknowledged.And(&before)
	l.acknowledged.URIs = subscribed
	for note := range l.acknowledged.ChangeNotes() {
		l.put(note)
	}
	return e
}

// addListen makes a subscription hear of the session's changes. Many servers tell of
// changes without having declared it, so a list counts if the server has it, and a
// resource if the server takes the subscription.
func (ss *session) addListen(ctx context.Context, l *clientListen) error {
	ss.mu.Lock()
	if len(ss.listens) >= MaxListens {
		ss.mu.Unlock()
		return protocol.Overloaded("too many subscriptions are open; end one before you open another")
	}
	ss.listens[l] = struct{}{} // from here on nothing is missed
	ss.mu.Unlock()
	ss.server.listens.add(ss.owner, l)
	l.acknowledged = protocol.Interest{
		Tools:     l.wanted.Tools && ss.receivesBackground && ss.serves.Tools != nil,
		Prompts:   l.wanted.Prompts && ss.receivesBackground && ss.serves.Prompts != nil,
		Resources: l.wanted.Resources && ss.receivesBackground && ss.serves.Resources != nil,
	}
	if !ss.receivesBackground || ss.serves.Resources == nil || len(l.wanted.URIs) == 0 {
		return nil
	}
	if err := ss.watching.lock(ctx); err != nil {
		ss.unlist(l)
		return err
	}
	var err error
	size := 0
	for _, uri := range l.wanted.URIs {
		if len(l.acknowledged.URIs) == MaxURIs {
			break
		}
		if slices.Contains(l.acknowledged.URIs, uri) || size+len(uri) > maxURIBytes {
			continue
		}
		if ss.watched[uri] == 0 {
			var resp *dragoman.Message
			resp, err = ss.ask(ctx, protocol.MethodSubscribe, map[string]string{"uri": uri})
			if err != nil {
				break
			}
			if resp.IsError() {
				ss.server.log.Debug("the server refuses a subscription", "uri", uri, "error", resp.RPCError())
				continue
			}
		}
		ss.watched[uri]++
		l.acknowledged.URIs = append(l.acknowledged.URIs, uri)
		size += len(uri)
	}
	ss.watching.unlock()
	if err != nil {
		ss.removeListen(l)
	}
	return err
}

// removeListen ends a subscription. The server is told of resources that nobody else
// wants to hear of.
func (ss *session) removeListen(l *clientListen) {
	ss.unlist(l)
	if len(l.acknowledged.URIs) == 0 || ss.Over() || ss.server.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), partTimeout)
	defer cancel()
	if ss.watching.lock(ctx) != nil {
		return
	}
	defer ss.watching.unlock()
	for _, uri := range l.acknowledged.URIs {
		if ss.watched[uri]--; ss.watched[uri] > 0 {
			continue
		}
		delete(ss.watched, uri)
		if _, err := ss.ask(ctx, protocol.MethodUnsubscribe, map[string]string{"uri": uri}); errors.Is(err, dragoman.ErrClosed) {
			return
		}
	}
}

func (ss *session) unlist(l *clientListen) {
	ss.mu.Lock()
	delete(ss.listens, l)
	ss.mu.Unlock()
	ss.server.listens.remove(ss.owner, l)
	if n := l.queue.Dropped(); n > 0 {
		ss.server.log.Warn("a subscription was not told of everything", "dropped", n)
	}
}

// changed notifies the subscriptions that a change is for. Some servers report a changed list
// only in the session in which a call has changed it, and its client knows nothing of sessions:
// a list is reported in all of its owner's. A resource was subscribed to in this one.
func (ss *session) changed(note *dragoman.Message) {
	if note.Method() != protocol.NoteResourceUpdated {
		for _, l := range ss.server.listens.of(ss.owner) {
			l.put(note)
		}
		return
	}
	ss.mu.Lock()
	all := slices.Collect(maps.Keys(ss.listens))
	ss.mu.Unlock()
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
func (l *clientListen) deliver(ctx context.Context, r *request, ss *session) {
	for _, note := range l.queue.Take() {
		if note = ss.route(r.rev).Note(note); note == nil {
			continue
		}
		if tagged, err := note.Edit().SetMeta(protocol.MetaSubscriptionID, json.RawMessage(r.ID().String())).Message(); err == nil {
			_ = r.from.Notify(ctx, tagged) // who cannot be told has gone, which ctx will say
		}
	}
}
