package manager

import (
	"context"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// relisten is the wait before a subscription that has ended is opened again.
const relisten = time.Second

// waitForUse waits until somebody wants the server. It tells whether that is so: not
// if the instance is at its end.
func (i *instance) waitForUse() bool {
	for {
		var late <-chan time.Time
		if i.passed != nil {
			late = time.After(i.idleTime())
		}
		select {
		case <-i.wake:
			return true
		case <-i.ctx.Done():
			return false
		case <-late:
			if i.up.retire(i, i.idleTime()) {
				return false
			}
		}
	}
}

// idleTime is how long the server may be unused; zero means for ever.
func (i *instance) idleTime() time.Duration {
	if i.passed != nil && i.up.set.idle == 0 {
		return InstanceIdle
	}
	return i.up.set.idle
}

// attend looks after a server that has been started, until it is lost or stopped. It
// tells whether it is to be started again without being asked for.
func (i *instance) attend() (again bool) {
	ctx, cancel := context.WithCancel(dragoman.WithCaller(i.ctx, attendant))
	defer cancel()
	a := &attendance{instance: i, notes: make(chan string, len(kinds))}
	if i.attended() {
		a.begin(ctx)
		defer func() {
			cancel()
			a.wait()
		}()
	}
	for {
		changed := i.keeper.signal.wait()
		i.mu.Lock()
		restart := i.round != i.begun
		i.mu.Unlock()
		switch {
		case i.ctx.Err() != nil:
			return false
		case i.keeper.down():
			return !i.up.set.lazy
		case restart:
			return true
		}
		if !a.next(ctx, changed) {
			return false
		}
	}
}

// An attendance is the time of an attendant with a server.
type attendance struct {
	*instance
	notes chan string   // what the subscription tells
	ended chan struct{} // closed when it has ended; nil if there is none
	pulse *time.Timer   // the next look at the health; nil if there is none
	later <-chan time.Time
}

// begin opens the subscription, and then gets the lists, so that no change is missed.
func (a *attendance) begin(ctx context.Context) {
	u := a.up
	a.mu.Lock()
	tell := a.visits > 1
	a.mu.Unlock()
	u.event(nil, "it is ready, and speaks the "+a.era.String()+" era")
	a.listen(ctx)
	u.lists.begin(tell)
	if a.looks() {
		a.pulse = time.NewTimer(u.set.interval)
	}
}

// wait waits for the subscription to end.
func (a *attendance) wait() {
	if a.pulse != nil {
		a.pulse.Stop()
	}
	if a.ended != nil {
		<-a.ended
	}
}

// next waits for the next thing to do, and does it. It tells whether to go on.
func (a *attendance) next(ctx context.Context, changed <-chan struct{}) bool {
	var beat, idle <-chan time.Time
	if a.pulse != nil {
		beat = a.pulse.C
	}
	if limit := a.idleTime(); limit > 0 {
		t := time.NewTimer(max(limit-a.unused(), time.Millisecond))
		defer t.Stop()
		idle = t.C
	}
	var dirty <-chan struct{}
	if a.attended() {
		dirty = a.up.lists.dirty
	}
	select {
	case <-ctx.Done():
		return false
	case <-changed:
	case note := <-a.notes:
		a.up.lists.want(note, true)
	case <-dirty:
		a.up.refresh(ctx, a.server.Main())
	case <-a.ended:
		a.ended, a.later = nil, time.After(relisten)
	case <-a.later:
		a.later = nil
		a.listen(ctx)
	case <-beat:
		a.look(ctx)
		a.pulse.Reset(a.up.set.interval)
	case <-idle:
		if a.passed != nil {
			return !a.up.retire(a.instance, a.idleTime())
		}
		return !a.sleep()
	}
	return true
}

// listen opens a subscription to the changes that the server tells of.
func (a *attendance) listen(ctx context.Context) {
	filter := make(map[string]bool)
	a.up.lists.mu.Lock()
	for _, k := range kinds {
		if a.up.lists.changes[k.capability] {
			filter[k.capability+"ListChanged"] = true
		}
	}
	a.up.lists.mu.Unlock()
	if len(filter) == 0 {
		return
	}
	req, err := a.up.request(protocol.MethodListen, map[string]any{"notifications": filter})
	if err != nil {
		return
	}
	ended := make(chan struct{})
	a.ended = ended
	// Ends with ctx, or with the server.
	go func() {
		defer close(ended)
		_, _ = a.server.Main().Call(ctx, req, dragoman.Funcs{OnNotify: a.told}) // how it ends says the keeper
	}()
}

// told takes what the subscription tells.
func (a *attendance) told(ctx context.Context, note *dragoman.Message) error {
	switch method := note.Method(); method {
	case protocol.NoteToolsChanged, protocol.NotePromptsChanged, protocol.NoteResourcesChanged:
		select {
		case a.notes <- method:
		case <-ctx.Done():
		}
	}
	return nil
}

// sleep stops a server that nobody has used for a while. It tells whether it did.
func (i *instance) sleep() bool {
	i.mu.Lock()
	ok := i.users == 0 && time.Since(i.used) >= i.idleTime()
	i.asleep, i.stopping = i.asleep || ok, ok
	if ok {
		i.keeper.setAsleep(true)
	}
	i.mu.Unlock()
	if !ok {
		return false
	}
	i.up.event(i.passed, "nobody uses it, so it is stopped")
	i.keeper.hangUp(nil, true)
	i.mu.Lock()
	i.stopping = false
	i.mu.Unlock()
	i.keeper.signal.fire()
	return true
}
