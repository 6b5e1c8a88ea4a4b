package streamable

import (
	"context"
	"net/http"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

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
	return c.current
}

// adopt makes s the session of the conversation.
func (c *clientConn) adopt(s *clientSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended == nil {
		c.current = s
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
	c.awaitStream(ctx, s)
	return nil
}

// check asks whether the session of a call is still there, after a server has
// answered that a conversation is lost: that may be ours, or another behind it. It
// returns why the conversation is over, if it is.
func (c *clientConn) check(k *clientCall) error {
	ping, err := dragoman.NewRequest(dragoman.IntID(1), protocol.MethodPing, nil)
	if err != nil || k.session == nil || k.session.id == "" {
		return err
	}
	if p, err := c.begin(k.ctx, ping, nil); err == nil {
		p.session = k.session
		_, err = p.once(nil)
		_ = p.finish(err) // all that counts is what it did to the conversation
	}
	return c.why()
}
