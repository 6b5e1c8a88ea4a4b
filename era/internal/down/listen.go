package down

import (
	"context"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	// maxLosses is how many sessions a subscription may lose in a row before it
	// ends, and steady is how long one must last for that to start over.
	maxLosses = 5
	steady    = time.Minute

	// lossPause is the wait before the third session in a row; it doubles.
	lossPause = 100 * time.Millisecond
)

// A listen is one subscription. What it is to tell waits here until its own
// request tells it, since the client may be told nothing after that has returned.
type listen struct {
	wanted protocol.Interest
	kept   protocol.Interest // what the session it is in has honoured
	wake   chan struct{}     // holds one token when something waits

	mu      sync.Mutex
	waiting []*dragoman.Message
	at      map[event]int // where each stands in waiting
	dropped int
}

// An event is a change that a notification tells of.
type event struct{ method, uri string }

// listen serves a subscription on the goroutine that brought it.
func (s *Server) listen(ctx context.Context, r *request) (*dragoman.Message, error) {
	var params struct {
		Notifications *protocol.Interest `json:"notifications"`
	}
	if !decodes(r.Message, &params) || params.Notifications == nil {
		return r.Fail(invalid("params.notifications must be an object that says of which changes to tell, such as " +
			`{"toolsListChanged":true}`)), nil
	}
	l := &listen{wanted: *params.Notifications, wake: make(chan struct{}, 1)}
	if r.from == nil {
		l.wanted = protocol.Interest{} // nobody would hear it
	}
	v, err := s.pool.get(ctx, r, false)
	if err != nil {
		return s.failed(ctx, r, err)
	}
	if err := v.enlist(ctx, l); err != nil {
		s.pool.release(v, false)
		return s.failed(ctx, r, err)
	}
	info := v.info
	s.acknowledge(ctx, r, l)
	for opened, losses := time.Now(), 0; !l.kept.Empty() && v != nil; {
		select {
		case <-l.wake:
			l.deliver(ctx, r, v)
			continue
		case <-v.conn.Done():
		case <-ctx.Done():
		case <-s.ctx.Done():
		}
		v.dismiss(l)
		s.pool.release(v, false)
		v = nil
		if time.Since(opened) > steady {
			losses = 0
		}
		for losses < maxLosses && v == nil && ctx.Err() == nil && s.ctx.Err() == nil {
			losses++
			v = s.listenAgain(ctx, r, l, losses)
		}
		opened = time.Now()
	}
	if v != nil {
		v.dismiss(l)
		s.pool.release(v, false)
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
func (s *Server) acknowledge(ctx context.Context, r *request, l *listen) {
	note, err := dragoman.NewNotification(protocol.NoteAcknowledged, map[string]any{
		"notifications": l.kept, "_meta": map[string]any{protocol.MetaSubscriptionID: r.ID()},
	})
	if err == nil && r.from != nil {
		_ = r.from.Notify(ctx, note) // who cannot be told has gone, which ctx will say
	}
}

// listenAgain moves a subscription whose session is lost to another. What may have
// changed meanwhile is told as changed. It returns nil if that failed.
func (s *Server) listenAgain(ctx context.Context, r *request, l *listen, losses int) *session {
	if losses > 1 {
		select {
		case <-time.After(lossPause << (losses - 2)):
		case <-ctx.Done():
			return nil
		case <-s.ctx.Done():
			return nil
		}
	}
	before := l.kept
	v, err := s.pool.get(ctx, r, false)
	if err != nil {
		return nil
	}
	if err := v.enlist(ctx, l); err != nil {
		s.pool.release(v, false)
		return nil
	}
	subscribed := l.kept.URIs // dismiss ends all of these
	l.kept = l.kept.And(&before)
	l.kept.URIs = subscribed
	for note := range l.kept.Reminders() {
		l.put(note)
	}
	return v
}
