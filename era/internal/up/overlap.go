package up

import (
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/backoff"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// While a listen and its successor overlap, both may tell of a change, and
// either may be the only one to do so. What they tell is kept back until there
// is one of them again, and then told once: a client that looks at what changed
// then sees all of it. So no change is lost, and none is told twice unless the
// server's two streams are further apart than settling.

const (
	// settling is how long an old listen stays open beside its successor, for what
	// is on the way, and how long then its successor's copies are waited for.
	settling = 20 * time.Millisecond

	// maxHold is how long changes are kept back for a server that does not
	// acknowledge a listen. What comes later is told at once.
	maxHold = time.Second

	// maxHeld is how many changes are kept back. What exceeds it is told at once,
	// though it may be told again.
	maxHeld = 4096
)

// A change is what two notifications of it have in common.
type change struct{ method, uri string }

// settle ends an old listen beside its successor, and tells what both have told
// meanwhile.
func (w *watch) settle(old *listen) {
	if old != nil {
		_ = backoff.Sleep(w.ctx, settling) // an end of ctx is seen by run
		old.end()
		_ = backoff.Sleep(w.ctx, settling)
	}
	w.forget()
	w.release()
}

// forget forgets what the client unsubscribed from, once no listen tells of it.
func (w *watch) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for uri := range w.dropped {
		if w.cur == nil || !w.cur.hears(uri) {
			delete(w.dropped, uri)
		}
	}
}

// release tells what was kept back, and keeps nothing more.
func (w *watch) release() {
	w.mu.Lock()
	held := w.held
	w.holding, w.held = false, nil
	clear(w.keys)
	w.mu.Unlock()
	for _, note := range held {
		w.tell(note)
	}
}

// hold keeps back what is told from now on, if there is a listen that tells.
func (w *watch) hold() {
	if w.cur == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holding = true
}

// heard takes a change that a listen tells of.
func (w *watch) heard(note *dragoman.Message) {
	if !w.keeps(note) {
		w.tell(note)
	}
}

// keeps tells whether a notification is not to be told, or not yet.
func (w *watch) keeps(note *dragoman.Message) bool {
	c := change{note.Method(), note.URI()}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.dropped[c.uri]:
		return true
	case !w.holding || len(w.held) >= maxHeld:
		return false
	case !w.keys[c]:
		w.keys[c] = true
		w.held = append(w.held, note)
	}
	return true
}

// remind tells the client of everything that may have changed unheard.
func (w *watch) remind(f protocol.Interest) {
	for note := range f.Reminders() {
		w.tell(note)
	}
}

// tell tells the client of a change, outside of any request.
func (w *watch) tell(note *dragoman.Message) {
	if out := w.hello.route.Note(note); out != nil {
		_ = w.session.client.Notify(w.ctx, out) // one who cannot be told has gone
	}
}
