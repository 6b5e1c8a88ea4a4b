package manager

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A keeper is a server's dialer as era has it. It knows every conversation, and
// what became of it; after a failure it makes those who dial wait.
//
// A failure is a conversation that does not open, or that ends without our having
// closed it, or a request that does not reach the server. What fails together
// counts once.
type keeper struct {
	dialer  dragoman.Dialer
	set     *settings
	signal  *signal                // fired when anything here changes
	note    func(what string)      // is told what happens; never while mu is held
	refuse  func() refusal         // begins the error of who is turned away
	explain func(error) string     // an error without secrets
	heard   atomic.Int64           // when the server last answered, in nanoseconds
	past    atomic.Int64           // incidents: failures ever; what began before one has part in it. Added to under mu
	rev     atomic.Pointer[[]byte] // the revision that a legacy server answered with, as JSON
	busy    sync.WaitGroup         // one goroutine for each conversation

	mu       sync.Mutex
	closed   bool
	asleep   bool // stopped because nobody uses it, and to stay so until somebody does
	open     map[*kept]struct{}
	failures int           // in a row, until the server answers again
	next     time.Time     // nothing is tried before, if there are failures
	pause    time.Duration // how long that was after the last failure
	met      bool          // the server has answered since it was last asleep
	breaker  breaker
	last     error // why, of the last failure
	restarts int   // conversations that were opened after failures
}

func newKeeper(d dragoman.Dialer, set *settings) *keeper {
	return &keeper{
		dialer: d, set: set, signal: new(signal), open: make(map[*kept]struct{}),
		breaker: breaker{max: set.starts, window: set.window, cool: set.max},
		note:    func(string) {}, refuse: func() refusal { return refusal{} }, explain: error.Error,
	}
}

// Dial implements dragoman.Dialer. It fails at once while the breaker is open.
func (k *keeper) Dial(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error) {
	limit := time.Now().Add(MaxOutage)
	for attempt := 1; ; attempt++ {
		if err := k.turn(ctx, limit); err != nil {
			return nil, err
		}
		c := k.begin()
		conn, err := k.dialer.Dial(ctx, local)
		if err == nil {
			return k.opened(c, conn)
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if errors.Is(err, dragoman.ErrClosed) && ctx.Err() != nil {
			return nil, err // whoever dialled has gone
		}
		k.failed(c.since, c.born, err)
		if attempt >= k.set.attempts || ctx.Err() != nil {
			return nil, k.turnedAway()
		}
	}
}

// failed notes a failure of what began after so many incidents, then.
func (k *keeper) failed(since int, born time.Time, err error) {
	k.mu.Lock()
	text, news := "", k.fail(since, born, err)
	if news {
		text = k.outlook()
	}
	k.mu.Unlock()
	if news {
		k.note(text)
	}
	k.signal.fire()
}

// fail is failed without telling. It tells whether this was not known. The caller
// holds mu.
func (k *keeper) fail(since int, born time.Time, err error) bool {
	if k.closed {
		return false
	}
	if since < k.age() && k.failures > 0 {
		return false // part of the failure that is known
	}
	now := time.Now()
	k.last = err
	k.past.Add(1)
	k.failures++
	_, asked, _ := statusOf(err)
	k.pause = max(k.set.backoff(k.failures), asked)
	k.next = now.Add(k.pause)
	k.breaker.count(born, now)
	return true
}

// outlook says what happened last, and what comes next. The caller holds mu.
func (k *keeper) outlook() string {
	wait := k.due(time.Now()).Round(time.Millisecond).String()
	if k.breaker.open() {
		return "it keeps failing and is left alone for " + wait + ": " + k.explain(k.last)
	}
	return "it is away, and tried again in " + wait + ": " + k.explain(k.last)
}

// works notes that the server has answered, on a conversation that began after the
// last failure or had part in it.
func (k *keeper) works(c *kept) {
	k.mu.Lock()
	k.met = true
	was := k.failures
	if c.since == k.age() || c.faulty.Load() {
		k.failures = 0
		k.breaker.close()
		for other := range k.open {
			other.faulty.Store(false)
		}
	}
	c.faulty.Store(false)
	c.proven.Store(true)
	now := k.failures
	k.mu.Unlock()
	if was > 0 && now == 0 {
		k.note("it is back")
	}
	k.signal.fire()
}

// turnedAway is the error of who comes while the server is away.
func (k *keeper) turnedAway() *dragoman.Error {
	r := k.refuse()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last != nil {
		r.Reason = k.explain(k.last)
	}
	return r.unavailable(k.due(time.Now()))
}

// healthy tells whether there is a conversation on which the server answers. The
// caller holds mu.
func (k *keeper) healthy() bool {
	for c := range k.open {
		if c.proven.Load() && !c.faulty.Load() && c.Err() == nil {
			return true
		}
	}
	return false
}

// down tells whether the server is away for everybody.
func (k *keeper) down() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.failures > 0 && !k.healthy()
}

// reset forgets all failures.
func (k *keeper) reset() {
	k.mu.Lock()
	k.failures = 0
	k.breaker.close()
	k.mu.Unlock()
	k.signal.fire()
}

// close ends the keeper: nothing can be dialled from now on. It waits for the
// conversations, which somebody else closes.
func (k *keeper) close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.signal.fire()
	k.busy.Wait()
}

// isHandshake tells whether a request must be answered within the time that a
// server has to start.
func isHandshake(method string) bool {
	return method == protocol.MethodInitialize || method == protocol.MethodDiscover
}
