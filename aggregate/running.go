package aggregate

import "sync"

// running counts our goroutines. None is added after the end.
type running struct {
	mu    sync.Mutex
	ended bool
	group sync.WaitGroup
}

// start runs f on a goroutine of its own, unless we are at the end.
func (r *running) start(f func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return false
	}
	r.group.Go(f)
	return true
}

// wait waits for all of them, and keeps new ones from starting.
func (r *running) wait() {
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	r.group.Wait()
}
