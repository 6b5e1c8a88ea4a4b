package listening

import (
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/backoff"
)

// While a listen and its successor overlap, both may tell of a change, and
// either may be the only one to do so. What they tell is kept back until there
// is one of them again, and then told once: whoever looks at what changed then
// sees all of it. So no change is lost, and none is told twice unless the
// server's two streams are further apart than settling.

const (
	// settling is how long an old listen stays open beside its successor, for what
	// is on the way, and how long then its successor's copies are waited for.
	settling = 20 * time.Millisecond

	// maxHold is how long changes are kept back for a server that does not
	// acknowledge a listen. What comes later is told at once.
	maxHold = time.Second
)

// settle ends an old listen beside its successor, and tells what both have told
// meanwhile.
func (k *Keeper) settle(old *listen) {
	if old != nil {
		_ = backoff.Sleep(k.ctx, settling) // an end of ctx is seen by run
		old.end()
		_ = backoff.Sleep(k.ctx, settling)
	}
	k.forget()
	k.release()
}

// forget forgets what was removed, once no listen tells of it.
func (k *Keeper) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for uri := range k.dropped {
		if k.cur == nil || !k.cur.hears(uri) {
			delete(k.dropped, uri)
		}
	}
}

// release tells what was kept back, and keeps nothing more.
func (k *Keeper) release() {
	k.mu.Lock()
	k.holding = false
	k.mu.Unlock()
	k.deliver(k.held.Take())
}

// deliver tells of changes on a goroutine of its own: whoever is told may want to hear
// of something else by that, and wait for it.
func (k *Keeper) deliver(notes []*dragoman.Message) {
	if len(notes) == 0 {
		return
	}
	// Ends when all is told. At the end of everything nothing need be told.
	k.opts.Busy.Start(func() {
		for _, note := range notes {
			k.opts.Tell(note)
		}
	})
}

// hold keeps back what is told from now on, if there is a listen that tells.
func (k *Keeper) hold() {
	if k.cur == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.holding = true
}

// heard takes a change that a listen tells of.
func (k *Keeper) heard(note *dragoman.Message) {
	if !k.keeps(note) {
		k.opts.Tell(note)
	}
}

// keeps reports whether a notification is not to be told, or not yet. What exceeds the
// queue is told at once, though it may be told again.
func (k *Keeper) keeps(note *dragoman.Message) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.dropped[changeOf(note).about] || k.holding && k.held.Put(note)
}
