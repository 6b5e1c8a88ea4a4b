package mux

import (
	"sync"
	"time"
)

// idleFor is about how long a goroutine that served a request waits for
// another before it ends.
const idleFor = time.Second

// workers are the goroutines that serve requests, one each. They are kept for a
// while because their stacks have grown to what serving takes, and to grow a
// new one costs more than all else that is done for a request.
type workers struct {
	mu     sync.Mutex
	idle   []chan func() // the longest idle first
	low    int           // the fewest idle ones since the last sweep
	timer  *time.Timer   // sweeps; nil while nobody is idle
	closed bool
}

// do runs f, if it is not nil, on a goroutine of its own.
func (w *workers) do(f func()) {
	if f == nil {
		return
	}
	w.mu.Lock()
	n := len(w.idle)
	if n == 0 {
		w.mu.Unlock()
		// Ends when it has been idle for a while, or with the conversation.
		go w.work(f)
		return
	}
	c := w.idle[n-1]
	w.idle = w.idle[:n-1]
	w.low = min(w.low, n-1)
	w.mu.Unlock()
	c <- f
}

func (w *workers) work(f func()) {
	c := make(chan func(), 1)
	for f != nil {
		f()
		if !w.rest(c) {
			return
		}
		f = <-c // nil when it is closed
	}
}

// rest adds a goroutine to the idle ones.
func (w *workers) rest(c chan func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.idle = append(w.idle, c)
	if w.timer == nil {
		w.low = 0
		w.timer = time.AfterFunc(idleFor, w.sweep)
	}
	return true
}

// sweep ends those that have been idle since the last time.
func (w *workers) sweep() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.idle[:w.low] {
		close(c)
	}
	w.idle = append(w.idle[:0], w.idle[w.low:]...)
	w.low = len(w.idle)
	if w.low == 0 || w.closed {
		w.timer = nil
		return
	}
	w.timer.Reset(idleFor)
}

// close ends all that are idle now or later.
func (w *workers) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, c := range w.idle {
		close(c)
	}
	w.idle = nil
	w.low = 0
	if w.timer != nil {
		w.timer.Stop()
	}
}
