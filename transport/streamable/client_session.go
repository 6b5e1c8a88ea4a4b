package streamable

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpclient"
	"github.com/dragoman-mcp/dragoman/internal/wire/sse"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A clientSession is a session of the legacy era. It does not change, except for the
// state of its background stream.
type clientSession struct {
	id       string // empty if the server has given none
	version  string // as the server spells it
	revision protocol.Revision

	background     int           // guarded by clientConn.mu: one of the constants below
	backgroundDone chan struct{} // guarded by clientConn.mu: closed when the stream has ended
}

// The background stream of a session.
const (
	backgroundNone    = iota // not asked for
	backgroundOpen           // open, or about to be
	backgroundFailed         // given up after failures; a later success tries again
	backgroundRefused        // the server has none
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

// batches reports whether messages may come in arrays.
func (s *clientSession) batches() bool { return s != nil && s.revision.HasBatch() }

// session returns the current session, or nil.
func (c *clientConn) session() *clientSession {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current
}

// setSession makes s the session of the conversation.
func (c *clientConn) setSession(s *clientSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended == nil {
		c.current = s
	}
}

// sendInitialized sends the notification that ends the handshake, waits until the server
// has it, and opens the background stream, so that no request overtakes it.
func (c *clientConn) sendInitialized(ctx context.Context, note *dragoman.Message) error {
	s := c.session()
	mark, err := c.send(note)
	if err != nil {
		return err
	}
	if err := c.out.waitSent(ctx, mark); err != nil {
		return err
	}
	c.awaitBackground(ctx, s)
	return nil
}

// endIfSessionGone ends the conversation if a status says that the server has ended the
// session s, and reports whether it says so.
func (c *clientConn) endIfSessionGone(status int, s *clientSession) bool {
	if status != http.StatusNotFound || s == nil || s.id == "" {
		return false
	}
	c.end(ErrSessionGone)
	return true
}

// checkSession asks whether the session of a call is still there, after a server has
// answered that a conversation is lost: that may be ours, or another behind it. It
// returns why the conversation is over, if it is.
func (c *clientConn) checkSession(k *clientCall) error {
	ping, err := dragoman.NewRequest(dragoman.IntID(1), protocol.MethodPing, nil)
	if err != nil || k.session == nil || k.session.id == "" {
		return err
	}
	p, err := c.begin(k.ctx, ping, nil)
	if err == nil {
		p.session = k.session
		_, err = p.roundTrip(nil)
		_ = p.finish(err) // what counts is whether it has ended the conversation
	} else if errors.Is(err, dragoman.ErrClosed) {
		return err // we are closing it ourselves
	}
	return c.endReason()
}

const (
	// steadyAfter is how long a stream without events must last to count as good.
	steadyAfter = 10 * time.Second

	// listenWait is how long the end of the handshake waits until the
	// background stream is open: what a server sends there before that is lost.
	// Some servers send no header before their first event.
	listenWait = time.Second
)

// backgroundDone returns a channel that is closed when the background stream has ended,
// or nil if there is none now.
func (c *clientConn) backgroundDone(s *clientSession) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s == nil || s.background != backgroundOpen {
		return nil
	}
	return s.backgroundDone
}

// awaitBackground opens the background stream of a session and waits until the server
// has answered, for listenWait at most.
func (c *clientConn) awaitBackground(ctx context.Context, s *clientSession) {
	opened := c.openBackground(s)
	if opened == nil {
		return
	}
	t := time.NewTimer(listenWait)
	defer t.Stop()
	select {
	case <-opened:
	case <-t.C:
	case <-ctx.Done():
	case <-c.ctx.Done():
	}
}

// openBackground opens the background stream of a session. It returns a channel that is
// closed when the server has answered, or nil if the stream is open already or the server
// is known to have none.
func (c *clientConn) openBackground(s *clientSession) <-chan struct{} {
	if s == nil || !s.revision.HasStreamableHTTP() && s.id == "" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended != nil || s.background == backgroundOpen || s.background == backgroundRefused {
		return nil
	}
	s.background = backgroundOpen
	opened, done := make(chan struct{}), make(chan struct{})
	s.backgroundDone = done
	// Ends with the conversation, or when the server has no such stream.
	c.busy.Go(func() {
		became := c.runBackground(s, opened)
		c.mu.Lock()
		s.background = became
		c.mu.Unlock()
		close(done)
	})
	return opened
}

// reopenBackground opens a background stream again that was given up: the server can be
// reached now.
func (c *clientConn) reopenBackground(s *clientSession) {
	c.mu.Lock()
	failed := s != nil && s.background == backgroundFailed && s == c.current
	c.mu.Unlock()
	if failed {
		c.openBackground(s)
	}
}

// runBackground reads the background stream, and opens it again when it breaks. It
// closes answered when the server has answered for the first time, and returns
// what became of the stream.
func (c *clientConn) runBackground(s *clientSession, answered chan<- struct{}) int {
	var u cursor
	opened, first := false, true
	for failures := 0; ; {
		x, err := c.get(c.ctx, s, u.last)
		if first {
			first = false
			close(answered)
		}
		switch {
		case c.ctx.Err() != nil:
			if err == nil {
				x.close()
			}
			return backgroundFailed
		case err != nil:
			failures++
			c.log.Debug("background stream failed", "error", err)
		case x.resp.StatusCode == http.StatusOK && x.isStream():
			opened = true
			if c.readBackground(x, &u) {
				failures = 0
			} else {
				failures++
			}
		default:
			status := x.resp.StatusCode
			err := httpclient.ReadStatus(x.resp)
			x.close()
			if opened && c.endIfSessionGone(status, s) {
				return backgroundRefused
			}
			if !isTemporary(status) {
				c.log.Debug("the server has no background stream", "status", status)
				return backgroundRefused
			}
			failures++
			c.log.Debug("background stream refused", "error", err)
		}
		if failures > c.opts.retry.Attempts {
			c.log.Warn("background stream given up", "failures", failures)
			return backgroundFailed
		}
		if !u.wait(c.ctx, &c.opts.retry, max(failures-1, 0)) {
			return backgroundFailed
		}
	}
}

// readBackground takes what the background stream brings until it ends. It reports
// whether that was a good stream.
func (c *clientConn) readBackground(x *httpCall, u *cursor) bool {
	defer x.close()
	u.count = 0
	began := time.Now()
	if err := c.readOutsideCalls(c.newEventReader(x.resp.Body), source{}, u); !errors.Is(err, io.EOF) && c.ctx.Err() == nil {
		c.log.Debug("background stream broken", "error", err)
	}
	return u.count > 0 || time.Since(began) > steadyAfter
}

// readOutsideCalls takes what a stream brings that belongs to no call, until it ends.
func (c *clientConn) readOutsideCalls(r *sse.Reader, from source, u *cursor) error {
	for {
		e, err := r.Next()
		if errors.Is(err, dragoman.ErrTooLarge) {
			c.log.Warn("message that belongs to no call skipped", "error", err)
			if kind, _ := c.skip(r); kind != dragoman.Invalid {
				continue
			}
		}
		if err != nil {
			return err
		}
		u.advance(e)
		if !e.HasMessage() {
			continue
		}
		// What is returned would be the answer to a call; this stream has none.
		_, _ = c.take(e.Data, from)
	}
}
