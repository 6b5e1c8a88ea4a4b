package streamable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// clientMaxRestored is how many subscriptions are made anew in a new session.
const clientMaxRestored = 1024

// A clientSession is a session of the legacy era. It does not change, but for
// what is said of listening.
type clientSession struct {
	id       string // may be empty: then the server knows none
	version  string // as the server spelt it
	revision protocol.Revision

	listening int           // guarded by clientConn.mu: one of the constants below
	deaf      chan struct{} // guarded by clientConn.mu: closed when it does not listen any more
}

// The background stream of a session.
const (
	clientNotYet  = iota // not asked for
	clientListens        // open, or about to be
	clientFailed         // given up after failures; a later success tries again
	clientRefused        // the server has none
)

// clientState is what a conversation knows of its sessions.
type clientState struct {
	session *clientSession               // the current one, or nil
	hello   *dragoman.Message            // the initialize that opened it
	ready   *dragoman.Message            // the notification that followed
	renewal *clientRenewal               // under way, or nil
	level   *dragoman.Message            // the last that set the log level
	watched map[string]*dragoman.Message // subscriptions by URI
}

// A clientRenewal is the making of a new session, for all who wait for it.
type clientRenewal struct {
	done    chan struct{}
	session *clientSession // set before done is closed
	err     error          // likewise
}

// set adds the headers of the session.
func (s *clientSession) set(h http.Header) {
	if s == nil {
		return
	}
	if s.id != "" {
		h.Set(protocol.HeaderSession, s.id)
	}
	if s.version != "" && (s.revision.NeedsVersionHeader() || s.revision == protocol.Unknown) {
		h.Set(protocol.HeaderVersion, s.version)
	}
}

// batches tells whether messages may come in arrays.
func (s *clientSession) batches() bool { return s != nil && s.revision.HasBatch() }

// session returns the current session, or nil.
func (c *clientConn) session() *clientSession {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.session
}

// adopt makes s the session of the conversation, which hello opened.
func (c *clientConn) adopt(hello *dragoman.Message, s *clientSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended == nil {
		c.state = clientState{session: s, hello: hello}
	}
}

// ready sends the notification that ends the handshake, waits until the server
// has it, and opens the background stream, so that no request overtakes it.
func (c *clientConn) ready(ctx context.Context, note *dragoman.Message) error {
	s := c.session()
	mark, err := c.send(note, s)
	if err != nil {
		return err
	}
	if err := c.out.sent(ctx, mark); err != nil {
		return err
	}
	c.mu.Lock()
	c.state.ready = note
	c.mu.Unlock()
	c.awaitStream(ctx, s)
	return nil
}

// remember notes what a new session would have to be told too.
func (c *clientConn) remember(req *dragoman.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := &c.state
	switch uri := req.URI(); req.Method() {
	case protocol.MethodSetLevel:
		st.level = req
	case protocol.MethodSubscribe:
		if st.watched == nil {
			st.watched = make(map[string]*dragoman.Message)
		}
		if len(st.watched) < clientMaxRestored {
			st.watched[uri] = req
		}
	case protocol.MethodUnsubscribe:
		delete(st.watched, uri)
	}
}

// gone is called when the server is known to have ended a session outside of a
// request that could be repeated.
func (c *clientConn) gone(s *clientSession) {
	if c.client.OneSession {
		c.end(ErrSessionGone)
		return
	}
	c.startRenewal(s)
}

// renew returns the session that takes the place of old. Who asks first has it
// made.
func (c *clientConn) renew(ctx context.Context, old *clientSession) (*clientSession, error) {
	if c.client.OneSession {
		c.end(ErrSessionGone)
		return nil, c.why()
	}
	r := c.startRenewal(old)
	select {
	case <-r.done:
		return r.session, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// check asks whether the session of a call is still there, after a server has
// answered that a conversation is lost: that may be ours, or another behind it.
func (c *clientConn) check(k *clientCall) error {
	ping, err := dragoman.NewRequest(dragoman.IntID(1), protocol.MethodPing, nil)
	if err != nil || k.session == nil {
		return err
	}
	p, err := c.begin(k.ctx, ping, nil)
	if err != nil {
		return err
	}
	p.renewing, p.session = true, k.session
	_, err = p.once(nil)
	if err = p.finish(err); errors.Is(err, ErrSessionGone) || errors.Is(err, dragoman.ErrClosed) {
		return err
	}
	return nil // the server's word is all that counts
}

// startRenewal has a new session made, unless that is under way or has been done.
func (c *clientConn) startRenewal(old *clientSession) *clientRenewal {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := &c.state
	if r := st.renewal; r != nil {
		return r
	}
	r := &clientRenewal{done: make(chan struct{})}
	switch {
	case c.ended != nil:
		r.err = c.ended
	case st.session != old:
		r.session = st.session
	case st.hello == nil:
		r.err = ErrSessionGone
	default:
		st.renewal = r
		was := *st
		was.watched = maps.Clone(st.watched) // remember may change it meanwhile
		// Ends when the server has answered, at the timeouts, or with the
		// conversation.
		c.busy.Go(func() { c.startOver(r, was) })
		return r
	}
	close(r.done)
	return r
}

// startOver makes a new session like the one that was.
func (c *clientConn) startOver(r *clientRenewal, was clientState) {
	s, caps, err := c.again(was)
	if err == nil && was.ready != nil {
		c.awaitStream(c.ctx, s)
		c.remind(caps, was.watched)
	}
	c.mu.Lock()
	r.session, r.err = s, err
	c.state.renewal = nil
	if err == nil {
		c.state.session = s
	}
	c.mu.Unlock()
	close(r.done)
	if err != nil {
		c.log.Warn("the session is gone and no new one could be opened", "error", err)
		return
	}
	c.log.Info("a new session takes the place of one that the server has ended")
}

// again makes the session. It also returns the server's capabilities.
func (c *clientConn) again(was clientState) (*clientSession, json.RawMessage, error) {
	k, resp, err := c.call(c.ctx, was.hello, nil, true)
	switch {
	case err != nil:
		return nil, nil, err
	case resp.IsError():
		return nil, nil, fmt.Errorf("%w and refuses a new one: %w", ErrSessionGone, resp.RPCError())
	case k.opened.version != was.session.version:
		return nil, nil, fmt.Errorf("%w and now speaks revision %q instead of %q", ErrSessionGone, k.opened.version, was.session.version)
	}
	s := k.opened
	if was.ready != nil {
		if err := c.tellServer(c.ctx, was.ready, s); err != nil {
			return nil, nil, err
		}
	}
	restore := make([]*dragoman.Message, 0, len(was.watched)+1)
	if was.level != nil {
		restore = append(restore, was.level)
	}
	for _, req := range was.watched {
		restore = append(restore, req)
	}
	for _, req := range restore {
		k, err := c.begin(c.ctx, req, nil)
		if err != nil {
			return nil, nil, err
		}
		k.renewing, k.session = true, s
		_, err = k.once(nil)
		if err = k.finish(err); err != nil {
			c.log.Warn("not restored in the new session", "method", req.Method(), "error", err)
		}
	}
	return s, resp.Get("capabilities"), nil
}

// remind tells the local peer what may have changed while there was no session:
// the lists that the server tells of, and what was subscribed to.
func (c *clientConn) remind(caps json.RawMessage, watched map[string]*dragoman.Message) {
	lost := protocol.ListsOf(caps)
	lost.URIs = slices.Collect(maps.Keys(watched))
	for note := range lost.ChangeNotes() {
		c.enqueue(nil, note)
	}
}
