package down

import (
	"context"
	"errors"
	"sync"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/pool"
	"github.com/dragoman-mcp/dragoman/internal/wire/subscription"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// listens are the subscriptions of each owner, whatever session they are in.
type listens struct {
	mu      sync.Mutex
	byOwner map[pool.Key]*subscription.Hub // guarded by mu
}

func (ls *listens) add(owner pool.Key, l *subscription.Listen) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.byOwner == nil {
		ls.byOwner = make(map[pool.Key]*subscription.Hub)
	}
	if ls.byOwner[owner] == nil {
		ls.byOwner[owner] = new(subscription.Hub)
	}
	ls.byOwner[owner].Add(l, 0)
}

func (ls *listens) remove(owner pool.Key, l *subscription.Listen) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if hub := ls.byOwner[owner]; hub != nil {
		if hub.Remove(l); hub.Len() == 0 {
			delete(ls.byOwner, owner)
		}
	}
}

// of returns the subscriptions of an owner, or nil.
func (ls *listens) of(owner pool.Key) *subscription.Hub {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.byOwner[owner]
}

// listen serves a subscription on the goroutine that brought it.
func (s *Server) listen(ctx context.Context, r *request) (*dragoman.Message, error) {
	l, refused := subscription.NewListen(r.Message, r.from)
	if refused != nil {
		return r.Fail(refused), nil
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
	l.Acknowledge(ctx)
	var losses subscription.Losses
	for losses.Opened(); e != nil && !l.Honored.Empty(); losses.Opened() {
		ss := e.Item.(*session)
		ss.report(ctx, r, l)
		ss.removeListen(l)
		s.pool.Release(e)
		losses.Lost()
		for e = nil; e == nil && losses.Retry(ctx.Done(), s.ctx.Done()); {
			e = s.listenAgain(ctx, r, l)
		}
	}
	if e != nil { // nothing is honored
		e.Item.(*session).removeListen(l)
		s.pool.Release(e)
	}
	if n := l.Dropped(); n > 0 {
		s.log.Warn("a subscription was not told of everything", "dropped", n)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	resp := l.Response()
	if info == nil {
		return resp, nil
	}
	return resp.Edit().SetMeta(protocol.MetaServerInfo, info).Message()
}

// report notifies the client of changes until the session, the request or the server ends.
func (ss *session) report(ctx context.Context, r *request, l *subscription.Listen) {
	for {
		select {
		case <-l.Wake():
			l.Deliver(ctx, ss.route(r.rev).Note)
		case <-ss.conn.Done():
			return
		case <-ctx.Done():
			return
		case <-ss.server.ctx.Done():
			return
		}
	}
}

// listenAgain moves a subscription whose session is lost to another. What may have changed
// meanwhile is reported as changed. It returns nil if that failed.
func (s *Server) listenAgain(ctx context.Context, r *request, l *subscription.Listen) *pool.Entry {
	before := l.Honored
	e, ss, err := s.take(ctx, r)
	if err != nil {
		return nil
	}
	if err := ss.addListen(ctx, l); err != nil {
		s.pool.Release(e)
		return nil
	}
	subscribed := l.Honored.URIs // removeListen ends all of these
	l.Honored = l.Honored.And(&before)
	l.Honored.URIs = subscribed
	for note := range l.Honored.ChangeNotes() {
		l.Offer(note)
	}
	return e
}

// addListen has a subscription receive the session's changes. Many servers report changes
// without having declared that, so a list counts if the server has it, and a resource if
// the server accepts the subscription.
func (ss *session) addListen(ctx context.Context, l *subscription.Listen) error {
	if !ss.listens.Add(l, MaxListens) { // from here on nothing is missed
		return protocol.Overloaded("too many subscriptions are open; end one before you open another")
	}
	ss.server.listens.add(ss.owner, l)
	l.Honored = protocol.Interest{
		Tools:     l.Wanted.Tools && ss.receivesBackground && ss.serves.Tools != nil,
		Prompts:   l.Wanted.Prompts && ss.receivesBackground && ss.serves.Prompts != nil,
		Resources: l.Wanted.Resources && ss.receivesBackground && ss.serves.Resources != nil,
	}
	if !ss.receivesBackground || ss.serves.Resources == nil || len(l.Wanted.URIs) == 0 {
		return nil
	}
	if err := ss.watching.lock(ctx); err != nil {
		ss.unlist(l)
		return err
	}
	var err error
	for _, uri := range l.Wanted.URIs {
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
		l.Honored.URIs = append(l.Honored.URIs, uri)
	}
	ss.watching.unlock()
	if err != nil {
		ss.removeListen(l)
	}
	return err
}

// removeListen ends a subscription. Resources that no other subscription names are
// unsubscribed from.
func (ss *session) removeListen(l *subscription.Listen) {
	ss.unlist(l)
	if len(l.Honored.URIs) == 0 || ss.Over() || ss.server.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), partTimeout)
	defer cancel()
	if ss.watching.lock(ctx) != nil {
		return
	}
	defer ss.watching.unlock()
	for _, uri := range l.Honored.URIs {
		if ss.watched[uri]--; ss.watched[uri] > 0 {
			continue
		}
		delete(ss.watched, uri)
		if _, err := ss.ask(ctx, protocol.MethodUnsubscribe, map[string]string{"uri": uri}); errors.Is(err, dragoman.ErrClosed) {
			return
		}
	}
}

func (ss *session) unlist(l *subscription.Listen) {
	ss.listens.Remove(l)
	ss.server.listens.remove(ss.owner, l)
}

// changed offers a change to the subscriptions that it is for. Some servers report a
// changed list only in the session in which a call has changed it, and its client knows
// nothing of sessions: a list is reported in all of its owner's. A resource was subscribed
// to in this one.
func (ss *session) changed(note *dragoman.Message) {
	if note.Method() == protocol.NoteResourceUpdated {
		ss.listens.Publish(note)
	} else if hub := ss.server.listens.of(ss.owner); hub != nil {
		hub.Publish(note)
	}
}
