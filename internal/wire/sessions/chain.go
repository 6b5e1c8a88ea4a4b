package sessions

import "sync"

// A Link is a server in a row of those that take each other's places. While one takes
// the place of another, both may have a session of the same id: the old one finishes
// the calls that it has begun, and the client speaks to the new one already.
type Link[T any] struct {
	Server T

	mu     sync.Mutex
	before *Link[T] // nil once that has ended
	ended  bool
}

// Follow says whose place this one takes.
func (l *Link[T]) Follow(before *Link[T]) {
	l.mu.Lock()
	l.before = before
	l.mu.Unlock()
	l.last() // forgets those that have ended, or each would hold all before it
}

// End says that the server has nothing left to finish.
func (l *Link[T]) End() {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.last() // as Follow
}

// Before calls f with the servers whose place this one has taken and that have
// something to finish, newest first, until f reports that this was the one. It reports
// whether one was.
func (l *Link[T]) Before(f func(T) bool) bool {
	for o := l.last(); o != nil; o = o.last() {
		if f(o.Server) {
			return true
		}
	}
	return false
}

// last returns the one before that has not ended, and forgets those that have.
func (l *Link[T]) last() *Link[T] {
	l.mu.Lock()
	o := l.before
	l.mu.Unlock()
	for o != nil && o.hasEnded() {
		o = o.last()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.before = o
	return o
}

func (l *Link[T]) hasEnded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}
