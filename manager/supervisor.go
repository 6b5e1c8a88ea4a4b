package manager

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
	"github.com/dragoman-mcp/dragoman/internal/backoff"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A State is what can be said of an upstream in a word.
type State string

// The states.
const (
	Idle       State = "idle"        // not started: it is lazy, or nobody has used it for a while
	Starting   State = "starting"    //
	Ready      State = "ready"       //
	Degraded   State = "degraded"    // it can be used, but something has failed
	BackingOff State = "backing off" // it is away, and tried again later
	Stopped    State = "stopped"     // for good: its configuration cannot be used, or we are stopping
	Disabled   State = "disabled"    // by its configuration
)

// What may happen to a server.
type happening uint8

const (
	wanted   happening = iota // it is to be started, or started again
	answered                  // it has answered
	troubled                  // something has failed, and it can still be used
	failed                    // it cannot be used
	unused                    // nobody has used it for long enough to stop it
	closed                    // it is stopped for good
)

// transitions are all changes of state that there are. What is not here changes
// nothing.
var transitions = map[State]map[happening]State{
	Idle:       {wanted: Starting, answered: Ready, failed: BackingOff, closed: Stopped},
	Starting:   {answered: Ready, failed: BackingOff, unused: Idle, closed: Stopped},
	Ready:      {wanted: Starting, troubled: Degraded, failed: BackingOff, unused: Idle, closed: Stopped},
	Degraded:   {wanted: Starting, answered: Ready, failed: BackingOff, unused: Idle, closed: Stopped},
	BackingOff: {wanted: Starting, answered: Ready, unused: Idle, closed: Stopped},
}

// A supervisor keeps one server running. It is the dialer through which era reaches
// the server, so it knows every conversation and what became of it; and it has a
// conversation of its own, in which one goroutine starts the server, keeps its lists
// and looks after its health.
//
// Where callers pass values on to the server there is nothing to look after on
// nobody's behalf: then the server is unattended, and what its callers' conversations
// come to is all that is known.
type supervisor struct {
	up       *Upstream
	set      *settings
	server   *era.Server
	client   *client.Client // ours, in the conversation of our own if it is attended
	attended bool
	changed  signal          // fired when anything here changes
	ctx      context.Context // ends with close
	cancel   context.CancelFunc
	done     chan struct{} // closed when run has ended
	wake     chan struct{} // holds one token when somebody wants the server
	busy     sync.WaitGroup
	heard    atomic.Int64 // when the server last answered, in nanoseconds
	calm     atomic.Bool  // it is ready and nothing fails, so that an answer changes nothing

	mu       sync.Mutex
	state    State
	since    time.Time // when the state began
	conns    map[*conn]struct{}
	main     *conn // the last that was opened for ourselves
	era      protocol.Era
	met      bool // the server has answered since it was last stopped for want of use
	asleep   bool // it was stopped because nobody used it, and nothing is dialled until somebody does
	stopping bool // its conversations are being closed for a restart
	round    int  // restarts that were asked for
	begun    int  // those of them before the last start
	starts   int  // that succeeded
	attempts int  // that did not
	starting time.Time
	sick     int // failed looks at its health, in a row
	users    int // requests under way
	used     time.Time

	failures int           // in a row, until the server answers again
	ever     int           // failures there have been
	failedAt time.Time     // the last of them; what began before has part in it
	next     time.Time     // nothing is tried before, if there are failures
	pause    time.Duration // how long that was after the last failure
	breaker  breaker
	last     error // why, of the last failure
	restarts int   // conversations that were opened after failures
}

func newSupervisor(u *Upstream, attended bool) *supervisor {
	s := &supervisor{
		up: u, set: &u.set, attended: attended, done: make(chan struct{}), wake: make(chan struct{}, 1),
		state: Idle, since: time.Now(), used: time.Now(), conns: make(map[*conn]struct{}),
		breaker: breaker{max: u.set.starts, window: u.set.window, cool: u.set.max},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.server = u.newServer(s)
	peer := s.server.Main()
	if !attended {
		peer = s.server.Requests()
	}
	s.client = client.New(peer, &client.Options{Name: u.manager.opts.Name, Version: u.manager.opts.Version, Timeout: -1})
	return s
}

// begin begins to look after the server.
func (s *supervisor) begin() {
	if !s.attended {
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

// on changes the state, if something that has happened does. The caller holds mu.
func (s *supervisor) on(h happening) {
	next, ok := transitions[s.state][h]
	if ok && next != s.state {
		s.state, s.since = next, time.Now()
	}
	s.calm.Store(s.state == Ready && s.failures == 0)
}

// current returns the state, and since when it is so.
func (s *supervisor) current() (State, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, s.since
}

// run starts the server when it is wanted, and again when it was lost.
func (s *supervisor) run() {
	defer close(s.done)
	for again := !s.set.lazy; s.ctx.Err() == nil; {
		if !again && !s.awaitUse() || !s.pace() {
			return
		}
		again = !s.set.lazy
		if s.start() == nil {
			again = s.attend()
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

// attendant is who we are as a client.
var attendant = &dragoman.Caller{Principal: "dragoman"}

// errHang ends what does not answer when it starts.
var errHang = errors.New("it does not answer in time after its start")

// start makes one attempt to start the server, and to have it say who it is.
func (s *supervisor) start() error {
	ctx, cancel := context.WithTimeoutCause(dragoman.WithCaller(s.ctx, attendant), s.set.connect, errHang)
	defer cancel()
	began := time.Now()
	s.mu.Lock()
	s.on(wanted)
	s.begun, s.asleep, s.starting = s.round, false, began
	before := s.ever
	s.mu.Unlock()
	s.changed.fire()
	found, err := s.server.Start(ctx)
	if err == nil {
		err = s.greet(ctx, found)
	}
	if err != nil && s.ctx.Err() == nil {
		if ctx.Err() != nil {
			err = errHang
			s.hangUp(errHang, func(c *conn) bool { return !c.proven.Load() })
		}
		s.mu.Lock()
		known := s.ever > before || isRefusal(err) || s.begun != s.round // then a restart has ended it
		s.mu.Unlock()
		if !known {
			s.fail(began, err)
		}
	}
	s.mu.Lock()
	switch {
	case err == nil:
		s.era, s.sick, s.used = found, 0, time.Now()
		s.starts++
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
		s.up.event(EventReady, nil, "it is ready, and speaks the "+found.String()+" era")
	}
	return err
}

// await waits until the server has come up. One that is not attended is started; if
// that fails, the error is the reason.
func (s *supervisor) await(ctx context.Context) (found protocol.Era, err error) {
	if s.attended {
		err = s.reach(ctx, 0)
		found, _ = s.server.Found()
		return found, err
	}
	s.mu.Lock()
	before := s.ever
	s.mu.Unlock()
	if found, err = s.server.Start(ctx); err == nil && s.server.Era != nil { // then nobody has spoken to it yet
		visit := dragoman.WithCaller(ctx, &dragoman.Caller{Principal: attendant.Principal, Session: "visit"})
		err = s.greet(visit, found)
		s.server.End(visit)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && s.ever > before {
		err = s.last
	}
	return found, err
}

// greet has the server say who it is and what it can do.
func (s *supervisor) greet(ctx context.Context, found protocol.Era) error {
	result, err := s.client.Request(ctx, protocol.MethodDiscover, nil)
	if e := refusalOf(err); e != nil && !protocol.Ours(e) {
		return nil // it refuses, but it is there
	}
	if err != nil {
		return reasonOf(err)
	}
	s.up.lists.learn(result, found == protocol.Modern)
	return nil
}

// attend looks after a server that has been started, until it is lost or stopped. It
// reports whether it is to be started again without being asked for.
func (s *supervisor) attend() (again bool) {
	ctx := dragoman.WithCaller(s.ctx, attendant)
	s.up.lists.begin()
	var beat <-chan time.Time
	if s.set.interval > 0 {
		pulse := time.NewTicker(s.set.interval)
		defer pulse.Stop()
		beat = pulse.C
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
		case <-s.up.lists.dirty:
			s.up.refresh(ctx)
		case <-beat:
			s.look(ctx)
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

// lost reports whether our own conversation is over, or the server is away.
func (s *supervisor) lost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == BackingOff || s.main != nil && s.main.Err() != nil
}

// enter and leave count a request that uses the server.
func (s *supervisor) enter() {
	s.mu.Lock()
	s.users++
	asleep := s.asleep
	s.asleep = false
	s.mu.Unlock()
	if asleep {
		s.want()
	}
}

func (s *supervisor) leave() {
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
		s.asleep, s.met, s.main = true, false, nil
		s.on(unused)
	}
	s.mu.Unlock()
	if !ok {
		return false
	}
	s.up.event(EventIdle, nil, "nobody uses it, so it is stopped")
	s.hangUp(nil, nil)
	s.changed.fire()
	return true
}

// errSick is why a server is given up that does not answer.
var errSick = errors.New("it does not answer when it is asked whether it is there")

// busyPatience is how many times as many looks at the health may fail while calls are
// under way on the conversation that is looked at: many servers do one thing at a time.
const busyPatience = 10

// look asks the server whether it is there, unless it has just answered somebody. A
// server that does not answer is degraded, and given up after too many failures: its
// conversations are closed, so that others are opened.
func (s *supervisor) look(ctx context.Context) {
	if time.Since(time.Unix(0, s.heard.Load())) < s.set.interval/2 {
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
	s.sick++
	if err == nil {
		s.sick = 0
	} else {
		s.on(troubled)
	}
	sick := s.sick
	s.mu.Unlock()
	if err == nil {
		return
	}
	s.up.event(EventDegraded, nil, fmt.Sprintf("it does not answer (%d of %d)", sick, threshold))
	s.changed.fire()
	if sick < threshold {
		return
	}
	s.hangUp(errSick, nil)
	s.fail(began, errSick)
	s.mu.Lock()
	s.sick = 0
	s.mu.Unlock()
}

// fail notes a failure of what began then.
func (s *supervisor) fail(began time.Time, err error) {
	s.mu.Lock()
	text := ""
	if s.blame(began, err) {
		text = s.outlook()
	}
	s.mu.Unlock()
	if text != "" {
		s.up.event(EventFailed, nil, text)
	}
	s.changed.fire()
}

// blame is fail without telling. It reports whether this was not known. The caller
// holds mu.
func (s *supervisor) blame(began time.Time, err error) bool {
	if s.state == Stopped || s.failures > 0 && began.Before(s.failedAt) {
		return false // part of the failure that is known
	}
	now := time.Now()
	s.last, s.failedAt = err, now
	s.failures++
	s.ever++
	_, asked, _ := statusOf(err)
	s.pause = max(s.set.backoff(s.failures), min(asked, MaxRetryAfter))
	s.next = now.Add(s.pause)
	s.breaker.count(began, now)
	if s.healthy() {
		s.on(troubled)
	} else {
		s.on(failed)
	}
	return true
}

// outlook says what happened last, and what comes next. The caller holds mu.
func (s *supervisor) outlook() string {
	wait := s.due(time.Now()).Round(time.Millisecond).String()
	if s.breaker.open() {
		return "it keeps failing and is left alone for " + wait + ": " + s.up.clean(s.last)
	}
	return "it is away, and tried again in " + wait + ": " + s.up.clean(s.last)
}

// recover notes that the server has answered what began then. What began before the
// last failure does not show that it is over. It reports whether the server was away.
// The caller holds mu.
func (s *supervisor) recover(began time.Time) (back bool) {
	s.met = true
	if s.failures > 0 && began.Before(s.failedAt) {
		return false
	}
	back = s.failures > 0
	s.failures = 0
	s.breaker.close()
	for c := range s.conns {
		c.faulty.Store(false)
	}
	if s.sick == 0 {
		s.on(answered)
	}
	return back
}

// healthy reports whether there is a conversation on which the server answers. The
// caller holds mu.
func (s *supervisor) healthy() bool {
	for c := range s.conns {
		if c.proven.Load() && !c.faulty.Load() && c.Err() == nil {
			return true
		}
	}
	return false
}

// due returns how long it takes until something may be tried. The caller holds mu.
func (s *supervisor) due(now time.Time) time.Duration {
	if s.failures == 0 {
		return 0
	}
	wait := s.next.Sub(now)
	if s.breaker.open() {
		wait = max(wait, s.breaker.until.Sub(now))
	}
	return wait
}

// pace waits until something may be tried, however long that is. It reports whether we
// have not been closed.
func (s *supervisor) pace() bool {
	for {
		changed := s.changed.wait()
		s.mu.Lock()
		wait := s.due(time.Now())
		if s.stopping {
			wait = time.Minute // or until it has stopped, which is told
		}
		s.mu.Unlock()
		if wait <= 0 || sleep(s.ctx, wait, changed) != nil {
			return s.ctx.Err() == nil
		}
	}
}

// reach waits until the server can be used. The error is a *dragoman.Error, or ctx
// ended. patience is how long to wait at most; zero means as long as is right.
func (s *supervisor) reach(ctx context.Context, patience time.Duration) error {
	if !s.attended || s.usable() {
		return nil // without anybody who starts it, its users find out
	}
	stand, err := s.up.admission.sit()
	if err != nil {
		return err
	}
	defer stand()
	began := time.Now()
	s.mu.Lock()
	before := s.ever
	if patience > 0 && s.state == Starting {
		began = s.starting // those who are in a hurry wait once, and not each of them anew
	}
	s.mu.Unlock()
	for {
		changed := s.changed.wait()
		if s.up.draining.Load() {
			return s.up.drained()
		}
		if s.usable() {
			return nil
		}
		left := s.prospect(began, before, patience)
		if left <= 0 {
			return s.turnedAway()
		}
		s.want()
		if err := sleep(ctx, left, changed); err != nil {
			return err
		}
	}
}

// usable reports whether requests can be given to the server.
func (s *supervisor) usable() bool {
	if s.calm.Load() {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == Ready || s.state == Degraded
}

// prospect returns how much longer it makes sense to wait for the server, for who came
// then, after so many failures.
func (s *supervisor) prospect(began time.Time, before int, patience time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	limit := MaxOutage
	if s.failures == 0 {
		limit = s.set.connect
	}
	if patience > 0 {
		limit = min(limit, patience)
	}
	left, due := began.Add(limit).Sub(now), s.due(now)
	switch {
	case s.state == Stopped, s.state != Starting && s.hopeless(now),
		s.ever-before >= s.set.attempts, due > 0 && s.breaker.open(), due > left:
		return 0
	}
	return left
}

// hopeless reports whether who comes now is turned away, and not made to wait: the
// server has not been there yet, and is not tried again soon. The caller holds mu.
func (s *supervisor) hopeless(now time.Time) bool {
	for c := range s.conns {
		if c.Err() == nil {
			return false
		}
	}
	return !s.met && s.pause > MaxPause && s.due(now) > 0
}

// turnsAway reports whether a list that is not known is not waited for.
func (s *supervisor) turnsAway() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	due := s.due(now)
	return due > 0 && (s.breaker.open() || s.hopeless(now) || due > MaxListWait)
}

// turnedAway is the error of who comes while the server is away.
func (s *supervisor) turnedAway() *dragoman.Error {
	r := refusal{Server: s.up.name, State: BackingOff, Stderr: s.up.logs.lastStderr()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil {
		r.Reason = s.up.clean(s.last)
	}
	return r.unavailable(s.due(time.Now()))
}

// restart stops the server and starts it again, at once, whatever its state. It
// returns when the server can be used, or with the reason why it cannot. A server that
// is not attended is started by its next user, and so is a lazy one that is not
// running.
func (s *supervisor) restart(ctx context.Context) error {
	s.mu.Lock()
	running, attempts, starts := s.state != Idle, s.attempts, s.starts
	s.round++
	s.failures, s.main, s.stopping = 0, nil, true
	s.breaker.close()
	if running && s.attended {
		s.on(wanted)
	}
	s.mu.Unlock()
	s.hangUp(nil, nil)
	s.mu.Lock()
	s.stopping = false
	s.mu.Unlock()
	s.changed.fire()
	if !s.attended || s.set.lazy && !running {
		return nil
	}
	s.want()
	for {
		changed := s.changed.wait()
		s.mu.Lock()
		refused, ready := s.attempts > attempts, s.starts > starts && s.begun == s.round
		s.mu.Unlock()
		switch {
		case ready:
			return nil
		case refused:
			return s.turnedAway()
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
	s.hangUp(nil, nil) // nothing is left, unless era has forgotten it
	s.busy.Wait()
}

// A breaker opens when too many starts within a window have ended badly. Then
// there is one trial each time that it has cooled down.
type breaker struct {
	max          int
	window, cool time.Duration

	bad   []time.Time // when those began that ended badly, within the window
	until time.Time   // closed to all but a trial until then; zero means that it is not open
}

// count notes that what began then has ended badly now.
func (b *breaker) count(began, now time.Time) {
	first := now.Add(-b.window)
	kept := b.bad[:0]
	for _, t := range b.bad {
		if t.After(first) {
			kept = append(kept, t)
		}
	}
	b.bad = kept
	if began.After(first) {
		b.bad = append(b.bad, began)
	}
	if b.open() || len(b.bad) >= b.max {
		b.until = now.Add(b.cool)
	}
}

// open reports whether there are trials only.
func (b *breaker) open() bool { return !b.until.IsZero() }

// try begins a trial.
func (b *breaker) try(now time.Time) {
	if b.open() {
		b.until = now.Add(b.cool)
	}
}

// close lets everybody in.
func (b *breaker) close() { b.bad, b.until = nil, time.Time{} }

// backoff returns how long to wait after so many failures in a row.
func (s *settings) backoff(failures int) time.Duration {
	return backoff.Backoff{Min: s.min, Max: s.max}.Wait(failures)
}

// sleep waits for a time, or for a change. The error is that of ctx.
func sleep(ctx context.Context, d time.Duration, changed <-chan struct{}) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-changed:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// A signal wakes all who wait for a change. Who wants to miss none calls wait
// before it looks.
type signal struct {
	mu sync.Mutex
	ch chan struct{}
}

// wait returns a channel that the next fire closes.
func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

func (s *signal) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}
