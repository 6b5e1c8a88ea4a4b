package up

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/backoff"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// reopen is the wait before a listen that broke is opened again.
var reopen = backoff.Backoff{Min: 250 * time.Millisecond, Max: 10 * time.Second}

// A watch is what a session hears of changes: one listen, and while the wishes
// of the client change, its successor. Its own goroutine is the only one that
// opens and ends listens.
//
// While two listens overlap, both may tell of a change, and either may be the
// only one: see overlap.go for what becomes of that.
type watch struct {
	session *session
	hello   *hello
	ctx     context.Context // of its listens
	cancel  context.CancelFunc
	wake    chan struct{} // holds one token when there is something to do
	over    chan struct{} // closed when the goroutine has ended
	began   chan struct{} // closed when the first listen is acknowledged, or is not to be had

	// Owned by the goroutine.
	cur   *listen // nil if there is none
	fails int     // of listens in a row
	gap   bool    // changes may have been missed since cur was lost

	mu      sync.Mutex
	uris    map[string]bool     // that the client subscribed to; guarded by mu
	dropped map[string]bool     // that it unsubscribed from but cur may tell of; guarded by mu
	wishes  []*wish             // that wait to be granted; guarded by mu
	asking  int                 // wishes that have no answer yet; guarded by mu
	holding bool                // two listens overlap; guarded by mu
	held    []*dragoman.Message // what they told; guarded by mu
	keys    map[change]bool     // what is in held; guarded by mu
}

// watching returns the session's watch, which begins to hear. It is nil after
// Close.
func (v *session) watching(h *hello) *watch {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.watch != nil {
		return v.watch
	}
	w := &watch{
		session: v, hello: h, wake: make(chan struct{}, 1), over: make(chan struct{}), began: make(chan struct{}),
		uris: make(map[string]bool), dropped: make(map[string]bool), keys: make(map[change]bool),
	}
	w.ctx, w.cancel = context.WithCancel(v.ctx)
	w.rouse()
	// Ends with the client's conversation, or with Close, which waits for it.
	if !v.server.busy.Start(w.run) {
		w.cancel()
		return nil
	}
	v.watch = w
	return w
}

// firstHold is how long a list waits for the first listen.
const firstHold = 500 * time.Millisecond

// hearFirst waits until changes are heard of, if that is on its way: whoever has a
// list is told when it changes, from then on.
func (v *session) hearFirst(ctx context.Context) {
	v.mu.Lock()
	w := v.watch
	v.mu.Unlock()
	if w == nil {
		return
	}
	select {
	case <-w.began:
		return
	default:
	}
	late := time.NewTimer(firstHold)
	defer late.Stop()
	select {
	case <-w.began:
	case <-w.over:
	case <-ctx.Done():
	case <-late.C:
	}
}

// rouse makes the goroutine look for what there is to do.
func (w *watch) rouse() {
	select {
	case w.wake <- struct{}{}:
	default: // awake already
	}
}

// run keeps a listen open for what the client wants to hear of.
func (w *watch) run() {
	defer close(w.over)
	defer w.leave()
	retry := time.NewTimer(0)
	retry.Stop()
	for first := true; ; first = false {
		var lost <-chan struct{}
		if w.cur != nil {
			lost = w.cur.ended
		}
		select {
		case <-w.ctx.Done():
			return
		case <-w.session.client.Done():
			return
		case <-w.wake:
			w.renew()
		case <-lost:
			w.lose(w.cur)
			w.cur = nil
		case <-retry.C:
			w.renew()
		}
		if first {
			close(w.began)
		}
		retry.Stop()
		if w.cur == nil && w.fails > 0 {
			retry.Reset(reopen.Wait(w.fails))
		}
	}
}

// leave ends all listens.
func (w *watch) leave() {
	w.cancel()
	if w.cur != nil {
		w.cur.end()
	}
	wishes, _ := w.take()
	w.refuse(wishes, dragoman.ErrClosed)
}

// lose notes that a listen has ended without being told to. Whatever the reason,
// the server may be another one by now.
func (w *watch) lose(l *listen) {
	w.session.server.opts.Logger.Debug("listen ended", "error", l.reason())
	if l.hopeless() {
		w.fails = 0 // until the client wants something else
		return
	}
	w.gap = true
	if time.Since(l.began) > reopen.Max {
		w.fails = 0
	}
	w.fails++
}

// hopeless tells whether a listen has ended because the server has nothing to
// tell, which is not going to change.
func (l *listen) hopeless() bool {
	switch {
	case l.err != nil:
		return false
	case l.no == nil:
		return l.ack.Empty()
	case l.no.Code == protocol.CodeInvalidParams:
		return len(l.want.URIs) == 0 // else one of them may be the reason
	}
	return l.no.Code == protocol.CodeMethodNotFound
}

// reason says why a listen has ended.
func (l *listen) reason() error {
	switch {
	case l.err != nil:
		return l.err
	case l.no != nil:
		return fmt.Errorf("the server refused to tell of changes, with error %d: %s", l.no.Code, l.no.Message)
	}
	return errors.New("the server ended the subscription")
}

// renew opens a listen for what the client wants to hear of by now, and ends the
// one before once the server has acknowledged the new one.
func (w *watch) renew() {
	wishes, want := w.take()
	if want.Empty() {
		if w.cur != nil {
			w.cur.end()
			w.cur = nil
		}
		w.fails, w.gap = 0, false
		w.settle(nil)
		return
	}
	if w.hearsAll(want) {
		w.grant(wishes, w.cur)
		return
	}
	w.hold()
	next := w.open(want)
	if err := w.acknowledged(next); err != nil {
		next.end()
		w.refuse(wishes, err)
		if w.cur == nil {
			w.lose(next)
			if len(wishes) > 0 {
				w.fails = max(w.fails, 1) // without them it may go better
			}
		}
		w.settle(nil)
		return
	}
	granted := w.grant(wishes, next)
	if w.cur != nil && len(wishes) > 0 && granted == 0 && !isOver(w.cur) {
		w.settle(next) // it hears nothing new
		return
	}
	old := w.cur
	w.cur = next
	if old != nil && isOver(old) {
		w.lose(old)
	}
	w.settle(old)
	if old != nil && errors.Is(old.err, dragoman.ErrClosed) {
		w.gap = true // it was lost before it was told to end
	}
	if w.gap {
		w.gap = false
		w.remind(next.ack)
	}
}

// hearsAll tells whether the listen there is tells of exactly what is wanted.
func (w *watch) hearsAll(want protocol.Interest) bool {
	if w.cur == nil || isOver(w.cur) || len(w.cur.ack.URIs) != len(want.URIs) {
		return false
	}
	return !slices.ContainsFunc(want.URIs, func(uri string) bool { return !w.cur.hears(uri) })
}

func isOver(l *listen) bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// acknowledged waits until the server has said of what it will tell.
func (w *watch) acknowledged(l *listen) error {
	late, held := time.NewTimer(AckTimeout), time.NewTimer(maxHold)
	defer late.Stop()
	defer held.Stop()
	for {
		select {
		case l.ack = <-l.acked:
			w.hold()
			return nil
		case <-l.ended:
			select {
			case l.ack = <-l.acked: // both at once: the server had nothing to tell
				return nil
			default:
			}
			if l.no != nil && l.no.Code == protocol.CodeInvalidParams {
				return l.no // the client's own params are in it
			}
			return l.reason()
		case <-w.session.client.Done():
			return dragoman.ErrClosed
		case <-held.C:
			w.release()
		case <-late.C:
			return context.DeadlineExceeded
		}
	}
}
