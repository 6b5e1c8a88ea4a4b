package streamable

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/rpc"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A clientQueue holds notifications for the server. One goroutine sends them, in
// order, while there are any.
type clientQueue struct {
	mu      sync.Mutex
	notes   rpc.Queue[*clientSession] // in which each must be sent; nil: whatever is current
	sending bool
	last    uint64 // the number of the last that was put
	done    uint64 // the number of the last that was sent
	ended   error  // why no more may be put
	waiters []clientWaiter

	// cancelFailed says that the last cancel was given up: then the next is not
	// insisted on, so that they do not pile up. The goroutine that sends owns it.
	cancelFailed bool
}

type clientWaiter struct {
	mark uint64
	done chan error
}

// send queues a notification for the server. It returns a mark to wait for.
func (c *clientConn) send(note *dragoman.Message, s *clientSession) (uint64, error) {
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
	if !q.notes.Put(note, s) {
		c.lost.Add(1)
		if m := note.Method(); m == protocol.NoteProgress || m == protocol.NoteMessage {
			return q.last, nil
		}
		return 0, dragoman.ErrOverloaded
	}
	if q.notes.Len() > waiting {
		q.last++
	}
	if !q.sending && !c.start(c.sendAll) {
		q.notes, q.last = rpc.Queue[*clientSession]{}, q.done
		return 0, c.why()
	}
	q.sending = true
	return q.last, nil
}

// sendAll sends until nothing is left.
func (c *clientConn) sendAll() {
	q := &c.out
	for {
		q.mu.Lock()
		note, s, ok := q.notes.Next()
		if !ok {
			q.sending = false
			q.mu.Unlock()
			return
		}
		mark := q.done + 1
		q.mu.Unlock()
		err := c.sendOne(note, s)
		if err != nil {
			c.log.Debug("notification not taken by the server", "method", note.Method(), "error", err)
		}
		q.mu.Lock()
		q.done = max(q.done, mark) // drain may have given up
		q.wake(err)
		q.mu.Unlock()
	}
}

// sendOne sends a notification.
func (c *clientConn) sendOne(note *dragoman.Message, s *clientSession) error {
	ctx := c.sending // what was queued before the end is still sent, for a while
	if s == nil {
		s = c.session()
	}
	if note.Method() == protocol.NoteCancelled {
		return c.sendCancel(ctx, note, s)
	}
	return c.tellServer(ctx, note, s)
}

// sendCancel sends a cancel, again if the link breaks: who is cancelled would work
// on for nobody. That must not hold up the end of the conversation.
func (c *clientConn) sendCancel(ctx context.Context, note *dragoman.Message, s *clientSession) (err error) {
	if c.out.cancelFailed || c.ctx.Err() != nil {
		err = c.tellServer(ctx, note, s)
	} else {
		err = c.repeat(ctx, c.ctx, note, s)
	}
	_, c.out.cancelFailed = clientPassing(err)
	return err
}

// wake tells those who wait for what has been sent.
func (q *clientQueue) wake(err error) {
	kept := q.waiters[:0]
	for _, w := range q.waiters {
		if w.mark > q.done {
			kept = append(kept, w)
			continue
		}
		if w.mark == q.done {
			w.done <- err
		}
		close(w.done)
	}
	q.waiters = kept
}

// sent waits until what has the mark was sent, and returns why it failed.
func (q *clientQueue) sent(ctx context.Context, mark uint64) error {
	q.mu.Lock()
	if q.done >= mark {
		q.mu.Unlock()
		return nil
	}
	w := clientWaiter{mark, make(chan error, 1)}
	q.waiters = append(q.waiters, w)
	q.mu.Unlock()
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (q *clientQueue) close(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = err
}

// drain waits until nothing is left to send, or limit has passed. Then what is
// left is dropped.
func (q *clientQueue) drain(limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	q.mu.Lock()
	mark := q.last
	q.mu.Unlock()
	_ = q.sent(ctx, mark) // it was logged
	q.mu.Lock()
	defer q.mu.Unlock()
	q.notes = rpc.Queue[*clientSession]{}
	q.done = q.last
	q.wake(q.ended)
}

// What a server takes once however often it comes, answers to its questions and
// cancels, is posted again when the link breaks before the server has said that
// it has it: as often and after such waits as a Retry says. One attempt may take
// so long, and all of them together.
const (
	clientRepeatOne = 10 * time.Second
	clientRepeatAll = time.Minute
)

// repeat posts such a message until the server has taken or refused it. It is
// posted again only as long as while goes on.
func (c *clientConn) repeat(ctx, while context.Context, m *dragoman.Message, s *clientSession) error {
	ctx, cancel := context.WithTimeout(ctx, clientRepeatAll)
	defer cancel()
	err := c.repeatOnce(ctx, m, s)
	if err == nil {
		return nil
	}
	defer context.AfterFunc(while, cancel)()
	for failures := range c.opts.retry.Attempts {
		wait, passes := clientPassing(err)
		if !passes || ctx.Err() != nil {
			break
		}
		u := clientCursor{retry: wait, known: wait > 0}
		if !u.wait(ctx, &c.opts.retry, failures) {
			break
		}
		err = c.repeatOnce(ctx, m, s)
	}
	return err
}

func (c *clientConn) repeatOnce(ctx context.Context, m *dragoman.Message, s *clientSession) error {
	ctx, cancel := context.WithTimeoutCause(ctx, clientRepeatOne, &TimeoutError{After: clientRepeatOne})
	defer cancel()
	return c.tellServer(ctx, m, s)
}

// clientPassing reports whether a message that was not taken may be taken soon, and
// how long the server asks to wait until then.
func clientPassing(err error) (time.Duration, bool) {
	if refusal, ok := errors.AsType[*protocol.StatusError](err); ok {
		return refusal.RetryAfter, clientPasses(refusal.Status)
	}
	return 0, err != nil && !errors.Is(err, ErrSessionGone)
}
