// Package pool keeps the open connections to one server: which caller each belongs to, who
// uses it, how many there may be, and when one is closed. An era.Server owns one; down and the
// legacy sessions take connections from it.
//
//	connections, of one caller   1,024, 256   one unused for 2 s is closed; else wait 10 s
//	                                          (256 may wait), then −31004
//	an unused connection         5 min        closed
//	opening a session            2 min        −31001
package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/syncs"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Defaults of Options.
const (
	DefaultMax       = 1024
	DefaultPerCaller = 256
	DefaultIdle      = 5 * time.Minute
	DefaultWait      = 10 * time.Second
	DefaultOpen      = 2 * time.Minute
)

const (
	// MaxWaiting is how many requests may wait for a place.
	MaxWaiting = 256

	// Grace is how long a conversation must be unused before it gives way to another,
	// if its owner may have left something in it.
	Grace = 2 * time.Second

	// lookAgain is how often those who wait look whether one may be closed by now.
	lookAgain = 250 * time.Millisecond

	// maxMissed is how many owners are remembered whose conversation was closed
	// while they may have left something in it.
	maxMissed = 1024
)

// Options are the limits of a Pool. Nil and the zero value hold the defaults.
type Options struct {
	// Max is how many conversations there may be in all, and PerCaller how many of
	// one caller. At the limit one that nobody uses is closed; if there is none, a
	// request waits for Wait.
	Max, PerCaller int
	Wait           time.Duration

	// Idle is how long one stays open that nobody uses, and Open how long one may
	// take to open.
	Idle, Open time.Duration

	// Logger is told what is closed that somebody may miss. If nil, nothing is
	// logged.
	Logger *slog.Logger
}

// A Key says whose a conversation is: a caller's, or that of one session of it.
type Key struct{ Caller, Session string }

// An Item is a conversation in a Pool.
type Item interface {
	// Over reports whether it cannot be used any more.
	Over() bool

	// Stateful reports whether its owner may have left something in it.
	Stateful() bool

	// Close ends it.
	Close() error
}

// A Want is who needs a conversation. It is an interface, and not functions, since each
// request has one.
type Want interface {
	// Kind says what kind of conversation is opened, and Fits how well one of another
	// kind does: not at all if it is zero, and of several the best is taken.
	Kind() any
	Fits(kind any) int

	// Open opens one. Its context ends after the time for that, or with the Pool,
	// and not with the request that wanted it first: others may wait for it too.
	Open(context.Context) (Item, error)
}

// A Use says for how long a conversation is wanted. A Single one is nobody else's, and
// closed behind its user. Pinned ones are not closed because nobody uses them.
type Use struct{ Single, Pinned bool }

// An Entry is a conversation that somebody uses, until Release.
type Entry struct {
	// Item is the conversation. Renewed says what became of the one before it that
	// the owner may miss; it is empty if there is none.
	Item    Item
	Renewed string

	key    Key
	kind   any
	single bool          // closed behind its only user
	ready  chan struct{} // closed when Item or err is set

	// Guarded by Pool.mu.
	err    error
	users  int
	used   time.Time
	timer  *time.Timer // of idleness
	pinned bool        // not closed for that
	until  time.Time   // its owner comes back until then
	gone   bool        // not in the pool any more
	ended  bool        // somebody closes it
}

// A Pool keeps the conversations with one server. Any number of goroutines may use
// it.
type Pool struct {
	opts   Options
	ctx    context.Context // ends with Close
	cancel context.CancelCauseFunc
	busy   syncs.Group // our goroutines

	mu      sync.Mutex
	entries map[Key][]*Entry
	count   map[string]int // by caller
	open    int            // also those that are being opened or closed
	waiting int
	changed chan struct{}  // closed when those who wait should look again; nil if nobody does
	missed  map[Key]string // why the last conversation of an owner is gone
	closed  bool
}

// New returns an empty Pool. opts may be nil.
func New(opts *Options) *Pool {
	p := &Pool{entries: make(map[Key][]*Entry), count: make(map[string]int), missed: make(map[Key]string)}
	if opts != nil {
		p.opts = *opts
	}
	fill(&p.opts.Max, DefaultMax)
	fill(&p.opts.PerCaller, DefaultPerCaller)
	fill(&p.opts.Wait, DefaultWait)
	fill(&p.opts.Idle, DefaultIdle)
	fill(&p.opts.Open, DefaultOpen)
	p.opts.Logger = cmp.Or(p.opts.Logger, slog.New(slog.DiscardHandler))
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	return p
}

func fill[T int | time.Duration](v *T, standard T) {
	if *v <= 0 {
		*v = standard
	}
}

// Take returns a conversation for a request of an owner, which must be given back by
// Release. The error is a *dragoman.Error, that of Want.Open, or ctx ended.
func (p *Pool) Take(ctx context.Context, key Key, want Want, use Use) (*Entry, error) {
	var late <-chan time.Time
	for {
		e, joined, full, err := p.try(ctx, key, want, use)
		if err != nil {
			return nil, err
		}
		if e != nil {
			if err = e.wait(ctx); err == nil {
				return e, nil
			}
			p.Release(e)
			if joined && ctx.Err() == nil && errors.Is(err, dragoman.ErrClosed) {
				continue // it was closed for a reason from before our time
			}
			return nil, err
		}
		if late == nil {
			late = time.After(p.opts.Wait)
		}
		if err := p.queue(ctx, key, full, late); err != nil {
			return nil, err
		}
	}
}

// try takes a conversation, or begins to open one. joined says that it was there, open
// or about to be. If there is no room, full is closed when there may be.
func (p *Pool) try(ctx context.Context, key Key, want Want, use Use) (e *Entry, joined bool, full <-chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, false, nil, protocol.Draining()
	}
	if !use.Single {
		if e := p.match(key, want); e != nil {
			e.users++
			e.pinned = e.pinned || use.Pinned
			return e, true, nil, nil
		}
	}
	if p.open < p.opts.Max && p.count[key.Caller] < p.opts.PerCaller {
		return p.openEntry(ctx, key, want, use), false, nil, nil
	}
	of := key.Caller
	if p.count[of] < p.opts.PerCaller {
		of = anybody
	}
	if old := p.evictable(of); old != nil {
		p.noteLoss(old, "it was closed to make room for another")
		p.unlink(old)
		p.finish(old)
	}
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return nil, false, p.changed, nil
}

// match returns an open conversation that does. The caller holds mu.
func (p *Pool) match(key Key, want Want) *Entry {
	var best *Entry
	fit := 0
	for _, e := range p.entries[key] { // which is replaced, not changed, when one is lost
		switch {
		case e.single:
		case e.isOver():
			p.lost(e)
		default:
			if n := want.Fits(e.kind); n > fit {
				best, fit = e, n
			}
		}
	}
	return best
}

// openEntry adds a conversation that is opened on a goroutine of its own. The caller
// holds mu.
func (p *Pool) openEntry(ctx context.Context, key Key, want Want, use Use) *Entry {
	e := &Entry{
		key: key, kind: want.Kind(), single: use.Single, pinned: use.Pinned, Renewed: p.missed[key],
		ready: make(chan struct{}), users: 1, used: time.Now(),
	}
	delete(p.missed, key)
	p.entries[key] = append(p.entries[key], e)
	p.count[key.Caller]++
	p.open++
	as := dragoman.WithCallerOf(p.ctx, ctx)
	// Ends when it is open, after the time for that, or with Close.
	if !p.busy.Start(func() { p.opened(e, as, want) }) {
		e.err = protocol.Draining()
		close(e.ready)
	}
	return e
}

// errOpen ends the opening of a conversation that takes too long.
var errOpen = errors.New("the server took too long to open a session")

// opened opens a conversation and tells those who wait for it.
func (p *Pool) opened(e *Entry, ctx context.Context, want Want) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.opts.Open, errOpen)
	defer cancel()
	item, err := want.Open(ctx)
	p.mu.Lock()
	switch {
	case err != nil:
		e.err = err
		p.unlink(e)
		p.finish(e)
	case p.closed:
		e.err = protocol.Draining()
	case e.gone && e.users == 0: // nobody wants it any more
		e.Item = item
		p.finish(e)
	default:
		e.Item, e.used = item, time.Now()
		if !e.single {
			e.timer = time.AfterFunc(p.opts.Idle, func() { p.idle(e) })
		}
	}
	close(e.ready)
	p.notifyWaiters()
	p.mu.Unlock()
	if err == nil && e.err != nil {
		_ = item.Close() // nobody wants it any more
	}
}

// wait waits until the conversation is open.
func (e *Entry) wait(ctx context.Context) error {
	select {
	case <-e.ready:
	default:
		select {
		case <-e.ready:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return e.err
}

// isReady reports whether the conversation is open, or could not be opened.
func (e *Entry) isReady() bool {
	select {
	case <-e.ready:
		return true
	default:
		return false
	}
}

// isOver reports whether the conversation has been open and cannot be used any more.
func (e *Entry) isOver() bool { return e.isReady() && (e.err != nil || e.Item.Over()) }

// anybody stands for all callers.
const anybody = "\x00"

// evictable returns what is to be closed for another: of a caller's, or of anybody's,
// what nobody has used for the longest time. The caller holds mu.
func (p *Pool) evictable(caller string) *Entry {
	var oldest *Entry
	for key, list := range p.entries {
		if caller != anybody && key.Caller != caller {
			continue
		}
		for _, e := range list {
			switch now := time.Now(); {
			case e.users > 0 || e.pinned || !e.isReady():
			case e.isOver():
				return e
			case now.Before(e.until) || now.Sub(e.used) < Grace && e.Item.Stateful():
			case oldest == nil || e.used.Before(oldest.used):
				oldest = e
			}
		}
	}
	return oldest
}

// noteLoss remembers what became of a conversation, if its owner may have left something
// in it. The caller holds mu.
func (p *Pool) noteLoss(e *Entry, why string) {
	if e.err != nil || e.Item == nil || e.single || !e.Item.Stateful() {
		return
	}
	p.opts.Logger.Warn("a session with the server is closed in which something may have been left", "reason", why, "client", e.key.Caller)
	if len(p.missed) >= maxMissed {
		clear(p.missed)
	}
	p.missed[e.key] = why
}

// lost takes a conversation out that is over. Who still uses it finishes it. The
// caller holds mu.
func (p *Pool) lost(e *Entry) {
	if e.gone {
		return
	}
	p.noteLoss(e, "it was lost")
	p.unlink(e)
	if e.users == 0 {
		p.finish(e)
	}
}

// unlink takes a conversation out of the table, so that nobody gets it any more. The
// caller holds mu and, if nobody uses it, calls finish.
func (p *Pool) unlink(e *Entry) {
	if e.gone {
		return
	}
	e.gone = true
	list := p.entries[e.key]
	for i, other := range list {
		if other == e {
			list = append(list[:i:i], list[i+1:]...)
			break
		}
	}
	if p.entries[e.key] = list; len(list) == 0 {
		delete(p.entries, e.key)
	}
	if e.timer != nil {
		e.timer.Stop()
	}
}

// finish closes a conversation that has been unlinked, and then makes room for
// another. The caller holds mu.
func (p *Pool) finish(e *Entry) {
	end := func() {
		if e.Item != nil {
			_ = e.Item.Close() // why it ends is of no interest any more
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.open--
		if p.count[e.key.Caller]--; p.count[e.key.Caller] <= 0 {
			delete(p.count, e.key.Caller)
		}
		p.notifyWaiters()
	}
	e.ended = true
	// Ends when the conversation is closed, which is bounded. Who gives one back when
	// we have been closed is not waited for.
	if !p.busy.Start(end) {
		go end()
	}
}

// notifyWaiters makes those who wait look again. The caller holds mu.
func (p *Pool) notifyWaiters() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// Keep has a conversation stay open until then, unless it is lost: its owner has been
// asked something and will be back.
func (p *Pool) Keep(e *Entry, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.until = until
}

// Release gives a conversation back.
func (p *Pool) Release(e *Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.users--
	if e.users > 0 {
		return
	}
	e.used = time.Now()
	if !e.gone && (e.single || e.isOver()) {
		if !e.single {
			p.noteLoss(e, "it was lost")
		}
		p.unlink(e)
	}
	if e.gone && !e.ended && e.isReady() && e.err == nil { // what is being opened is finished then
		p.finish(e)
	}
	p.notifyWaiters()
}

// idle closes a conversation that nobody has used for too long, or looks again
// later.
func (p *Pool) idle(e *Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := p.opts.Idle
	if e.users == 0 {
		left = max(left-time.Since(e.used), time.Until(e.until))
	}
	switch {
	case e.gone || p.closed:
	case e.pinned && !e.isOver():
		e.timer.Reset(p.opts.Idle)
	case e.users > 0 || left > 0 && !e.isOver():
		e.timer.Reset(max(left, time.Millisecond))
	default:
		p.noteLoss(e, fmt.Sprintf("nobody used it for %v", p.opts.Idle))
		p.unlink(e)
		p.finish(e)
	}
}

// queue waits until there may be room. What makes room between try and queue has
// closed full.
func (p *Pool) queue(ctx context.Context, key Key, full <-chan struct{}, late <-chan time.Time) error {
	p.mu.Lock()
	what := fmt.Sprintf("all %d sessions with the server are in use", p.opts.Max)
	if p.count[key.Caller] >= p.opts.PerCaller {
		what = fmt.Sprintf("all %d sessions that one client may have with the server are in use", p.opts.PerCaller)
	}
	crowded := p.waiting >= MaxWaiting
	if !crowded {
		p.waiting++
	}
	p.mu.Unlock()
	if crowded {
		return protocol.Overloaded(fmt.Sprintf("%s and %d requests wait for one; try again later", what, MaxWaiting))
	}
	defer func() {
		p.mu.Lock()
		p.waiting--
		p.mu.Unlock()
	}()
	soon := time.NewTimer(lookAgain)
	defer soon.Stop()
	select {
	case <-full:
		return nil
	case <-soon.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-late:
		return protocol.Overloaded(what + "; try again later")
	}
}

// End closes the conversations of an owner that nobody uses, and those that are in
// use as soon as they are not: the owner has gone.
func (p *Pool) End(key Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.missed, key)
	for _, e := range append([]*Entry(nil), p.entries[key]...) {
		p.unlink(e)
		if e.users == 0 && e.isReady() {
			p.finish(e)
		}
	}
}

// Find takes a conversation of an owner that is open and of which is says that it is
// the one, or returns nil.
func (p *Pool) Find(key Key, is func(Item) bool) *Entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.entries[key] {
		select {
		case <-e.ready:
		default:
			continue
		}
		if e.err == nil && !e.Item.Over() && is(e.Item) {
			e.users++
			return e
		}
	}
	return nil
}

// Close closes all conversations and waits for our goroutines.
func (p *Pool) Close() {
	p.cancel(dragoman.ErrClosed)
	p.mu.Lock()
	p.closed = true // what is given back until then is closed by finish, and the rest here
	var all []*Entry
	for _, list := range p.entries {
		all = append(all, list...)
	}
	for _, e := range all {
		p.unlink(e)
		e.ended = true
	}
	p.notifyWaiters()
	p.mu.Unlock()
	var closing sync.WaitGroup
	for _, e := range all {
		<-e.ready // its opening has ended, or ends now
		if e.Item != nil {
			closing.Go(func() { _ = e.Item.Close() }) // ends when the conversation is closed
		}
	}
	closing.Wait()
	p.busy.Wait()
}
