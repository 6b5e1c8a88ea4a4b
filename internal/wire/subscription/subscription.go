// Package subscription carries notifications of changes from servers to clients.
//
// A [Subscription] is the side of a server: it keeps a subscriptions/listen open for what is
// wanted. When that changes, another listen is opened and acknowledged before the old one
// ends; what both report is delivered once. A listen that is lost is opened again after 250
// ms, doubling to 10 s, unless the refusal is final; what may have changed meanwhile is
// reported as changed. A [Sent] is one listen.
//
// A [Hub] passes changes on to the side of clients: a [Listen] that is answered here, a
// [Relay] for one that a server answers, and a legacy [Session].
package subscription

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/retry"
	"github.com/dragoman-mcp/dragoman/internal/util/syncs"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// AckTimeout is how long a server may take to acknowledge a listen.
const AckTimeout = 30 * time.Second

// retryBackoff is the wait before a listen that was lost is opened again.
var retryBackoff = retry.Backoff{Min: 250 * time.Millisecond, Max: 10 * time.Second}

// Options configures a Subscription. All but Max, Done and Logger are required.
type Options struct {
	// Send sends a listen and returns its answer, when it has ended. from takes the
	// notifications of the server.
	Send func(ctx context.Context, want protocol.Interest, from dragoman.Peer) (*dragoman.Message, error)

	// Notify is called with each change, by several goroutines at once.
	Notify func(note *dragoman.Message)

	// Busy are the goroutines of the Subscription's owner, which waits for them.
	Busy *syncs.Group

	// Done ends the Subscription when it is closed.
	Done <-chan struct{}

	// Max is how many resources Add takes, of maxNameBytes in all. Zero means any number.
	Max int

	// Logger receives why listens end. If nil, nothing is logged.
	Logger *slog.Logger
}

// A Subscription receives changes by one listen, and when the interest changes, by its
// successor, which is acknowledged before its predecessor ends. What may have changed
// while there was none is notified as changed. Its own goroutine, which starts with the
// first interest, is the only one that opens and ends listens.
//
// While two listens overlap, both may report a change, and either may be the only one:
// see overlap.go.
type Subscription struct {
	opts    Options
	ctx     context.Context // of its listens
	cancel  context.CancelFunc
	wake    chan struct{} // holds one token when there is something to do
	started chan struct{} // closed when the first listen is acknowledged or has failed
	ended   chan struct{} // closed when the goroutine has ended, or cannot start

	// Owned by the goroutine.
	current       *sent // nil if there is none
	fails         int   // of listens in a row
	missedChanges bool  // since current was lost

	mu         sync.Mutex
	running    bool              // the goroutine has started; guarded by mu
	base       protocol.Interest // the interest besides what Add added; guarded by mu
	uris       map[string]bool   // that Add added; guarded by mu
	removed    map[string]bool   // that Remove removed, but current may report; guarded by mu
	pending    []*addRequest     // not sent yet; guarded by mu
	unanswered int               // adds without an answer yet; guarded by mu
	deferring  bool              // two listens overlap; guarded by mu
	deferred   queue             // what they reported; put there with mu held
}

// New returns a Subscription without interest. It ends with ctx, or when opts.Done
// is closed.
func New(ctx context.Context, opts *Options) *Subscription {
	s := &Subscription{
		opts: *opts, wake: make(chan struct{}, 1), started: make(chan struct{}), ended: make(chan struct{}),
		uris: make(map[string]bool), removed: make(map[string]bool),
	}
	s.opts.Logger = cmp.Or(s.opts.Logger, slog.New(slog.DiscardHandler))
	s.ctx, s.cancel = context.WithCancel(ctx)
	return s
}

// Want sets the interest besides the resources that Add adds. It does not wait for the
// server.
func (s *Subscription) Want(base protocol.Interest) {
	s.mu.Lock()
	s.base = base
	idle := !s.running && base.Empty()
	s.mu.Unlock()
	if !idle {
		s.wakeUp()
	}
}

// Await waits until the first listen is acknowledged or has failed, up to limit. Changes
// of what is read after that are notified.
func (s *Subscription) Await(ctx context.Context, limit time.Duration) {
	select {
	case <-s.started:
		return
	default:
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-s.started:
	case <-s.ended:
	case <-ctx.Done():
	case <-late.C:
	}
}

// wakeUp makes the goroutine check what to do. The first time, it starts the goroutine.
func (s *Subscription) wakeUp() {
	s.signal()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		return
	}
	s.running = true
	// Ends with ctx or opts.Done.
	if !s.opts.Busy.Start(s.run) {
		s.cancel()
		close(s.ended)
	}
}

func (s *Subscription) signal() {
	select {
	case s.wake <- struct{}{}:
	default: // awake already
	}
}

// run keeps a listen open for the interest.
func (s *Subscription) run() {
	defer close(s.ended)
	defer s.endAll()
	retry := time.NewTimer(0)
	retry.Stop()
	for first := true; ; first = false {
		var lost <-chan struct{}
		if s.current != nil {
			lost = s.current.Ended
		}
		select {
		case <-s.ctx.Done():
			return
		case <-s.opts.Done:
			return
		case <-s.wake:
			s.renew()
		case <-lost:
			s.lost(s.current)
			s.current = nil
		case <-retry.C:
			s.renew()
		}
		if first {
			close(s.started)
		}
		retry.Stop()
		if s.current == nil && s.fails > 0 {
			retry.Reset(retryBackoff.Wait(s.fails))
		}
	}
}

// endAll ends all listens.
func (s *Subscription) endAll() {
	s.cancel()
	if s.current != nil {
		s.current.end()
	}
	pending, _ := s.takePending()
	s.refuse(pending, dragoman.ErrClosed)
}

// lost records that a listen has ended by itself. Whatever the reason, the server may
// be another one by now.
func (s *Subscription) lost(l *sent) {
	s.opts.Logger.Debug("subscription lost", "error", l.Err())
	if l.permanent() {
		s.fails = 0 // until the interest changes
		return
	}
	s.missedChanges = true
	if time.Since(l.Opened) > retryBackoff.Max {
		s.fails = 0
	}
	s.fails++
}

// renew opens a listen for the present interest, and ends its predecessor once the
// server has acknowledged it.
func (s *Subscription) renew() {
	pending, want := s.takePending()
	if want.Empty() {
		if s.current != nil {
			s.current.end()
			s.current = nil
		}
		s.fails, s.missedChanges = 0, false
		s.endOverlap(nil)
		return
	}
	if s.current != nil && s.current.serves(&want) {
		s.acknowledge(pending, s.current)
		return
	}
	s.deferChanges()
	next := s.open(want)
	if err := s.awaitAck(next); err != nil {
		next.end()
		s.refuse(pending, err)
		if s.current == nil {
			s.lost(next)
			if len(pending) > 0 {
				s.fails = max(s.fails, 1) // without them it may go better
			}
		}
		s.endOverlap(nil)
		return
	}
	accepted := s.acknowledge(pending, next)
	if s.current != nil && len(pending) > 0 && accepted == 0 && !s.current.HasEnded() {
		s.endOverlap(next) // it adds nothing
		return
	}
	old := s.current
	s.current = next
	if old != nil && old.HasEnded() {
		s.lost(old)
	}
	s.endOverlap(old)
	if old != nil && errors.Is(old.err, dragoman.ErrClosed) {
		s.missedChanges = true // it was lost before it was cancelled
	}
	if s.missedChanges {
		s.missedChanges = false
		s.deliver(slices.Collect(next.ack.ChangeNotes()))
	}
}

// awaitAck waits until the server has acknowledged a listen.
func (s *Subscription) awaitAck(l *sent) error {
	late, held := time.NewTimer(AckTimeout), time.NewTimer(maxDefer)
	defer late.Stop()
	defer held.Stop()
	for {
		select {
		case l.ack = <-l.Acked:
			s.deferChanges()
			return nil
		case <-l.Ended:
			select {
			case l.ack = <-l.Acked: // both are ready: there is nothing to subscribe to
				return nil
			default:
			}
			return l.Err()
		case <-s.opts.Done:
			return dragoman.ErrClosed
		case <-held.C:
			s.deliverDeferred()
		case <-late.C:
			return context.DeadlineExceeded
		}
	}
}
