package aggregate

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	// firstBackoff is the wait before resources are watched anew after a second
	// failure in a row. It doubles with each, up to maxBackoff, less some jitter.
	firstBackoff = 250 * time.Millisecond
	maxBackoff   = 10 * time.Second

	// maxHolders is how many members are tried for one resource.
	maxHolders = 4
)

// begin watches what the client wants, and leaves out of kept what nobody tells of.
func (l *listener) begin(ctx context.Context) {
	uris, tasks := bound(l.kept.URIs), bound(l.kept.Tasks)
	l.place(ctx, uris, tasks)
	l.kept.URIs = slices.DeleteFunc(uris, func(uri string) bool { return !l.covers(urisOf, uri) })
	l.kept.Tasks = slices.DeleteFunc(tasks, func(id string) bool { return !l.covers(tasksOf, id) })
}

// place watches resources and tasks on the members that have them.
func (l *listener) place(ctx context.Context, uris, tasks []string) {
	l.group = l.aggregate.group.Load()
	r := &request{Message: l.request.Message, group: l.group}
	b := r.group.book(callerOf(ctx))
	holders := make(map[string][]*member, len(uris))
	for _, uri := range uris {
		may, _, err := l.aggregate.holders(ctx, b, r, uri)
		if err != nil {
			return // ctx has ended, or we have
		}
		holders[uri] = may
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
			if may := holders[uri]; try < len(may) {
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
	for !l.kept.Empty() {
		if l.deliver(ctx) {
			l.reap()
		}
		select {
		case <-l.wake:
		case <-l.retry.C:
			l.mend(ctx)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.aggregate.ctx.Done():
			l.deliver(ctx)
			return nil
		}
	}
	return nil
}

// reap forgets watches that are over or whose member is gone, and sees to it that
// what they watched is watched anew.
func (l *listener) reap() {
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
			if time.Since(w.began) > maxBackoff {
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
		l.retry.Reset(l.backoff())
	}
}

// uncovered returns what is honoured but not watched at present.
func (l *listener) uncovered() (uris, tasks []string) {
	for _, uri := range l.kept.URIs {
		if !l.covers(urisOf, uri) {
			uris = append(uris, uri)
		}
	}
	for _, id := range l.kept.Tasks {
		if !l.covers(tasksOf, id) {
			tasks = append(tasks, id)
		}
	}
	return uris, tasks
}

// mend watches anew what is not watched. What may have changed meanwhile is told as
// changed.
func (l *listener) mend(ctx context.Context) {
	uris, tasks := l.uncovered()
	if len(uris)+len(tasks) == 0 {
		return
	}
	l.place(ctx, uris, tasks)
	for _, uri := range uris {
		if l.covers(urisOf, uri) {
			l.put(change{method: protocol.NoteResourceUpdated, about: uri})
		}
	}
	if uris, tasks = l.uncovered(); len(uris)+len(tasks) > 0 {
		l.fails++
		l.retry.Reset(l.backoff())
	}
}

// backoff returns how long to wait after the failures there have been.
func (l *listener) backoff() time.Duration {
	if l.fails < 2 {
		return 0
	}
	d := min(firstBackoff<<min(l.fails-2, 8), maxBackoff)
	return d - rand.N(d/4+1)
}
