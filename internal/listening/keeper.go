// Package listening keeps a subscriptions/listen open with a modern server for what
// somebody wants to hear of, however that changes and however often the server is lost.
package listening

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/backoff"
	"github.com/dragoman-mcp/dragoman/internal/running"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// AckTimeout is how long a server may take to say of what it will tell.
const AckTimeout = 30 * time.Second

// reopen is the wait before a listen that was lost is opened again.
var reopen = backoff.Backoff{Min: 250 * time.Millisecond, Max: 10 * time.Second}

// Options says for whom a Keeper listens, and with whom. All but Max, Gone and Logger
// are required.
type Options struct {
	// Send sends a listen and returns its answer, when it has ended. from is whom
	// the server tells.
	Send func(ctx context.Context, want protocol.Interest, from dragoman.Peer) (*dragoman.Message, error)

	// Tell is told of changes. It may be called by several goroutines at once.
	Tell func(note *dragoman.Message)

	// Busy are the goroutines of the Keeper's owner, who waits for them.
	Busy *running.Group

	// Gone is closed when nobody wants to hear any more.
	Gone <-chan struct{}

	// Max is how many resources Add takes. Zero means any number.
	Max int

	// Logger is told why listens end. If nil, nothing is logged.
	Logger *slog.Logger
}

// A Keeper hears of changes: by one listen, and when what is wanted changes, by its
// successor, which is acknowledged before the one before ends. What may have changed
// while there was none is told as changed. Its own goroutine, which begins when there
// is something to hear of, is the only one that opens and ends listens.
//
// While two listens overlap, both may tell of a change, and either may be the
// only one: see overlap.go for what becomes of that.
type Keeper struct {
	opts   Options
	ctx    context.Context // of its listens
	cancel context.CancelFunc
	wake   chan struct{} // holds one token when there is something to do
	began  chan struct{} // closed when the first listen is acknowledged, or is not to be had
	over   chan struct{} // closed when the goroutine has ended, or cannot begin

	// Owned by the goroutine.
	cur   *listen // nil if there is none
	fails int     // of listens in a row
	gap   bool    // changes may have been missed since cur was lost

	mu      sync.Mutex
	running bool              // the goroutine has begun; guarded by mu
	base    protocol.Interest // what is wanted besides what Add added; guarded by mu
	uris    map[string]bool   // that Add added; guarded by mu
	dropped map[string]bool   // that Remove removed, but cur may tell of; guarded by mu
	wishes  []*wish           // that wait to be granted; guarded by mu
	asking  int               // wishes that have no answer yet; guarded by mu
	holding bool              // two listens overlap; guarded by mu
	held    Queue             // what they told; put there with mu held
}

// New returns a Keeper that hears of nothing yet. It ends with ctx, or when opts.Gone
// is closed.
func New(ctx context.Context, opts *Options) *Keeper {
	k := &Keeper{
		opts: *opts, wake: make(chan struct{}, 1), began: make(chan struct{}), over: make(chan struct{}),
		uris: make(map[string]bool), dropped: make(map[string]bool),
	}
	if k.opts.Logger == nil {
		k.opts.Logger = slog.New(slog.DiscardHandler)
	}
	k.ctx, k.cancel = context.WithCancel(ctx)
	return k
}

// Want says what to hear of besides the resources that Add adds. It does not wait for
// the server.
func (k *Keeper) Want(base protocol.Interest) {
	k.mu.Lock()
	k.base = base
	idle := !k.running && base.Empty()
	k.mu.Unlock()
	if !idle {
		k.rouse()
	}
}

// Await waits until the first listen is acknowledged or is not to be had, for so long
// at most. What the server is asked after that is known to change later.
func (k *Keeper) Await(ctx context.Context, limit time.Duration) {
	select {
	case <-k.began:
		return
	default:
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-k.began:
	case <-k.over:
	case <-ctx.Done():
	case <-late.C:
	}
}

// rouse makes the goroutine look for what there is to do. The first time, it begins
// the goroutine.
func (k *Keeper) rouse() {
	k.signal()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.running {
		return
	}
	k.running = true
	// Ends with ctx, or when nobody wants to hear any more.
	if !k.opts.Busy.Start(k.run) {
		k.cancel()
		close(k.over)
	}
}

func (k *Keeper) signal() {
	select {
	case k.wake <- struct{}{}:
	default: // awake already
	}
}

// run keeps a listen open for what is wanted.
func (k *Keeper) run() {
	defer close(k.over)
	defer k.leave()
	retry := time.NewTimer(0)
	retry.Stop()
	for first := true; ; first = false {
		var lost <-chan struct{}
		if k.cur != nil {
			lost = k.cur.ended
		}
		select {
		case <-k.ctx.Done():
			return
		case <-k.opts.Gone:
			return
		case <-k.wake:
			k.renew()
		case <-lost:
			k.lose(k.cur)
			k.cur = nil
		case <-retry.C:
			k.renew()
		}
		if first {
			close(k.began)
		}
		retry.Stop()
		if k.cur == nil && k.fails > 0 {
			retry.Reset(reopen.Wait(k.fails))
		}
	}
}

// leave ends all listens.
func (k *Keeper) leave() {
	k.cancel()
	if k.cur != nil {
		k.cur.end()
	}
	wishes, _ := k.take()
	k.refuse(wishes, dragoman.ErrClosed)
}

// lose notes that a listen has ended without being told to. Whatever the reason,
// the server may be another one by now.
func (k *Keeper) lose(l *listen) {
	k.opts.Logger.Debug("changes are not told any more", "error", l.reason())
	if l.hopeless() {
		k.fails = 0 // until something else is wanted
		return
	}
	k.gap = true
	if time.Since(l.began) > reopen.Max {
		k.fails = 0
	}
	k.fails++
}

// renew opens a listen for what is wanted by now, and ends the one before once the
// server has acknowledged the new one.
func (k *Keeper) renew() {
	wishes, want := k.take()
	if want.Empty() {
		if k.cur != nil {
			k.cur.end()
			k.cur = nil
		}
		k.fails, k.gap = 0, false
		k.settle(nil)
		return
	}
	if k.cur != nil && k.cur.serves(&want) {
		k.grant(wishes, k.cur)
		return
	}
	k.hold()
	next := k.open(want)
	if err := k.acknowledged(next); err != nil {
		next.end()
		k.refuse(wishes, err)
		if k.cur == nil {
			k.lose(next)
			if len(wishes) > 0 {
				k.fails = max(k.fails, 1) // without them it may go better
			}
		}
		k.settle(nil)
		return
	}
	granted := k.grant(wishes, next)
	if k.cur != nil && len(wishes) > 0 && granted == 0 && !k.cur.over() {
		k.settle(next) // it hears nothing new
		return
	}
	old := k.cur
	k.cur = next
	if old != nil && old.over() {
		k.lose(old)
	}
	k.settle(old)
	if old != nil && errors.Is(old.err, dragoman.ErrClosed) {
		k.gap = true // it was lost before it was told to end
	}
	if k.gap {
		k.gap = false
		k.deliver(slices.Collect(next.ack.ChangeNotes()))
	}
}

// acknowledged waits until the server has said of what it will tell.
func (k *Keeper) acknowledged(l *listen) error {
	late, held := time.NewTimer(AckTimeout), time.NewTimer(maxHold)
	defer late.Stop()
	defer held.Stop()
	for {
		select {
		case l.ack = <-l.acked:
			k.hold()
			return nil
		case <-l.ended:
			select {
			case l.ack = <-l.acked: // both at once: the server had nothing to tell
				return nil
			default:
			}
			return l.reason()
		case <-k.opts.Gone:
			return dragoman.ErrClosed
		case <-held.C:
			k.release()
		case <-late.C:
			return context.DeadlineExceeded
		}
	}
}
