package syncs

import "sync"

// A Group counts the goroutines of their owner. None is added after the end. The
// zero value is ready to use.
type Group struct {
	mu    sync.Mutex
	ended bool
	group sync.WaitGroup
}

// Start runs f on a goroutine of its own, unless we are at the end. It tells
// whether it does.
func (g *Group) Start(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return false
	}
	g.group.Go(f)
	return true
}

// End keeps new ones from starting.
func (g *Group) End() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
}

// Wait waits for all of them, and keeps new ones from starting.
func (g *Group) Wait() {
	g.End()
	g.group.Wait()
}
