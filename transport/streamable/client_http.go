package streamable

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/internal/sse"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	clientJSON   = "application/json"
	clientAccept = clientJSON + ", " + sse.ContentType

	// A stream that has brought its answer is read to its end, by at most so many
	// goroutines and for so long. In the modern era, where nothing may follow, so
	// many bytes of it are.
	clientMaxDrains  = 64
	clientDrainTime  = time.Second
	clientDrainBytes = 64 << 10
)

// A clientExchange is one HTTP request and its answer.
type clientExchange struct {
	resp   *http.Response
	cancel context.CancelCauseFunc
	unhook func() bool
}

// do makes a request. It ends with ctx and with the conversation.
func (c *clientConn) do(ctx context.Context, method string, body []byte, set func(http.Header)) (*clientExchange, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	// The answer's body outlives ctx when it is read to its end for nobody.
	hctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	x := &clientExchange{cancel: cancel}
	x.unhook = context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	var err error
	x.resp, err = c.opts.http.Do(hctx, method, c.opts.http.URL, body, set) //nolint:bodyclose // whoever gets x closes it
	if err == nil {
		return x, nil
	}
	x.done()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, clientLost(err)
}

func (x *clientExchange) done() {
	x.unhook()
	x.cancel(nil)
}

// close gives up what has not been read.
func (x *clientExchange) close() {
	x.done()
	_ = x.resp.Body.Close()
}

// recycle reads a stream that has brought its answer to its end in the
// background, so that its connection can be used again. What a legacy server says
// there belongs to no call any more, but may be a question.
func (k *clientCall) recycle(x *clientExchange, r *sse.Reader) {
	c := k.conn
	x.unhook()
	if c.drains.Add(1) <= clientMaxDrains && c.start(func() {
		defer c.drains.Add(-1)
		defer x.close()
		// Both end the reading below.
		t := time.AfterFunc(clientDrainTime, func() { x.cancel(nil) })
		defer t.Stop()
		defer context.AfterFunc(c.ctx, func() { x.cancel(nil) })()
		if k.modern {
			_, _ = io.CopyN(io.Discard, x.resp.Body, clientDrainBytes)
			return
		}
		var u clientCursor
		_ = c.hear(r, clientSource{session: k.session, late: true}, &u)
	}) {
		return
	}
	c.drains.Add(-1)
	x.close()
}

// post sends one message: in a session, if s is not nil, and with headers of the
// modern era, if there are any.
func (c *clientConn) post(ctx context.Context, body []byte, s *clientSession, header http.Header) (*clientExchange, error) {
	return c.do(ctx, http.MethodPost, body, func(h http.Header) {
		h.Set("Accept", clientAccept)
		s.set(h)
		for name, values := range header {
			h[name] = values
		}
	})
}

// get opens an event stream: that of the session, or what follows the event
// with the id last.
func (c *clientConn) get(ctx context.Context, s *clientSession, last string) (*clientExchange, error) {
	return c.do(ctx, http.MethodGet, nil, func(h http.Header) {
		h.Set("Accept", sse.ContentType)
		h.Set("Cache-Control", "no-cache")
		s.set(h)
		if last != "" {
			h.Set(protocol.HeaderLastEventID, last)
		}
	})
}

// tellServer posts a message that has no answer, and waits until the server has
// taken it.
func (c *clientConn) tellServer(ctx context.Context, m *dragoman.Message, s *clientSession) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.opts.bounded, &TimeoutError{After: c.opts.bounded})
	defer cancel()
	var header http.Header
	if protocol.IsModern(m) {
		s, header = nil, clientHeaders(m)
	}
	x, err := c.post(ctx, m.Bytes(), s, header)
	if err != nil {
		return err
	}
	defer x.close()
	if x.resp.StatusCode >= 200 && x.resp.StatusCode <= 299 {
		// An empty body is at its end already, and the connection is free.
		_, _ = io.CopyN(io.Discard, x.resp.Body, 1)
		return nil
	}
	refusal := httpx.ReadStatus(x.resp)
	if x.resp.StatusCode == http.StatusNotFound && s != nil && s.id != "" {
		c.end(ErrSessionGone)
		return c.why()
	}
	return refusal
}

// deleteSession tells the server that a session is over. It need not care.
func (c *clientConn) deleteSession(ctx context.Context, s *clientSession) {
	x, err := c.do(ctx, http.MethodDelete, nil, s.set)
	if err != nil {
		c.log.Debug("session not deleted", "error", err)
		return
	}
	_, _ = io.CopyN(io.Discard, x.resp.Body, clientMaxErrorBody)
	x.close()
}

// mediaType returns what the answer's body is, without parameters.
func (x *clientExchange) mediaType() string { return httpx.MediaType(x.resp.Header) }

// readAll returns the whole body, up to the limit of a message.
func (x *clientExchange) readAll(limit int) ([]byte, error) { return httpx.ReadAll(x.resp, limit) }
