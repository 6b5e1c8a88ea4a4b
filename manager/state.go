package manager

import "time"

// A State is what can be said of an upstream in a word.
type State string

// The states.
const (
	Idle       State = "idle"        // not started: it is lazy, or nobody has used it for a while
	Starting   State = "starting"    // for the first time
	Ready      State = "ready"       //
	Degraded   State = "degraded"    // it can be used, but something has failed
	BackingOff State = "backing off" // it is away, and tried again later
	Stopped    State = "stopped"     // for good: its configuration cannot be used, or we are stopping
	Disabled   State = "disabled"    // by its configuration
)

// State returns the upstream's state.
func (u *Upstream) State() State {
	switch {
	case u.conf.Load().Disabled:
		return Disabled
	case u.broken != nil || u.draining.Load():
		return Stopped
	case !u.set.passes:
		return u.main.state()
	}
	best := Idle
	for _, i := range u.all() {
		if s := i.state(); rank[s] > rank[best] {
			best = s
		}
	}
	return best
}

// rank orders the states of instances: the upstream's is the highest.
var rank = map[State]int{Idle: 0, BackingOff: 1, Starting: 2, Degraded: 3, Ready: 4}

func (i *instance) state() State {
	i.mu.Lock()
	defer i.mu.Unlock()
	k := i.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	switch failing := k.failures > 0; {
	case failing && !k.healthy():
		return BackingOff
	case failing && k.due(time.Now()) > 0, i.sick > 0:
		return Degraded
	case i.starting:
		return Starting
	case !i.started || i.asleep:
		return Idle
	}
	return Ready
}

// since returns when a state, which is the current one, was first seen.
func (u *Upstream) since(s State) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.seen != s {
		u.seen, u.seenAt = s, time.Now()
	}
	return u.seenAt
}
