package manager

import "github.com/dragoman-mcp/dragoman"

// changed takes what a conversation of somebody's tells of changed lists.
func (u *Upstream) changed(whose *dragoman.Caller, note string) {
	if u.set.passes {
		u.announce(note) // each caller has lists of its own
		return
	}
	if whose != attendant && !u.set.sessionsShare {
		u.lists.differs(note)
	}
	u.lists.want(note, true)
}

// OnChange has f called when lists of the server may have changed, with the method
// of the notification that says so. f must not block.
func (u *Upstream) OnChange(f func(note string)) (stop func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	key := new(int)
	u.ears[key] = f
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.ears, key)
	}
}

// announce tells who wants to know that lists may have changed.
func (u *Upstream) announce(note string) {
	u.mu.Lock()
	ears := make([]func(string), 0, len(u.ears))
	for _, f := range u.ears {
		ears = append(ears, f)
	}
	u.mu.Unlock()
	for _, f := range ears {
		f(note)
	}
}
