package upstream

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/catalog"
	"github.com/dragoman-mcp/dragoman/internal/gateway/event"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// A conn is a conversation with the server that a supervisor has opened.
type conn struct {
	dragoman.Conn
	supervisor *supervisor
	opened     time.Time
	main       bool    // it is our own
	passed     *passed // with what of its caller; may be nil
	output     *output // what its process writes

	ours        atomic.Bool           // we have closed it
	reason      atomic.Pointer[error] // why we gave it up, if that is a failure
	hasAnswered atomic.Bool           // the server has answered on it
	faulty      atomic.Bool           // a request has not reached the server
	probed      atomic.Bool           // it was asked what some servers cannot bear
}

// Unwrap returns the conversation itself.
func (c *conn) Unwrap() dragoman.Conn { return c.Conn }

// Dial implements dragoman.Dialer. It waits until something may be tried, and fails at
// once while the server is left alone. A failure is a conversation that does not open,
// or that ends without our having closed it, or a request that does not reach the
// server; what fails together counts once.
func (s *supervisor) Dial(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error) {
	caller := dragoman.CallerOf(ctx)
	p := s.up.passedOf(caller)
	limit := time.Now().Add(MaxOutage)
	for attempt := 1; ; attempt++ {
		c := &conn{supervisor: s, main: caller == ownCaller, passed: p, output: &output{up: s.up, passed: p}}
		t, err := s.up.targetWith(p, c.output)
		if err != nil {
			return nil, err
		}
		if err := s.turn(ctx, limit, c); err != nil {
			return nil, err
		}
		s.up.logs.begin()
		if local != nil {
			local = toolLister{s.up.point.Client(local), s.up}
		}
		inner, err := t.Dialer.Dial(ctx, local)
		if err == nil {
			return s.opened(c, inner)
		}
		err = s.up.explain(ctx, err)
		s.mu.Lock()
		delete(s.dialing, c)
		s.mu.Unlock()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if isSignIn(err) {
			s.mu.Lock()
			s.last = err
			s.on(unauthorized)
			s.mu.Unlock()
			return nil, err
		}
		if ctx.Err() != nil && errors.Is(err, dragoman.ErrClosed) || isCallers(err) {
			return nil, err // whoever dialled has gone, or is not wanted
		}
		s.fail(c.opened, err)
		if attempt >= s.set.attempts || ctx.Err() != nil || isMissing(err) {
			return nil, s.unavailable()
		}
	}
}

// isMissing reports whether an error says that there is no program to start, which does
// not change within a moment.
func isMissing(err error) bool {
	_, start := errors.AsType[*stdio.StartError](err)
	return start && (errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission))
}

// errStoppedIdle keeps subscriptions that outlive their conversation from starting a
// server that nobody asks anything.
var errStoppedIdle = errors.New("the server is stopped because it was idle")

// turn waits until c may be tried. It fails if that is later than limit, or
// for who comes while nobody is made to wait.
func (s *supervisor) turn(ctx context.Context, limit time.Time, c *conn) error {
	s.hurry()
	for {
		changed := s.changed.wait()
		s.sweep()
		now := time.Now()
		s.mu.Lock()
		switch {
		case s.state == Stopped:
			s.mu.Unlock()
			return dragoman.ErrClosed
		case s.stoppedIdle:
			s.mu.Unlock()
			return errStoppedIdle
		}
		wait := s.due(now)
		if s.awaitsSignIn() {
			wait = 0 // somebody may have signed in, here or elsewhere, which shows at once
		}
		if s.stopping {
			wait = limit.Sub(now) // until it has stopped, which is told
		}
		if wait <= 0 {
			if s.failures > 0 { // the next one waits
				s.next = now.Add(s.set.backoff(s.failures))
				s.breaker.try(now)
			}
			c.opened = now
			s.dialing[c] = struct{}{}
			s.mu.Unlock()
			return nil
		}
		refused := s.breaker.open() || s.failsFast(now) || now.Add(wait).After(limit)
		if left := limit.Sub(now); refused && !s.set.process && left > 0 && s.tries() {
			refused, wait = false, left // whoever tries tells
		}
		s.mu.Unlock()
		if refused {
			return s.unavailable()
		}
		if err := sleep(ctx, wait, changed); err != nil {
			return err
		}
	}
}

// release lets the next attempt begin at once: the last one came to an end that was
// no failure, but no success either. The caller holds mu.
func (s *supervisor) release() {
	if now := time.Now(); s.failures > 0 {
		s.next = now
		if s.breaker.open() {
			s.breaker.until = now
		}
	}
}

// opened makes a conversation one of the supervisor's.
func (s *supervisor) opened(c *conn, inner dragoman.Conn) (dragoman.Conn, error) {
	c.Conn = inner
	s.mu.Lock()
	delete(s.dialing, c)
	if s.state == Stopped {
		s.mu.Unlock()
		_ = inner.Close() // nobody wants it any more
		return nil, dragoman.ErrClosed
	}
	s.conns[c] = struct{}{}
	if c.main {
		s.main = c
	}
	if s.failures > 0 {
		s.restarts++
	}
	// Ends with the conversation.
	s.busy.Go(func() {
		<-inner.Done()
		s.ended(c)
	})
	s.mu.Unlock()
	s.changed.fire()
	return c, nil
}

// ended notes what became of a conversation that is over. That a caller's own has
// ended is no failure of the server while it answers others.
func (s *supervisor) ended(c *conn) {
	s.mu.Lock()
	if _, ok := s.conns[c]; !ok {
		s.mu.Unlock()
		return
	}
	delete(s.conns, c)
	var text string
	lost := c.reason.Load()
	switch reason := c.Err(); {
	case c.ours.Load() && lost == nil:
		if !c.hasAnswered.Load() && !c.opened.Before(s.failedAt) { // else it has part in that failure
			s.release()
		}
	case lost == nil && c.hasAnswered.Load() && !c.main && s.healthy():
		text = "session ended: " + s.up.redactError(reason)
		s.restarts++
	default:
		if lost != nil {
			reason = *lost
		}
		probed := s.failures == 0 && s.set.process && c.probed.Load() && !c.hasAnswered.Load() && lost == nil
		if s.recordFailure(c.opened, reason) {
			text = s.retryHint()
		}
		if probed { // it may be a legacy server that ends for that; what comes next will tell
			s.up.log.Debug("process ended when it was asked for its era", "error", s.up.redactError(reason))
			text = ""
		}
		if c.probed.Load() && !c.hasAnswered.Load() && lost == nil && !s.set.process {
			s.release() // it may be a legacy server that ends for that; to dial costs little
		}
	}
	if !s.supervised && len(s.conns) == 0 && s.failures == 0 {
		s.on(unused)
	}
	s.mu.Unlock()
	if !c.hasAnswered.Load() && (lost != nil || !c.ours.Load()) {
		s.up.memory.Doubt()
	}
	if text != "" {
		s.up.event(eventFailed, c.passed, text)
	}
	s.changed.fire()
}

// sweep notes the end of conversations whose goroutine has not come to it yet.
func (s *supervisor) sweep() {
	var over []*conn
	s.mu.Lock()
	for c := range s.conns {
		if c.Err() != nil {
			over = append(over, c)
		}
	}
	s.mu.Unlock()
	for _, c := range over {
		s.ended(c)
	}
}

// closeConns closes the conversations that which says, or all if it is nil. If reason is
// not nil, that is a failure of the server's. It waits until they are closed.
func (s *supervisor) closeConns(reason error, which func(*conn) bool) {
	var closing sync.WaitGroup
	s.mu.Lock()
	for c := range s.conns {
		if which == nil || which(c) {
			if reason != nil {
				c.reason.Store(&reason)
			}
			closing.Go(func() { _ = c.Close() }) // ends when it is closed, which is bounded
		}
	}
	s.mu.Unlock()
	closing.Wait()
}

// Close ends the conversation.
func (c *conn) Close() error {
	if c.Err() != nil {
		c.supervisor.ended(c) // it was over before
	} else {
		c.ours.Store(true)
	}
	return c.Conn.Close()
}

// Call passes a request on, and learns from what becomes of it.
func (c *conn) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	switch method := req.Method(); {
	case method == protocol.MethodInitialize, method == protocol.MethodDiscover, method == protocol.MethodPing && !c.hasAnswered.Load():
		return c.firstCall(ctx, req, from, time.Now())
	}
	var began time.Time // before any failure, if there is none now
	if !c.supervisor.stable.Load() || c.supervisor.up.signsIn {
		began = time.Now()
	}
	lists := c.supervisor.up.catalog
	changes := lists.Changes()
	resp, err := c.supervisor.up.point.Relay(ctx, event.ToServer, c.Conn, req, from)
	if err != nil {
		err = c.supervisor.up.explain(ctx, err)
		c.failed(ctx, began, err)
		return nil, err
	}
	c.answered(began)
	if !c.supervisor.supervised {
		lists.Observe(req, resp)
	}
	if protocol.IsModern(req) { // by which the connection sets headers
		lists.Pass(catalog.View{Caller: dragoman.CallerOf(ctx)}, changes, req, resp)
	}
	return resp, nil
}

// Notify implements dragoman.Peer.
func (c *conn) Notify(ctx context.Context, note *dragoman.Message) error {
	c.supervisor.up.point.Note(ctx, event.ToServer, note)
	return c.Conn.Notify(ctx, note)
}

// firstCall passes a request on with which a conversation may begin. It must be answered
// within the time that a server has to start.
func (c *conn) firstCall(ctx context.Context, req *dragoman.Message, from dragoman.Peer, began time.Time) (*dragoman.Message, error) {
	s := c.supervisor
	hangs := s.set.hangs()
	limit, cancel := context.WithTimeoutCause(ctx, s.set.connect, hangs)
	defer cancel()
	if s.set.process && !c.hasAnswered.Load() {
		waiting := time.AfterFunc(StartNotice, c.output.tellWaiting)
		defer waiting.Stop()
	}
	switch req.Method() {
	case protocol.MethodDiscover:
		c.probed.Store(true)
		c.output.probe()
	case protocol.MethodPing:
		c.output.probe()
	}
	resp, err := s.up.point.Relay(limit, event.ToServer, c.Conn, req, from)
	c.output.answered()
	err = s.up.explain(ctx, err)
	switch {
	case err == nil && !resp.IsError():
		switch req.Method() {
		case protocol.MethodInitialize:
			s.up.revision.Store(new(string(resp.Get("protocolVersion"))))
			s.up.introduced(resp.Get("serverInfo"))
			if found, ok := s.server.Found(); ok && found == protocol.Legacy {
				s.up.memory.Found(found) // it may have been doubted
			}
		case protocol.MethodDiscover:
			s.up.introduced(resp.Meta(protocol.MetaServerInfo))
		}
		c.answered(began)
	case err == nil, ctx.Err() != nil && !c.hasAnswered.Load():
		// It lives, or somebody has lost patience: that proves nothing.
		s.mu.Lock()
		s.hasReplied = s.hasReplied || err == nil
		if err == nil || s.failedAt.Before(began) {
			s.release()
		}
		s.mu.Unlock()
		s.changed.fire()
	case limit.Err() != nil && ctx.Err() == nil && !c.hasAnswered.Load():
		c.reason.Store(new(s.up.hang()))
		_ = c.Close() // calls on it fail with that
	default:
		c.failed(ctx, began, err)
	}
	return resp, err
}

// answered notes that the server has answered a request that was sent then.
func (c *conn) answered(began time.Time) {
	s := c.supervisor
	if tick := s.tick.Load(); s.lastAnswer.Load() != tick {
		s.lastAnswer.Store(tick)
	}
	if c.hasAnswered.Load() && s.stable.Load() {
		return
	}
	s.up.waiting.Store(false)
	s.mu.Lock()
	c.hasAnswered.Store(true)
	s.failedChecks = 0
	back := s.recover(began)
	s.mu.Unlock()
	if back {
		s.up.event(eventReady, nil, "server is back")
	}
	s.changed.fire()
}

// failed looks at the error of a request on a conversation that continues. If the
// request has not reached the server no other would, on whatever conversation: those
// that stay open without it all lead to one place.
func (c *conn) failed(ctx context.Context, began time.Time, err error) {
	if isSignIn(err) && ctx.Err() == nil {
		c.supervisor.fail(began, err)
		return
	}
	if ctx.Err() != nil || !isUnreached(err) || errors.Is(err, dragoman.ErrClosed) {
		return
	}
	s := c.supervisor
	s.mu.Lock()
	for other := range s.conns {
		other.faulty.Store(true)
	}
	s.mu.Unlock()
	s.fail(began, err)
}

// isUnreached reports whether an error says that the server is not there, or that
// whoever stands before it does not reach it.
func isUnreached(err error) bool {
	if status, _, ok := statusOf(err); ok {
		switch status {
		case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return true
		}
		return false
	}
	_, fault := errors.AsType[protocol.Fault](err)
	return fault
}

// isCallers reports whether an error says that the server is there and does not want
// this caller, or not now.
func isCallers(err error) bool {
	status, _, _ := statusOf(err)
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		return true
	}
	return false
}

// statusOf returns the HTTP status by which a server has refused, if that is what the
// error is, and how long it asks to wait.
func statusOf(err error) (status int, wait time.Duration, ok bool) {
	if e, ok := errors.AsType[*protocol.StatusError](err); ok {
		return e.Status, e.RetryAfter, true
	}
	return 0, 0, false
}
