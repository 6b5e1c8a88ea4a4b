package jsonrpc

import (
	"sync"
	"sync/atomic"
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
		if !w.park(c) {
			return
		}
		f = <-c // nil when it is closed
	}
}

// park adds a goroutine to the idle ones.
func (w *workers) park(c chan func()) bool {
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

const (
	// inlineLimit is how long serving a request may take to count as quick.
	inlineLimit = 50 * time.Microsecond

	// inlineAfter is how many requests in a row must have been quick before the
	// goroutine that reads serves the next itself and reads on afterwards.
	inlineAfter = 16

	// watchInterval is how often watchReader looks whether that goroutine is stuck.
	watchInterval = time.Millisecond
)

// inlineServing lets the goroutine that reads serve requests as long as they are quick.
// To hand the reading over for each costs more than such a request does: another thread
// has to be woken. If one takes longer after all, another goroutine takes over the
// reading, after two intervals of watchReader at most, and the row starts over.
type inlineServing struct {
	row     atomic.Int32  // quick requests in a row
	epoch   atomic.Uint64 // odd while the goroutine that reads serves a request
	watched atomic.Bool   // watchReader runs
}

// hasBuffered reports whether the next message is waiting already. Then others should
// serve it meanwhile, and the answers go out together.
func (c *Conn) hasBuffered() bool {
	b, ok := c.stream.(interface{ Buffered() int })
	return ok && b.Buffered() > 0
}

// serveNow serves a request on the goroutine that has read it, and reports
// whether that goroutine reads on.
func (c *Conn) serveNow(serve func()) bool {
	q := &c.inline
	here := q.row.Load() >= inlineAfter && !c.hasBuffered()
	var epoch uint64
	if here {
		epoch = q.epoch.Add(1)
		c.startWatch()
	} else {
		c.workers.do(c.reading)
	}
	begin := time.Now()
	serve()
	if time.Since(begin) <= inlineLimit {
		q.row.Add(1)
	} else {
		q.row.Store(0)
	}
	return here && q.epoch.CompareAndSwap(epoch, epoch+1)
}

// startWatch makes sure that watchReader runs.
func (c *Conn) startWatch() {
	if c.inline.watched.Load() || !c.inline.watched.CompareAndSwap(false, true) {
		return
	}
	// Ends when nothing has been served for a while, or with the conversation.
	go c.watchReader()
}

// watchReader takes the reading over from a goroutine that is still at the same
// request when it looks again.
func (c *Conn) watchReader() {
	q := &c.inline
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	last, still := uint64(0), 0
	for {
		over := false
		select {
		case <-tick.C:
		case <-c.done:
			over = true
		}
		epoch := q.epoch.Load()
		if epoch%2 == 1 && (epoch == last || over) && q.epoch.CompareAndSwap(epoch, epoch+1) {
			q.row.Store(0)
			c.workers.do(c.reading)
		}
		if over {
			return
		}
		if epoch != last {
			last, still = epoch, 0
			continue
		}
		if still++; still < 100 {
			continue
		}
		// A goroutine that began to serve before this has changed epoch already; one
		// that begins after it starts another watchReader.
		q.watched.Store(false)
		if q.epoch.Load() == epoch || !q.watched.CompareAndSwap(false, true) {
			return
		}
		still = 0
	}
}
