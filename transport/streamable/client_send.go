package streamable

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpclient"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/wire/sse"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	acceptBoth = "application/json, " + sse.ContentType

	// A stream that has brought its answer is read to its end, by at most so many
	// goroutines and for so long. In the modern era, where nothing may follow, so
	// many bytes of it are.
	maxDrains  = 64
	drainTime  = time.Second
	drainBytes = 64 << 10
)

// An httpCall is one HTTP request and its answer.
type httpCall struct {
	resp      *http.Response
	cancel    context.CancelCauseFunc
	stopWatch func() bool
}

// do makes a request. It ends with ctx and with the conversation.
func (c *clientConn) do(ctx context.Context, method string, body []byte, set func(http.Header)) (*httpCall, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	// The answer's body outlives ctx when it is read to its end for nobody.
	hctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	x := &httpCall{cancel: cancel}
	x.stopWatch = context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	var err error
	x.resp, err = c.opts.http.Do(hctx, method, c.opts.http.URL, body, set) //nolint:bodyclose // the caller closes x
	if err == nil {
		return x, nil
	}
	x.done()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, httpclient.NoResponse(fmt.Errorf("streamable: the request failed: %w", err))
}

func (x *httpCall) done() {
	x.stopWatch()
	x.cancel(nil)
}

// close ends the request, also if its answer has not been read.
func (x *httpCall) close() {
	x.done()
	_ = x.resp.Body.Close()
}

// readToEnd reads a stream that has brought its answer to its end in the
// background, so that its connection can be used again. What a legacy server says
// there belongs to no call any more, but may be a question.
func (k *clientCall) readToEnd(x *httpCall, r *sse.Reader) {
	c := k.conn
	x.stopWatch()
	if c.drains.Add(1) <= maxDrains && c.start(func() {
		defer c.drains.Add(-1)
		defer x.close()
		// Both end the reading below.
		t := time.AfterFunc(drainTime, func() { x.cancel(nil) })
		defer t.Stop()
		defer context.AfterFunc(c.ctx, func() { x.cancel(nil) })()
		if k.modern {
			_, _ = io.CopyN(io.Discard, x.resp.Body, drainBytes)
			return
		}
		var u cursor
		_ = c.readOutsideCalls(r, source{late: true}, &u)
	}) {
		return
	}
	c.drains.Add(-1)
	x.close()
}

// post sends one message: in a session, if s is not nil, and with headers of the
// modern era, if there are any.
func (c *clientConn) post(ctx context.Context, body []byte, s *clientSession, header http.Header) (*httpCall, error) {
	return c.do(ctx, http.MethodPost, body, func(h http.Header) {
		h.Set("Accept", acceptBoth)
		s.set(h)
		for name, values := range header {
			h[name] = values
		}
	})
}

// get opens an event stream: that of the session, or what follows the event
// with the id last.
func (c *clientConn) get(ctx context.Context, s *clientSession, last string) (*httpCall, error) {
	return c.do(ctx, http.MethodGet, nil, func(h http.Header) {
		h.Set("Accept", sse.ContentType)
		h.Set("Cache-Control", "no-cache")
		s.set(h)
		if last != "" {
			h.Set(protocol.HeaderLastEventID, last)
		}
	})
}

// postOneWay posts a message that has no answer, and waits until the server has
// taken it.
func (c *clientConn) postOneWay(ctx context.Context, m *dragoman.Message) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.opts.oneWayTimeout, &dragoman.TimeoutError{After: c.opts.oneWayTimeout})
	defer cancel()
	s, header := c.session(), http.Header(nil)
	if protocol.IsModern(m) {
		s, header = nil, modernHeaders(m)
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
	refusal := httpclient.ReadStatus(x.resp)
	if c.endIfSessionGone(refusal.Status, s) {
		return c.endReason()
	}
	return refusal
}

// deleteSession tells the server that a session is over. Its answer does not matter.
func (c *clientConn) deleteSession(ctx context.Context, s *clientSession) {
	x, err := c.do(ctx, http.MethodDelete, nil, s.set)
	if err != nil {
		c.log.Debug("session not deleted", "error", err)
		return
	}
	_, _ = io.CopyN(io.Discard, x.resp.Body, httpclient.MaxErrorBody)
	x.close()
}

// isStream reports whether the answer is an event stream.
func (x *httpCall) isStream() bool { return httpframe.MediaType(x.resp.Header) == sse.ContentType }

// A noteQueue holds notifications for the server. One goroutine sends them, in
// order, while there are any.
type noteQueue struct {
	mu      sync.Mutex
	notes   jsonrpc.Queue[struct{}]
	sending bool
	last    uint64 // the number of the last that was put
	done    uint64 // the number of the last that was sent
	ended   error  // why no more are taken
	waiters []waiter

	// lastCancelFailed says that the last cancel was given up: then the next is sent
	// only once, so that they do not pile up. Owned by the goroutine that sends.
	lastCancelFailed bool
}

type waiter struct {
	mark uint64
	done chan error
}

// send queues a notification for the server. It returns a mark to wait for.
func (c *clientConn) send(note *dragoman.Message) (uint64, error) {
	if note.Len() > c.opts.limits.Message() {
		return 0, dragoman.ErrTooLarge
	}
	q := &c.out
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended != nil {
		return 0, q.ended
	}
	waiting := q.notes.Len()
	if !q.notes.Put(note, struct{}{}) {
		if m := note.Method(); m == protocol.NoteProgress || m == protocol.NoteMessage {
			return q.last, nil
		}
		return 0, dragoman.ErrOverloaded
	}
	if q.notes.Len() > waiting {
		q.last++
	}
	if !q.sending && !c.start(c.sendAll) {
		q.notes, q.last = jsonrpc.Queue[struct{}]{}, q.done
		return 0, c.endReason()
	}
	q.sending = true
	return q.last, nil
}

// sendAll sends until nothing is left.
func (c *clientConn) sendAll() {
	q := &c.out
	for {
		q.mu.Lock()
		note, _, ok := q.notes.Next()
		if !ok {
			q.sending = false
			q.mu.Unlock()
			return
		}
		mark := q.done + 1
		q.mu.Unlock()
		err := c.sendOne(note)
		if err != nil {
			c.log.Debug("notification not taken by the server", "method", note.Method(), "error", err)
		}
		q.mu.Lock()
		q.done = max(q.done, mark) // drain may have set it already
		q.wake(err)
		q.mu.Unlock()
	}
}

// sendOne sends a notification. A cancel is sent again if the link breaks, because the
// server would continue with the request, but not once the conversation is over.
func (c *clientConn) sendOne(note *dragoman.Message) (err error) {
	ctx := c.sending // what was queued before the end is still sent, for a while
	if note.Method() != protocol.NoteCancelled {
		return c.postOneWay(ctx, note)
	}
	if c.out.lastCancelFailed || c.ctx.Err() != nil {
		err = c.postOneWay(ctx, note)
	} else {
		err = c.repeat(ctx, c.ctx, note)
	}
	_, c.out.lastCancelFailed = retryDelay(err)
	return err
}

// wake wakes those who wait for what has been sent, or failed with err. mu is held.
func (q *noteQueue) wake(err error) {
	others := q.waiters[:0]
	for _, w := range q.waiters {
		if w.mark > q.done {
			others = append(others, w)
			continue
		}
		if w.mark == q.done {
			w.done <- err
		}
		close(w.done)
	}
	q.waiters = others
}

// waitSent waits until the notification with the mark was sent, and returns why it failed.
func (q *noteQueue) waitSent(ctx context.Context, mark uint64) error {
	q.mu.Lock()
	if q.done >= mark {
		q.mu.Unlock()
		return nil
	}
	w := waiter{mark, make(chan error, 1)}
	q.waiters = append(q.waiters, w)
	q.mu.Unlock()
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (q *noteQueue) close(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = err
}

// drain waits until nothing is left to send, or limit has passed. Then what is
// left is dropped.
func (q *noteQueue) drain(limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	q.mu.Lock()
	mark := q.last
	q.mu.Unlock()
	_ = q.waitSent(ctx, mark) // it was logged
	q.mu.Lock()
	defer q.mu.Unlock()
	q.notes = jsonrpc.Queue[struct{}]{}
	q.done = q.last
	q.wake(q.ended)
}

// Answers to questions of the server and cancels may come twice: the server ignores the
// second. So they are posted again, as Retry says, when the link breaks before the server
// has confirmed them.
const (
	repeatOne = 10 * time.Second // how long one attempt may take
	repeatAll = time.Minute      // how long all attempts may take
)

// repeat posts such a message until the server has taken or refused it. It is
// posted again only as long as the context while has not ended.
func (c *clientConn) repeat(ctx, while context.Context, m *dragoman.Message) error {
	ctx, cancel := context.WithTimeout(ctx, repeatAll)
	defer cancel()
	err := c.repeatOnce(ctx, m)
	if err == nil {
		return nil
	}
	defer context.AfterFunc(while, cancel)()
	for failures := range c.opts.retry.Attempts {
		wait, passes := retryDelay(err)
		if !passes || ctx.Err() != nil {
			break
		}
		u := cursor{retry: wait, known: wait > 0}
		if !u.wait(ctx, &c.opts.retry, failures) {
			break
		}
		err = c.repeatOnce(ctx, m)
	}
	return err
}

func (c *clientConn) repeatOnce(ctx context.Context, m *dragoman.Message) error {
	ctx, cancel := context.WithTimeoutCause(ctx, repeatOne, &dragoman.TimeoutError{After: repeatOne})
	defer cancel()
	return c.postOneWay(ctx, m)
}

// retryDelay reports whether a message that was not taken may be taken soon, and
// how long the server asks to wait until then.
func retryDelay(err error) (time.Duration, bool) {
	if refusal, ok := errors.AsType[*protocol.StatusError](err); ok {
		return refusal.RetryAfter, isTemporary(refusal.Status)
	}
	return 0, err != nil && !errors.Is(err, dragoman.ErrClosed)
}
