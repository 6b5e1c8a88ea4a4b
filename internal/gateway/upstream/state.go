package upstream

import (
	"context"
	"sync"
	"time"
)

// A State is what can be said of an upstream in a word.
type State string

// The states.
const (
	Idle       State = "idle"        // not started: it is lazy, or nobody has used it for a while
	Starting   State = "starting"    //
	Ready      State = "ready"       //
	Degraded   State = "degraded"    // it can be used, but something has failed
	BackingOff State = "backing off" // it is away, and tried again later
	SignIn     State = "sign-in needed"
	Stopped    State = "stopped"  // for good: its configuration cannot be used, or we are stopping
	Disabled   State = "disabled" // by its configuration
)

// What may happen to a server.
type trigger uint8

const (
	wanted       trigger = iota // it is to be started, or started again
	answered                    // it has answered
	troubled                    // something has failed, and it can still be used
	failed                      // it cannot be used
	unauthorized                // it wants a sign-in first
	unused                      // nobody has used it for long enough to stop it
	closed                      // it is stopped for good
)

// transitions are all changes of state that there are. What is not here changes
// nothing.
var transitions = map[State]map[trigger]State{
	Idle:       {wanted: Starting, answered: Ready, failed: BackingOff, unauthorized: SignIn, closed: Stopped},
	Starting:   {answered: Ready, failed: BackingOff, unauthorized: SignIn, unused: Idle, closed: Stopped},
	Ready:      {wanted: Starting, troubled: Degraded, failed: BackingOff, unauthorized: SignIn, unused: Idle, closed: Stopped},
	Degraded:   {wanted: Starting, answered: Ready, failed: BackingOff, unauthorized: SignIn, unused: Idle, closed: Stopped},
	BackingOff: {wanted: Starting, answered: Ready, unauthorized: SignIn, unused: Idle, closed: Stopped},
	SignIn:     {wanted: Starting, answered: Ready, failed: BackingOff, unused: Idle, closed: Stopped},
}

// on changes the state, if something that has happened does. The caller holds mu.
func (s *supervisor) on(h trigger) {
	next, ok := transitions[s.state][h]
	if ok && next != s.state {
		s.state, s.since = next, time.Now()
	}
	s.stable.Store(s.state == Ready && s.failures == 0)
}

// current returns the state, and since when it is so.
func (s *supervisor) current() (State, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, s.since
}

// sleep waits for a time, or for a change. The error is that of ctx.
func sleep(ctx context.Context, d time.Duration, changed <-chan struct{}) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-changed:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// A broadcast wakes all who wait for a change. Who wants to miss none calls wait
// before it looks.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{}
}

// wait returns a channel that the next fire closes.
func (s *broadcast) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

func (s *broadcast) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}
