package aggregate

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/retry"
	"github.com/dragoman-mcp/dragoman/internal/wire/subscription"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Limits of subscriptions.
const (
	// MaxListens is how many there may be at once, of all callers. More are refused
	// with -31004.
	MaxListens = 16384

	// MaxURIs is how many resources, and how many tasks, one may name. Those beyond
	// are left out of the acknowledgement.
	MaxURIs = 1024

	// maxURIBytes bounds the length of the resources of one, and of the tasks.
	maxURIBytes = 256 << 10
)

// A listener is one subscription. What it is to tell waits here until its own
// request tells it, since a client may be told nothing after that has returned.
type listener struct {
	aggregate    *Aggregate
	request      *request
	acknowledged protocol.Interest // what is honoured
	wake         chan struct{}     // holds a token when there is something to do

	// Of the goroutine that serves it.
	group   *group      // that the members are of
	watches []*watch    // on members
	fails   int         // to watch what must be watched, in a row
	retry   *time.Timer // fires when that is to be tried again

	queue subscription.Queue
	stale atomic.Bool // a watch has ended, or members have changed
}

// listen serves a subscription on the goroutine that brought it.
func (a *Aggregate) listen(ctx context.Context, r *request, _ kind) (*dragoman.Message, error) {
	var params struct {
		Notifications *protocol.Interest `json:"notifications"`
	}
	if err := r.Decode(&params); err != nil || params.Notifications == nil {
		return r.Fail(invalid("params.notifications must be an object that says of which changes to tell, such as " +
			`{"toolsListChanged":true}`)), nil
	}
	r = &request{Message: r.Message, from: r.from} // members come and go meanwhile
	l := &listener{aggregate: a, request: r, wake: make(chan struct{}, 1)}
	if r.from != nil {
		l.acknowledged = *params.Notifications
	}
	if !a.addListener(l) { // from here on nothing is missed
		return r.Fail(protocol.Overloaded("too many subscriptions are open; end one before you open another")), nil
	}
	defer a.removeListener(l)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends what is watched on members
	l.begin(ctx)
	l.acknowledge(ctx)
	if err := l.run(ctx); err != nil {
		return nil, err
	}
	return r.Reply(join(`{"resultType":"`, protocol.ResultComplete, `","_meta":{"`, protocol.MetaSubscriptionID, `":`, r.ID().String(),
		`,"`, protocol.MetaServerInfo, `":`, a.info, `}}`))
}

func (a *Aggregate) addListener(l *listener) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.listens) >= MaxListens {
		return false
	}
	a.listens[l] = struct{}{}
	return true
}

func (a *Aggregate) removeListener(l *listener) {
	a.mu.Lock()
	delete(a.listens, l)
	a.mu.Unlock()
	if n := l.queue.Dropped(); n > 0 {
		a.log.Warn("a subscription was not told of everything", "dropped", n)
	}
}

// acknowledge tells the client what it will hear of.
func (l *listener) acknowledge(ctx context.Context) {
	if note, err := dragoman.NewNotification(protocol.NoteAcknowledged, map[string]any{"notifications": l.acknowledged}); err == nil {
		l.tell(ctx, note)
	}
}

// tell tells the client something, as its subscription.
func (l *listener) tell(ctx context.Context, note *dragoman.Message) {
	note, err := note.Edit().SetMeta(protocol.MetaSubscriptionID, []byte(l.request.ID().String())).Message()
	if err == nil && l.request.from != nil {
		_ = l.request.from.Notify(ctx, note) // who cannot be told has gone, which ctx will say
	}
}

// wants reports whether a change is to be told.
func (l *listener) wants(method string) bool {
	switch method {
	case protocol.NoteToolsChanged:
		return l.acknowledged.Tools
	case protocol.NotePromptsChanged:
		return l.acknowledged.Prompts
	case protocol.NoteResourcesChanged:
		return l.acknowledged.Resources
	}
	return true // a member was asked for it
}

// put adds a change.
func (l *listener) put(note *dragoman.Message) {
	l.queue.Put(note)
	l.signal()
}

// listChanged is the notification that a list has changed.
func listChanged(method string) *dragoman.Message {
	note, _ := dragoman.NewNotification(method, nil) // without params it cannot fail
	return note
}

// sendReminders adds changes that may have been.
func (l *listener) sendReminders(what protocol.Interest) {
	for note := range what.ChangeNotes() {
		l.put(note)
	}
}

// recheck makes the listener look whether members have what it watches.
func (l *listener) recheck() {
	l.stale.Store(true)
	l.signal()
}

func (l *listener) signal() {
	select {
	case l.wake <- struct{}{}:
	default: // awake already
	}
}

// deliver tells the client what waits, and reports whether watches are to be looked
// after.
func (l *listener) deliver(ctx context.Context) (stale bool) {
	stale = l.stale.Swap(false)
	for _, note := range l.queue.Take() {
		if l.wants(note.Method()) {
			l.tell(ctx, note)
		}
	}
	return stale
}

// bound returns no more than MaxURIs and maxURIBytes of them, each once.
func bound(names []string) (out []string) {
	seen, size := make(map[string]bool), 0
	for _, name := range names {
		if len(out) < MaxURIs && name != "" && !seen[name] && size+len(name) <= maxURIBytes {
			seen[name] = true
			size += len(name)
			out = append(out, name)
		}
	}
	return out
}

// maxHolders is how many members are tried for one resource.
const maxHolders = 4

// watchAnew is the wait before resources are watched anew after a second failure in a
// row. The first is no reason to wait.
var watchAnew = retry.Backoff{Min: 250 * time.Millisecond, Max: 10 * time.Second}

// begin watches what the client wants, and leaves out of acknowledged what nobody tells of.
func (l *listener) begin(ctx context.Context) {
	uris, tasks := bound(l.acknowledged.URIs), bound(l.acknowledged.Tasks)
	l.watchAll(ctx, uris, tasks)
	l.acknowledged.URIs = slices.DeleteFunc(uris, func(uri string) bool { return !l.covers(urisOf, uri) })
	l.acknowledged.Tasks = slices.DeleteFunc(tasks, func(id string) bool { return !l.covers(tasksOf, id) })
}

// watchAll watches resources and tasks on the members that have them.
func (l *listener) watchAll(ctx context.Context, uris, tasks []string) {
	l.group = l.aggregate.group.Load()
	r := &request{Message: l.request.Message, group: l.group}
	v := r.view(ctx)
	candidates := make(map[string][]*member, len(uris))
	for _, uri := range uris {
		may, _, err := l.aggregate.candidates(ctx, v, r, uri)
		if err != nil {
			return // ctx has ended, or we have
		}
		candidates[uri] = may
	}
	for try := 0; try < maxHolders && len(uris)+len(tasks) > 0; try++ {
		share := make(map[*member]*protocol.Interest)
		part := func(m *member) *protocol.Interest {
			if share[m] == nil {
				share[m] = new(protocol.Interest)
			}
			return share[m]
		}
		for _, uri := range uris {
			if may := candidates[uri]; try < len(may) {
				f := part(may[try])
				f.URIs = append(f.URIs, uri)
			}
		}
		for _, id := range tasks {
			if m, _ := r.group.taskOf(id); m != nil {
				f := part(m)
				f.Tasks = append(f.Tasks, id)
			}
		}
		if len(share) == 0 {
			return
		}
		var watches []*watch
		for m, f := range share {
			watches = append(watches, l.watch(ctx, m, f.URIs, f.Tasks))
		}
		l.await(ctx, watches)
		uris = slices.DeleteFunc(slices.Clone(uris), func(uri string) bool { return l.covers(urisOf, uri) })
		tasks = nil // there is but one who has them
	}
}

// run tells the client of changes until it leaves, or until we close.
func (l *listener) run(ctx context.Context) error {
	l.retry = time.NewTimer(0)
	l.retry.Stop()
	defer l.retry.Stop()
	look := time.NewTicker(tryAgain)
	defer look.Stop()
	for !l.acknowledged.Empty() {
		if l.deliver(ctx) {
			l.dropEnded()
		}
		select {
		case <-l.wake:
		case <-l.retry.C:
			l.watchAgain(ctx)
		case <-look.C:
			l.retryMembers(ctx)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.aggregate.ctx.Done():
			l.deliver(ctx)
			return nil
		}
	}
	return nil
}

// retryMembers asks members that have not said what they offer to this caller. Those that
// do now are announced: a server that callers pass something on to has nobody else who
// would notice that it has come up.
func (l *listener) retryMembers(ctx context.Context) {
	r := &request{Message: l.request.Message, group: l.aggregate.group.Load()}
	v := r.view(ctx)
	for k := range numKinds {
		if lists[k].note == "" {
			continue // nobody is notified of its changes
		}
		silent := v.missing(r.group.members, k)
		if len(silent) == 0 || !l.wants(lists[k].note) {
			continue
		}
		if l.aggregate.refresh(ctx, v, r, silent, k) != nil {
			return // ctx has ended, or we have
		}
		if len(v.missing(silent, k)) < len(silent) {
			l.put(listChanged(lists[k].note))
		}
	}
}

// dropEnded forgets watches that are over or whose member is gone, and sees to it
// that what they watched is watched anew.
func (l *listener) dropEnded() {
	g := l.aggregate.group.Load()
	lost := false
	l.watches = slices.DeleteFunc(l.watches, func(w *watch) bool {
		switch {
		case !g.has(w.member.source):
			w.cancel()
			lost = true
			return true
		case w.over():
			lost = true
			if time.Since(w.began) > watchAnew.Max {
				l.fails = 0
			}
			l.fails++
			return true
		}
		return false
	})
	if g != l.group { // who has what may be another one now
		l.group, l.fails, lost = g, 0, true
	}
	if lost {
		l.retry.Reset(watchAnew.Wait(l.fails - 1))
	}
}

// unwatched returns what is honoured but not watched at present.
func (l *listener) unwatched() (uris, tasks []string) {
	for _, uri := range l.acknowledged.URIs {
		if !l.covers(urisOf, uri) {
			uris = append(uris, uri)
		}
	}
	for _, id := range l.acknowledged.Tasks {
		if !l.covers(tasksOf, id) {
			tasks = append(tasks, id)
		}
	}
	return uris, tasks
}

// watchAgain watches anew what is not watched. What may have changed meanwhile is
// told as changed.
func (l *listener) watchAgain(ctx context.Context) {
	uris, tasks := l.unwatched()
	if len(uris)+len(tasks) == 0 {
		return
	}
	l.watchAll(ctx, uris, tasks)
	l.sendReminders(protocol.Interest{URIs: slices.DeleteFunc(uris, func(uri string) bool { return !l.covers(urisOf, uri) })})
	if uris, tasks = l.unwatched(); len(uris)+len(tasks) > 0 {
		l.fails++
		l.retry.Reset(watchAnew.Wait(l.fails - 1))
	}
}
