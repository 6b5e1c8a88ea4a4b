package upstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A supervisor keeps one server running. It is the dialer through which era reaches
// the server, so it knows every conversation and what became of it; and it has a
// conversation of its own, in which one goroutine starts the server, keeps its lists
// and looks after its health.
//
// Where callers pass values on to the server there is nothing to look after on
// nobody's behalf, and a server that stands alone is its clients' only: such a server
// is unsupervised, and what its clients' conversations come to is all that is known.
type supervisor struct {
	up         *Upstream
	set        *settings
	server     *era.Server
	requests   dragoman.Peer  // the server's endpoint for requests of the modern era
	client     *client.Client // ours, in the conversation of our own if it is supervised
	supervised bool
	changed    broadcast       // fired when anything here changes
	ctx        context.Context // ends with close
	cancel     context.CancelFunc
	done       chan struct{} // closed when run has ended
	wake       chan struct{} // holds one token when somebody wants the server
	busy       sync.WaitGroup
	tick       atomic.Int64 // counts half intervals of the looks at its health
	lastAnswer atomic.Int64 // in which of them the server last answered
	stable     atomic.Bool  // it is ready and nothing fails, so that an answer changes nothing

	mu           sync.Mutex
	state        State
	since        time.Time // when the state began
	conns        map[*conn]struct{}
	dialing      map[*conn]struct{} // not open yet
	main         *conn              // the last that was opened for ourselves
	era          protocol.Era
	hasAnswered  bool // the server has answered since it was last stopped for want of use
	hasReplied   bool // the server has refused a first request at least
	stoppedIdle  bool // it was stopped because nobody used it, and nothing is dialled until somebody does
	stopping     bool // its conversations are being closed for a restart
	round        int  // restarts that were asked for
	begun        int  // those of them before the last start
	starts       int  // that succeeded, and no restart was asked for meanwhile
	attempts     int  // that did not
	starting     time.Time
	failedChecks int // failed looks at its health, in a row
	users        int // requests in flight
	used         time.Time

	failures      int           // in a row, until the server answers again
	totalFailures int           // failures there have been
	failedAt      time.Time     // the last of them; what began before has part in it
	signedInAt    time.Time     // somebody has signed in; what began before does not know
	next          time.Time     // nothing is tried before, if there are failures
	leftAlone     time.Time     // until when the server has asked that nothing is tried
	pause         time.Duration // how long that was after the last failure
	breaker       breaker
	last          error // why, of the last failure
	restarts      int   // conversations that were opened after failures
}

func newSupervisor(u *Upstream, supervised bool) *supervisor {
	s := &supervisor{
		up: u, set: &u.set, supervised: supervised, done: make(chan struct{}), wake: make(chan struct{}, 1),
		state: Idle, since: time.Now(), used: time.Now(), conns: make(map[*conn]struct{}), dialing: make(map[*conn]struct{}),
		breaker: breaker{max: u.set.starts, window: u.set.window, cooldown: u.set.max},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.server = u.newServer(s)
	s.requests = s.server.Requests()
	peer := s.server.Main()
	if !supervised {
		peer = s.requests
	}
	s.client = client.New(peer, &client.Options{Name: u.manager.opts.Name, Version: u.manager.opts.Version, Timeout: -1})
	return s
}

// begin begins to look after the server.
func (s *supervisor) begin() {
	if !s.supervised {
		close(s.done)
		return
	}
	if !s.set.lazy {
		s.mu.Lock()
		s.on(wanted)
		s.starting = time.Now()
		s.mu.Unlock()
	}
	go s.run() // ends with close
}

// run starts the server when it is wanted, and again when it was lost.
func (s *supervisor) run() {
	defer close(s.done)
	for again := !s.set.lazy; s.ctx.Err() == nil; {
		if !again && !s.awaitUse() || !s.waitForAttempt() {
			return
		}
		again = !s.set.lazy
		if s.start() == nil {
			again = s.superviseRunning()
		}
	}
}

// awaitUse waits until somebody wants the server, and reports whether that is so.
func (s *supervisor) awaitUse() bool {
	select {
	case <-s.wake:
		return true
	case <-s.ctx.Done():
		return false
	}
}

// want has the server started, if it is not.
func (s *supervisor) want() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// ownCaller is who we are as a client.
var ownCaller = &dragoman.Caller{Principal: "dragoman"}

// hangs ends what does not answer when it starts.
func (s *settings) hangs() error {
	return &protocol.LateError{Message: fmt.Sprintf("it does not answer within %v; allow more time by --connect-timeout, or by connectTimeout in a configuration", s.connect)}
}

// start makes one attempt to start the server, and to have it say who it is.
func (s *supervisor) start() error {
	hangs := s.set.hangs()
	ctx, cancel := context.WithTimeoutCause(dragoman.WithCaller(s.ctx, ownCaller), s.set.connect, hangs)
	defer cancel()
	began := time.Now()
	s.mu.Lock()
	s.on(wanted)
	s.begun, s.stoppedIdle, s.starting = s.round, false, began
	before := s.totalFailures
	s.mu.Unlock()
	s.changed.fire()
	found, err := s.server.Start(ctx)
	if err == nil {
		err = s.firstRequest(ctx, found)
	}
	if err != nil && s.ctx.Err() == nil {
		if ctx.Err() != nil {
			err = s.up.hang()
			s.closeConns(err, func(c *conn) bool { return !c.hasAnswered.Load() })
		}
		s.sweep() // what has ended says why
		s.mu.Lock()
		known := s.totalFailures > before || isRefusal(err) || s.begun != s.round // then a restart has ended it
		s.mu.Unlock()
		if !known {
			s.fail(began, err)
		}
	}
	s.mu.Lock()
	switch {
	case err == nil:
		s.era, s.failedChecks, s.used = found, 0, time.Now()
		if s.begun == s.round { // else a restart was asked for meanwhile, and waits for the next one
			s.starts++
		}
		s.recover(began)
	case s.begun == s.round: // else it failed because of a restart
		s.attempts++
	}
	s.mu.Unlock()
	select {
	case <-s.wake: // who still wants the server says so again
	default:
	}
	s.changed.fire()
	if err == nil {
		s.up.event(eventReady, nil, "server is ready, "+found.String()+" era")
	}
	return err
}

// await waits until the server has come up. One that is not supervised is started; if
// that fails, the error is the reason.
func (s *supervisor) await(ctx context.Context) (found protocol.Era, err error) {
	if s.supervised {
		err = s.waitUsable(ctx, 0)
		found, _ = s.server.Found()
		return found, err
	}
	s.mu.Lock()
	before := s.totalFailures
	s.mu.Unlock()
	limit := ctx
	if s.set.process {
		var cancel context.CancelFunc
		limit, cancel = context.WithTimeoutCause(ctx, s.set.connect, s.set.hangs())
		defer cancel()
	}
	if found, err = s.server.Start(limit); err == nil && s.isUnproven() {
		probeCtx := dragoman.WithCaller(limit, &dragoman.Caller{Principal: ownCaller.Principal, Session: "first request"})
		err = s.firstRequest(probeCtx, found)
		s.server.End(probeCtx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && s.totalFailures > before {
		err = s.last
	}
	if err != nil && limit.Err() != nil && ctx.Err() == nil {
		err = s.up.hang()
	}
	return found, err
}

// isUnproven reports whether the server has not responded to anything, and is not remembered
// to be one that does.
func (s *supervisor) isUnproven() bool {
	if s.server.Era != nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.hasAnswered && !s.hasReplied && s.server.Hint == nil && s.server.Probe == nil
}

// firstRequest has the server say who it is and what it can do.
func (s *supervisor) firstRequest(ctx context.Context, found protocol.Era) error {
	result, err := s.client.Request(ctx, protocol.MethodDiscover, nil)
	if e := refusalOf(err); e != nil && !protocol.IsGatewayError(e) {
		return nil // it refuses, but it is there
	}
	if err != nil {
		return reasonOf(err)
	}
	s.up.catalog.Learn(result, found == protocol.Modern)
	return nil
}

// superviseRunning supervises a server that has been started, until it is lost or stopped. It
// reports whether it is to be started again without being asked for.
func (s *supervisor) superviseRunning() (again bool) {
	ctx := dragoman.WithCaller(s.ctx, ownCaller)
	s.up.catalog.Begin()
	var ticks <-chan time.Time
	if s.set.interval > 0 {
		ticker := time.NewTicker(max(s.set.interval/2, 1))
		defer ticker.Stop()
		ticks = ticker.C
	}
	for {
		changed := s.changed.wait()
		switch {
		case s.ctx.Err() != nil:
			return false
		case s.restarted():
			return true
		case s.lost():
			return !s.set.lazy
		}
		var idle <-chan time.Time
		if s.set.idle > 0 {
			idle = time.After(max(s.set.idle-s.unused(), time.Millisecond))
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		case <-s.up.catalog.Dirty():
			s.up.catalog.Refresh(ctx)
		case <-ticks:
			if s.tick.Add(1)%2 == 0 {
				s.look(ctx)
			}
		case <-idle:
			if s.sleep() {
				return false
			}
		}
	}
}

// restarted reports whether a restart was asked for since the last start.
func (s *supervisor) restarted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.round != s.begun
}

// lost reports whether our own conversation is over, or the server is away. A server
// that is slow to say its era has two of our own for a while, of which one is closed.
func (s *supervisor) lost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.main != nil && s.main.Err() != nil {
		for c := range s.conns {
			if c.main && c.Err() == nil {
				s.main = c
				break
			}
		}
	}
	return s.state == BackingOff || s.state == SignIn || s.main != nil && s.main.Err() != nil
}

// enter and leave count a request that uses the server, if it is to be stopped when
// nobody does.
func (s *supervisor) enter() {
	if s.set.idle == 0 {
		return
	}
	s.mu.Lock()
	s.users++
	stopped := s.stoppedIdle
	s.stoppedIdle = false
	s.mu.Unlock()
	if stopped {
		s.want()
	}
}

func (s *supervisor) leave() {
	if s.set.idle == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users--
	s.used = time.Now()
}

// unused returns for how long nobody has used it; zero if somebody does.
func (s *supervisor) unused() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users > 0 {
		return 0
	}
	return time.Since(s.used)
}

// sleep stops a server that nobody has used for a while. It reports whether it did.
func (s *supervisor) sleep() bool {
	s.mu.Lock()
	ok := s.users == 0 && time.Since(s.used) >= s.set.idle
	if ok {
		s.stoppedIdle, s.hasAnswered, s.main = true, false, nil
		s.on(unused)
	}
	s.mu.Unlock()
	if !ok {
		return false
	}
	s.up.event(eventIdle, nil, "server was idle and is stopped")
	s.closeConns(nil, nil)
	s.changed.fire()
	return true
}

// errUnhealthy is why a server is given up that does not answer.
var errUnhealthy = errors.New("the server does not answer health checks")

// busyPatience is how many times as many looks at the health may fail while calls are
// in progress on the conversation that is looked at: many servers do one thing at a time.
const busyPatience = 10

// look asks the server whether it is there, unless it has just answered somebody. A
// server that does not answer is degraded, and given up after too many failures: its
// conversations are closed, so that others are opened.
func (s *supervisor) look(ctx context.Context) {
	if s.lastAnswer.Load() >= s.tick.Load()-1 {
		return
	}
	limit, cancel := context.WithTimeout(ctx, min(pingTimeout, s.set.interval))
	began := time.Now()
	err := s.server.Ping(limit)
	cancel()
	if ctx.Err() != nil {
		return
	}
	threshold := s.set.threshold
	if running, _ := s.up.admission.counts(); running > 0 && (s.set.sessionsShare || !s.set.process) {
		threshold *= busyPatience
	}
	s.mu.Lock()
	s.failedChecks++
	if err == nil {
		s.failedChecks = 0
	} else {
		s.on(troubled)
	}
	failed := s.failedChecks
	s.mu.Unlock()
	if err == nil {
		return
	}
	s.up.event(eventDegraded, nil, fmt.Sprintf("server fails health checks (%d of %d)", failed, threshold))
	s.changed.fire()
	if failed < threshold {
		return
	}
	s.closeConns(errUnhealthy, nil)
	s.fail(began, errUnhealthy)
	s.mu.Lock()
	s.failedChecks = 0
	s.mu.Unlock()
}

// restart stops the server and starts it again, at once, whatever its state. It
// returns when the server can be used, or with the reason why it cannot. A server that
// is not supervised is started by its next user, and so is a lazy one that is not
// running.
func (s *supervisor) restart(ctx context.Context) error {
	s.mu.Lock()
	running, attempts, starts := s.state != Idle, s.attempts, s.starts
	s.round++
	s.failures, s.main, s.stopping = 0, nil, true
	s.breaker.close()
	if running && s.supervised {
		s.on(wanted)
	}
	if s.supervised && (running || !s.set.lazy) {
		s.want() // now: a start that ends this round takes it back, and is not followed by another
	}
	s.mu.Unlock()
	s.closeConns(nil, nil)
	s.mu.Lock()
	s.stopping = false
	s.mu.Unlock()
	s.changed.fire()
	if !s.supervised || s.set.lazy && !running {
		return nil
	}
	for {
		changed := s.changed.wait()
		s.mu.Lock()
		refused, ready := s.attempts > attempts, s.starts > starts && s.begun == s.round
		s.mu.Unlock()
		switch {
		case ready:
			return nil
		case refused:
			return s.unavailable()
		case s.ctx.Err() != nil:
			return s.up.drained()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// spawn runs f on a goroutine of its own, which close waits for. It reports whether it does:
// not after close.
func (s *supervisor) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == Stopped || s.ctx.Err() != nil {
		return false
	}
	s.busy.Go(f)
	return true
}

// close ends everything: the goroutine, then the conversations, then the children.
func (s *supervisor) close() {
	s.cancel()
	<-s.done
	_ = s.client.Close() // nothing is left to be told of
	_ = s.server.Close()
	s.mu.Lock()
	s.on(closed)
	s.mu.Unlock()
	s.changed.fire()
	s.closeConns(nil, nil) // nothing is left, unless era has forgotten it
	s.busy.Wait()
}
