package streamable

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/internal/sse"
)

const (
	// clientSteady is how long a stream without events must last to count as one.
	clientSteady = 10 * time.Second

	// clientListenWait is how long the end of the handshake waits until the
	// background stream is open: what a server says there before that is lost.
	// Some send no header before they have something to say.
	clientListenWait = time.Second
)

// hears returns what is closed when there is no background stream any more, or
// nil if there is none now.
func (c *clientConn) hears(s *clientSession) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s == nil || s.listening != clientListens {
		return nil
	}
	return s.deaf
}

// awaitStream waits until the background stream of a session is open, or the server has
// said otherwise, but not for long.
func (c *clientConn) awaitStream(ctx context.Context, s *clientSession) {
	opened := c.listen(s)
	if opened == nil {
		return
	}
	t := time.NewTimer(clientListenWait)
	defer t.Stop()
	select {
	case <-opened:
	case <-t.C:
	case <-ctx.Done():
	case <-c.ctx.Done():
	}
}

// listen opens the background stream of a session, unless it is open, or the
// server is known to have none: then it returns nil. What it returns is closed
// when the server has answered.
func (c *clientConn) listen(s *clientSession) <-chan struct{} {
	if s == nil || !s.revision.HasStreamableHTTP() && s.id == "" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended != nil || s.listening == clientListens || s.listening == clientRefused {
		return nil
	}
	s.listening = clientListens
	opened, deaf := make(chan struct{}), make(chan struct{})
	s.deaf = deaf
	// Ends with the conversation, or when the server has no such stream.
	c.busy.Go(func() {
		became := c.listener(s, opened)
		c.mu.Lock()
		s.listening = became
		c.mu.Unlock()
		close(deaf)
	})
	return opened
}

// relisten opens a background stream again that was given up: the server can be
// reached now.
func (c *clientConn) relisten(s *clientSession) {
	c.mu.Lock()
	failed := s != nil && s.listening == clientFailed && s == c.current
	c.mu.Unlock()
	if failed {
		c.listen(s)
	}
}

// listener reads the background stream, and opens it again when it breaks. It
// closes answered when the server has answered for the first time, and returns
// what became of the stream.
func (c *clientConn) listener(s *clientSession, answered chan<- struct{}) int {
	var u clientCursor
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
			return clientFailed
		case err != nil:
			failures++
			c.log.Debug("background stream failed", "error", err)
		case x.resp.StatusCode == http.StatusOK && x.mediaType() == sse.ContentType:
			opened = true
			if c.background(x, s, &u) {
				failures = 0
			} else {
				failures++
			}
		default:
			status := x.resp.StatusCode
			err := httpx.ReadStatus(x.resp)
			x.close()
			if status == http.StatusNotFound && opened && s.id != "" {
				c.end(ErrSessionGone)
				return clientRefused
			}
			if !clientPasses(status) {
				c.log.Debug("the server has no background stream", "status", status)
				return clientRefused
			}
			failures++
			c.log.Debug("background stream refused", "error", err)
		}
		if failures > c.opts.retry.Attempts {
			c.log.Warn("background stream given up", "failures", failures)
			return clientFailed
		}
		if !u.wait(c.ctx, &c.opts.retry, max(failures-1, 0)) {
			return clientFailed
		}
	}
}

// background takes what the background stream brings until it ends. It tells
// whether that was a good stream.
func (c *clientConn) background(x *clientExchange, s *clientSession, u *clientCursor) bool {
	defer x.close()
	u.count = 0
	began := time.Now()
	if err := c.hear(c.events(x.resp.Body), clientSource{session: s}, u); !errors.Is(err, io.EOF) && c.ctx.Err() == nil {
		c.log.Debug("background stream broken", "error", err)
	}
	return u.count > 0 || time.Since(began) > clientSteady
}

// hear takes what a stream brings that belongs to no call, until it ends.
func (c *clientConn) hear(r *sse.Reader, from clientSource, u *clientCursor) error {
	for {
		e, err := r.Next()
		if errors.Is(err, dragoman.ErrTooLarge) {
			c.log.Warn("message that belongs to no call skipped", "error", err)
			if kind, _ := c.skip(r, from.session); kind != dragoman.Invalid {
				continue
			}
		}
		if err != nil {
			return err
		}
		u.note(e)
		if len(e.Data) == 0 || e.Name != "" && e.Name != "message" {
			continue
		}
		// What is returned would be the answer to a call; this stream has none.
		_, _ = c.take(e.Data, from)
	}
}
