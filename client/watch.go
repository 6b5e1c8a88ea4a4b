package client

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/backoff"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	// settling is how long a listen stays open beside its successor, for what is on
	// the way.
	settling = 20 * time.Millisecond

	// ackTimeout is how long a server may take to say of what it will tell.
	ackTimeout = 30 * time.Second
)

// reopen is the wait before changes are listened to again when the server has stopped
// to tell of them.
var reopen = backoff.Backoff{Min: 250 * time.Millisecond, Max: 10 * time.Second}

// A watch hears of a modern server's changes: one listen, and when the wishes
// change, its successor, which is acknowledged before the one before ends. A
// change may be told twice meanwhile, but none is missed.
type watch struct {
	side *modern
	wake chan struct{} // holds one token when there is something to do
	over sync.WaitGroup

	// Owned by the goroutine.
	cur   *listen
	fails int  // in a row
	gap   bool // changes may have been missed

	mu      sync.Mutex
	running bool              // there is a goroutine, or there may be none any more; guarded by mu
	lists   protocol.Interest // that the caller wants to hear of; guarded by mu
	uris    map[string]bool   // guarded by mu
	wishes  []*wish           // that wait to be granted; guarded by mu
}

func newWatch(m *modern) *watch {
	return &watch{side: m, wake: make(chan struct{}, 1), uris: make(map[string]bool)}
}

// begin listens to changes of lists, if anybody wants to know and the server
// tells.
func (w *watch) begin(capabilities json.RawMessage) {
	if w.side.client.opts.OnNotification == nil {
		return
	}
	w.mu.Lock()
	w.lists = protocol.ListsOf(capabilities)
	nothing := w.lists.Empty()
	w.mu.Unlock()
	if !nothing {
		w.rouse()
	}
}

// rouse makes the goroutine look for what there is to do. The first time, it
// makes the goroutine.
func (w *watch) rouse() {
	select {
	case w.wake <- struct{}{}:
	default: // awake already
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.running {
		w.running = true
		// Ends with the Client, whose Close waits for it.
		w.over.Go(w.run)
	}
}

func (w *watch) close() {
	w.mu.Lock()
	w.running = true // none is made from now on
	w.mu.Unlock()
	w.over.Wait()
}

// run keeps one listen open for what is wanted.
func (w *watch) run() {
	done := w.side.client.ctx.Done()
	retry := time.NewTimer(0)
	retry.Stop()
	for {
		var lost <-chan struct{}
		if w.cur != nil {
			lost = w.cur.ended
		}
		select {
		case <-done:
			w.replace(nil)
			return
		case <-w.wake:
			w.renew()
		case <-retry.C:
			w.renew()
		case <-lost:
			w.lose(w.cur)
			w.cur = nil
		}
		retry.Stop()
		if w.cur == nil && w.fails > 0 {
			retry.Reset(reopen.Wait(w.fails))
		}
	}
}

// take returns what is wanted by now, and who waits for it.
func (w *watch) take() (protocol.Interest, []*wish) {
	w.mu.Lock()
	defer w.mu.Unlock()
	want, wishes := w.lists, w.wishes
	want.URIs = slices.Sorted(maps.Keys(w.uris))
	w.wishes = nil
	return want, wishes
}

// renew opens a listen for what is wanted by now.
func (w *watch) renew() {
	want, wishes := w.take()
	if want.Empty() {
		w.replace(nil)
		w.fails, w.gap = 0, false
		w.settle(wishes, protocol.Interest{}, nil)
		return
	}
	next := w.open(want)
	ack, err := next.acknowledged(w.side.client.ctx)
	if err != nil {
		next.end()
		if w.cur == nil {
			w.lose(next)
			if len(wishes) > 0 {
				w.fails = max(w.fails, 1) // without them it may go better
			}
		}
		w.settle(wishes, protocol.Interest{}, err)
		return
	}
	next.ack = ack
	w.replace(next)
	w.settle(wishes, ack, nil)
	if w.gap {
		w.gap = false
		w.remind(ack)
	}
}

func (w *watch) replace(next *listen) {
	if w.cur != nil {
		if next != nil {
			_ = backoff.Sleep(w.side.client.ctx, settling) // its end is seen by run
		}
		w.cur.end()
		if errors.Is(w.cur.err, dragoman.ErrClosed) {
			w.gap = true // it was lost before it was told to end
		}
	}
	w.cur = next
}

// lose notes that a listen has ended without being told to.
func (w *watch) lose(l *listen) {
	w.side.client.opts.Logger.Debug("changes are not told any more", "error", l.err)
	if l.hopeless() {
		w.fails = 0 // until something else is wanted
		return
	}
	w.gap = true
	if time.Since(l.began) > reopen.Max {
		w.fails = 0
	}
	w.fails++
}

// remind tells what may have changed while nobody listened.
func (w *watch) remind(ack protocol.Interest) {
	for note := range ack.Reminders() {
		w.side.client.tell(note)
	}
}
