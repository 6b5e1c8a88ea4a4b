package mux

import (
	"sync/atomic"
	"time"
)

const (
	// quickly is how long serving a request may take to count as quick.
	quickly = 50 * time.Microsecond

	// quickRow is how many requests in a row must have been quick before the
	// goroutine that reads serves the next itself and reads on afterwards.
	quickRow = 16

	// lookEvery is how often somebody looks whether that goroutine is stuck.
	lookEvery = time.Millisecond
)

// quick lets the goroutine that reads serve requests as long as they take next
// to no time. To hand the reading over for each costs more than such a request
// does: another thread has to be woken. If one takes longer after all, the
// reading is taken over from that goroutine, within two looks, and the row
// begins anew.
type quick struct {
	row     atomic.Int32  // quick requests in a row
	turn    atomic.Uint64 // odd while the goroutine that reads serves a request
	watched atomic.Bool   // somebody looks at turn
}

// more tells whether the next message is waiting already. Then others should
// serve it meanwhile, and the answers go out together.
func (c *Conn) more() bool {
	b, ok := c.stream.(interface{ Buffered() int })
	return ok && b.Buffered() > 0
}

// serveNow serves a request on the goroutine that has read it, and tells
// whether that goroutine reads on.
func (c *Conn) serveNow(serve func()) bool {
	q := &c.quick
	here := q.row.Load() >= quickRow && !c.more()
	var turn uint64
	if here {
		turn = q.turn.Add(1)
		c.watch()
	} else {
		c.workers.do(c.reading)
	}
	begin := time.Now()
	serve()
	if time.Since(begin) <= quickly {
		q.row.Add(1)
	} else {
		q.row.Store(0)
	}
	return here && q.turn.CompareAndSwap(turn, turn+1)
}

// watch makes sure that somebody looks at turn.
func (c *Conn) watch() {
	if c.quick.watched.Load() || !c.quick.watched.CompareAndSwap(false, true) {
		return
	}
	// Ends when nothing has been served for a while, or with the conversation.
	go c.look()
}

func (c *Conn) look() {
	q := &c.quick
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	last, still := uint64(0), 0
	for {
		over := false
		select {
		case <-tick.C:
		case <-c.done:
			over = true
		}
		turn := q.turn.Load()
		if turn%2 == 1 && (turn == last || over) && q.turn.CompareAndSwap(turn, turn+1) {
			q.row.Store(0)
			c.workers.do(c.reading)
		}
		if over {
			return
		}
		if turn != last {
			last, still = turn, 0
			continue
		}
		if still++; still < 100 {
			continue
		}
		// Whoever began to serve before this has changed turn already; whoever
		// begins after it starts another look.
		q.watched.Store(false)
		if q.turn.Load() == turn || !q.watched.CompareAndSwap(false, true) {
			return
		}
		still = 0
	}
}
