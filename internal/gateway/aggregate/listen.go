package aggregate

import (
	"context"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/retry"
	"github.com/dragoman-mcp/dragoman/internal/wire/subscription"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// MaxListens is how many subscriptions there may be at a time, of all callers. More are
// refused with -31004.
const MaxListens = 16384

// A listener is the subscription of a client, and what it watches on members.
type listener struct {
	*subscription.Listen
	aggregate *Aggregate
	request   *request

	// Of the goroutine that serves it.
	group   *group      // that the members are of
	watches []*watch    // on members
	fails   int         // to watch what must be watched, in a row
	retry   *time.Timer // fires when that is to be tried again
}

// listen serves a subscription on the goroutine that brought it.
func (a *Aggregate) listen(ctx context.Context, r *request, _ kind) (*dragoman.Message, error) {
	in, refused := subscription.NewListen(r.Message, r.from)
	if refused != nil {
		return r.Fail(refused), nil
	}
	r = &request{Message: r.Message, from: r.from} // members come and go meanwhile
	l := &listener{Listen: in, aggregate: a, request: r}
	if !a.listens.Add(in, MaxListens) { // from here on nothing is missed
		return r.Fail(protocol.Overloaded("too many subscriptions are open; end one before you open another")), nil
	}
	defer func() {
		a.listens.Remove(in)
		if n := in.Dropped(); n > 0 {
			a.log.Warn("notifications of a subscription dropped", "dropped", n)
		}
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends what is watched on members
	l.begin(ctx)
	l.Acknowledge(ctx)
	if err := l.run(ctx); err != nil {
		return nil, err
	}
	return l.Response().Edit().SetMeta(protocol.MetaServerInfo, a.info).Message()
}

// remind adds changes that may have been.
func (l *listener) remind(what protocol.Interest) {
	for note := range what.ChangeNotes() {
		l.Offer(note)
	}
}

// maxHolders is how many members are tried for one resource.
const maxHolders = 4

// watchAnew is the wait before resources are watched again after a second failure in a
// row. The first is no reason to wait.
var watchAnew = retry.Backoff{Min: 250 * time.Millisecond, Max: 10 * time.Second}

// begin watches what the client wants, and honors what members do.
func (l *listener) begin(ctx context.Context) {
	l.watchAll(ctx, l.Wanted.URIs, l.Wanted.Tasks)
	l.Honored = l.Wanted
	l.Honored.URIs = slices.DeleteFunc(slices.Clone(l.Wanted.URIs), func(uri string) bool { return !l.covers(urisOf, uri) })
	l.Honored.Tasks = slices.DeleteFunc(slices.Clone(l.Wanted.Tasks), func(id string) bool { return !l.covers(tasksOf, id) })
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
	for !l.Honored.Empty() {
		l.dropEnded()
		l.Deliver(ctx, nil)
		select {
		case <-l.Wake():
		case <-l.retry.C:
			l.watchAgain(ctx)
		case <-look.C:
			l.retryMembers(ctx)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.aggregate.ctx.Done():
			l.Deliver(ctx, nil)
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
		if lists[k].note == "" || !l.Wants(subscription.ListChanged(lists[k].note)) {
			continue
		}
		silent := v.missing(r.group.members, k)
		if len(silent) == 0 {
			continue
		}
		if l.aggregate.refresh(ctx, v, r, silent, k) != nil {
			return // ctx has ended, or we have
		}
		if len(v.missing(silent, k)) < len(silent) {
			l.Put(subscription.ListChanged(lists[k].note))
		}
	}
}

// dropEnded forgets watches that are over or whose member is gone, and sees to it
// that what they watched is watched again.
func (l *listener) dropEnded() {
	g := l.aggregate.group.Load()
	lost := false
	l.watches = slices.DeleteFunc(l.watches, func(w *watch) bool {
		switch {
		case g != l.group && !g.has(w.member.source):
			w.Cancel()
			lost = true
			return true
		case w.HasEnded():
			lost = true
			if time.Since(w.Opened) > watchAnew.Max {
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
	for _, uri := range l.Honored.URIs {
		if !l.covers(urisOf, uri) {
			uris = append(uris, uri)
		}
	}
	for _, id := range l.Honored.Tasks {
		if !l.covers(tasksOf, id) {
			tasks = append(tasks, id)
		}
	}
	return uris, tasks
}

// watchAgain watches again what is not watched. What may have changed meanwhile is
// told as changed.
func (l *listener) watchAgain(ctx context.Context) {
	uris, tasks := l.unwatched()
	if len(uris)+len(tasks) == 0 {
		return
	}
	l.watchAll(ctx, uris, tasks)
	l.remind(protocol.Interest{URIs: slices.DeleteFunc(uris, func(uri string) bool { return !l.covers(urisOf, uri) })})
	if uris, tasks = l.unwatched(); len(uris)+len(tasks) > 0 {
		l.fails++
		l.retry.Reset(watchAnew.Wait(l.fails - 1))
	}
}
