package subscription

import (
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/retry"
)

// While a listen and its successor overlap, both may report a change, and either may be
// the only one to do so. What they report is deferred until there is one of them again,
// and then notified once: what is read after that has all of it. So no change is lost,
// and none is notified twice unless the server's two streams are further apart than
// overlapTime.

const (
	// overlapTime is how long an old listen stays open beside its successor, for what
	// is on the way, and how long then its successor's copies are waited for.
	overlapTime = 20 * time.Millisecond

	// maxDefer is how long changes are deferred for a server that does not
	// acknowledge a listen. Later ones are notified at once.
	maxDefer = time.Second
)

// endOverlap ends an old listen beside its successor, and delivers what both have
// reported meanwhile.
func (s *Subscription) endOverlap(old *sent) {
	if old != nil {
		_ = retry.Sleep(s.ctx, overlapTime) // run sees the end of ctx
		old.end()
		_ = retry.Sleep(s.ctx, overlapTime)
	}
	s.forgetRemoved()
	s.deliverDeferred()
}

// forgetRemoved forgets what was removed, once no listen reports it.
func (s *Subscription) forgetRemoved() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uri := range s.removed {
		if s.current == nil || !s.current.covers(uri) {
			delete(s.removed, uri)
		}
	}
}

// deliverDeferred notifies what was deferred, and defers nothing more.
func (s *Subscription) deliverDeferred() {
	s.mu.Lock()
	s.deferring = false
	s.mu.Unlock()
	s.deliver(s.deferred.take())
}

// deliver notifies changes on a goroutine of its own: Notify may call Add, which waits
// for the goroutine of the Subscription.
func (s *Subscription) deliver(notes []*dragoman.Message) {
	if len(notes) == 0 {
		return
	}
	// Ends when all are notified. When the owner is closed, none need be.
	s.opts.Busy.Start(func() {
		for _, note := range notes {
			s.opts.Notify(note)
		}
	})
}

// deferChanges defers changes from now on, if there is a listen.
func (s *Subscription) deferChanges() {
	if s.current == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deferring = true
}

// received takes a change that a listen reports.
func (s *Subscription) received(note *dragoman.Message) {
	if !s.defers(note) {
		s.opts.Notify(note)
	}
}

// defers reports whether a notification is dropped or deferred. What exceeds the queue
// is delivered at once, and may be delivered again.
func (s *Subscription) defers(note *dragoman.Message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.removed[changeOf(note).subject] || s.deferring && s.deferred.put(note)
}
