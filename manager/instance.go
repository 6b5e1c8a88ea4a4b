package manager

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/target"
)

// An instance is the server of an upstream as it is for some callers: for those who
// pass on the same values. Most upstreams have but one.
//
// One goroutine, run, starts the server and looks after it.
type instance struct {
	up     *Upstream
	passed *passed // nil for the main one
	target *target.Target
	keeper *keeper
	server *era.Server
	ctx    context.Context // ends with close
	cancel context.CancelFunc
	done   chan struct{} // closed when run has ended
	wake   chan struct{} // holds one token when somebody wants the server

	mu       sync.Mutex
	started  bool // a start has succeeded
	era      protocol.Era
	starting bool
	since    time.Time // when that began
	asleep   bool      // stopped, because nobody used it
	tries    int       // starts that failed
	visits   int       // starts that did not
	round    int       // restarts that were asked for
	begun    int       // those of them before the last start
	sick     int       // failed looks at its health, in a row
	users    int       // requests under way
	used     time.Time
	stopping bool                       // on its way to being asleep
	guests   map[*conversation]struct{} // of clients, open or not
	swept    int                        // at how many guests those are forgotten that have gone
}

func (u *Upstream) newInstance(p *passed) (*instance, error) {
	t, err := u.newTarget(p)
	if err != nil {
		return nil, err
	}
	return u.instanceOf(t, p), nil
}

// instanceOf makes an instance, which begin brings to life.
func (u *Upstream) instanceOf(t *target.Target, p *passed) *instance {
	i := &instance{
		up: u, passed: p, target: t, keeper: newKeeper(t.Dialer, &u.set),
		done: make(chan struct{}), wake: make(chan struct{}, 1),
		starting: !u.set.lazy, since: time.Now(), used: time.Now(), guests: make(map[*conversation]struct{}),
	}
	i.ctx, i.cancel = context.WithCancel(context.Background())
	i.keeper.note = func(what string) { u.event(p, what) }
	i.keeper.refuse = func() refusal { return refusal{Server: u.name, State: BackingOff, Stderr: u.logs.lastStderr()} }
	i.keeper.explain = func(err error) string { return u.clean(p, err) }
	i.server = i.newServer()
	return i
}

// begin begins to look after the server.
func (i *instance) begin() {
	go i.run() // ends with close
}

// run starts the server when it is wanted, and again when it was lost.
func (i *instance) run() {
	defer close(i.done)
	wanted := !i.up.set.lazy
	for i.ctx.Err() == nil {
		if !wanted && !i.waitForUse() {
			return
		}
		wanted = !i.up.set.lazy
		if !i.keeper.pace(i.ctx) {
			return
		}
		if i.start() == nil {
			wanted = i.attend()
		}
	}
}

// want has the server started, if it is not.
func (i *instance) want() {
	select {
	case i.wake <- struct{}{}:
	default:
	}
}

// enter counts a request that uses the instance.
func (i *instance) enter() {
	i.mu.Lock()
	i.users++
	asleep := i.asleep
	i.asleep = false
	if asleep {
		i.keeper.setAsleep(false)
	}
	i.mu.Unlock()
	if asleep {
		i.want() // so that the attendant comes back too
	}
}

func (i *instance) leave() {
	i.mu.Lock()
	i.users--
	i.used = time.Now()
	i.mu.Unlock()
}

// unused returns for how long nobody has used it; zero if somebody does.
func (i *instance) unused() time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.users > 0 {
		return 0
	}
	return time.Since(i.used)
}

// close ends everything: the goroutine, then the conversations, then the children.
func (i *instance) close() error {
	i.cancel()
	<-i.done
	err := i.server.Close()
	i.keeper.hangUp(nil, true) // nothing is left, unless era has forgotten it
	i.keeper.close()
	if errors.Is(err, dragoman.ErrClosed) {
		err = nil
	}
	return err
}
