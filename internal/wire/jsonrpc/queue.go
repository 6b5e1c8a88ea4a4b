package jsonrpc

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A queue holds what waits to be written. A caller that finds nothing waiting and
// nothing being written writes at once, on its own goroutine; what comes
// meanwhile is left to the goroutine that writes, which takes it together.
type queue struct {
	limit  int  // bytes
	queued bool // all is left to the goroutine that writes
	to     func([]Frame) error

	mu      sync.Mutex
	work    sync.Cond // the writer waits here
	frames  []Frame
	writing bool          // somebody writes
	own     [1]Frame      // what a goroutine other than the writer writes
	bytes   int           // of frames, and of what is being written
	sent    uint64        // bytes taken since the beginning
	read    uint64        // how many of them the other side has read for sure
	room    chan struct{} // closed when there is room again; nil while nobody waits
	empty   chan struct{} // closed when all is written or nothing more is taken; nil while nobody waits
	err     error         // why nothing more is taken
}

func newQueue(limit int, to func([]Frame) error) *queue {
	q := &queue{limit: limit, to: to}
	q.work.L = &q.mu
	return q
}

// directWriteLimit is how many bytes the other side may not have read yet for a
// caller who may not block to write itself. It is less than any pipe or socket
// holds, so such a write does not block.
const directWriteLimit = 8 << 10

// put queues a frame, and waits for room if there is none. If nobody else
// writes, it writes the frame itself; that may take as long as the other side
// takes to read, whatever becomes of ctx, so a caller that may not block does so only if
// the other side is known to have read what came before. The mark says what has
// been sent up to and with this frame. It gives up when ctx ends, or with
// errInterrupted when stop holds something.
func (q *queue) put(ctx context.Context, stop <-chan struct{}, f Frame, mayBlock bool) (mark uint64, err error) {
	n := f.Len()
	for {
		q.mu.Lock()
		if q.err != nil {
			q.mu.Unlock()
			return 0, q.err
		}
		if !q.queued && !q.writing && len(q.frames) == 0 && (mayBlock || q.sent-q.read+uint64(n) <= directWriteLimit) { // #nosec G115 -- a length
			return q.writeNow(f, n)
		}
		if q.bytes == 0 || q.bytes+n <= q.limit {
			q.push(f, n)
			mark = q.sent
			q.mu.Unlock()
			return mark, nil
		}
		if q.room == nil {
			q.room = make(chan struct{})
		}
		room := q.room
		q.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-stop:
			return 0, errInterrupted
		}
	}
}

// wasRead notes that the other side has read all up to mark.
func (q *queue) wasRead(mark uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.read = max(q.read, mark)
}

// writeNow writes a frame. q.mu is locked, and unlocked when it returns.
func (q *queue) writeNow(f Frame, n int) (mark uint64, err error) {
	markSent(f)
	q.writing = true
	q.bytes += n
	q.sent += uint64(n) // #nosec G115 -- a length
	mark = q.sent
	q.own[0] = f
	q.mu.Unlock()
	err = q.to(q.own[:])
	q.own[0] = nil
	q.written(n)
	return mark, err
}

// offer queues a message without waiting. If there is no room, progress
// replaces what is queued of it, log messages are dropped, and others, with the first
// progress of a call, may go up to twice the limit; beyond that progress is dropped, too,
// and full is true for the rest.
func (q *queue) offer(m *dragoman.Message) (full bool, err error) {
	n := m.Len()
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.err != nil:
		return false, q.err
	case q.bytes == 0 || q.bytes+n <= q.limit:
	case m.Kind() != dragoman.Notification:
		full = q.bytes+n > 2*q.limit
	case m.Method() == protocol.NoteMessage:
		return false, nil
	case m.Method() == protocol.NoteProgress:
		if q.replaceProgress(m) || q.bytes+n > 2*q.limit {
			return false, nil
		}
	default:
		full = q.bytes+n > 2*q.limit
	}
	if !full {
		q.push(m, n)
	}
	return full, nil
}

// replaceProgress keeps the newest progress of a token, and reports whether there was
// any.
func (q *queue) replaceProgress(m *dragoman.Message) bool {
	token := m.Get("progressToken")
	for i := len(q.frames) - 1; i >= 0; i-- {
		old, ok := q.frames[i].(*dragoman.Message)
		if ok && old.Method() == protocol.NoteProgress && bytes.Equal(old.Get("progressToken"), token) {
			q.bytes += m.Len() - old.Len()
			q.frames[i] = m
			return true
		}
	}
	return false
}

// markSent notes that a request is in the queue, and so on its way: what the other side asks from now
// on may belong to it.
func markSent(f Frame) {
	if k, ok := f.(*Call); ok {
		k.Sent()
	}
}

func (q *queue) push(f Frame, n int) {
	markSent(f)
	q.frames = append(q.frames, f)
	q.bytes += n
	q.sent += uint64(n) // #nosec G115 -- a length
	if !q.writing {
		q.work.Signal()
	}
}

// take returns all that is queued, and waits for it. It returns false when the
// queue is closed and empty. spare is memory to use.
func (q *queue) take(spare []Frame) ([]Frame, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.frames) == 0 || q.writing {
		if q.err != nil && !q.writing {
			return nil, false
		}
		q.work.Wait()
	}
	q.writing = true
	frames := q.frames
	q.frames = spare[:0]
	return frames, true
}

// written makes room for what has been written.
func (q *queue) written(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes -= n
	q.writing = false
	if len(q.frames) > 0 || q.err != nil {
		q.work.Signal()
	}
	if q.room != nil {
		close(q.room)
		q.room = nil
	}
	if q.bytes == 0 && q.empty != nil {
		close(q.empty)
		q.empty = nil
	}
}

// close refuses more. What is queued is still written, but nobody waits for it.
func (q *queue) close(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = err
	}
	if q.room != nil {
		close(q.room)
		q.room = nil
	}
	if q.empty != nil {
		close(q.empty)
		q.empty = nil
	}
	q.work.Broadcast()
}

// whenEmpty returns what is closed when all is written, or the queue is closed.
func (q *queue) whenEmpty() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.bytes == 0 || q.err != nil {
		now := make(chan struct{})
		close(now)
		return now
	}
	if q.empty == nil {
		q.empty = make(chan struct{})
	}
	return q.empty
}

// drain waits until all is written, for limit at most.
func (q *queue) drain(limit time.Duration) {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-q.whenEmpty():
	case <-t.C:
	}
}

// write writes what is queued until the queue is closed. Frames that have
// gathered meanwhile go together.
func (c *Conn) write() {
	defer close(c.writeDone)
	var spare []Frame
	for {
		frames, ok := c.out.take(spare)
		if !ok {
			return
		}
		n := 0
		for _, f := range frames {
			n += f.Len()
		}
		_ = c.writeOut(frames)
		clear(frames)
		spare = frames
		c.out.written(n)
	}
}

// writeOut gives frames to the stream. A stream that fails, or does not take
// them in time, ends the conversation. One goroutine at a time calls it.
func (c *Conn) writeOut(frames []Frame) error {
	if c.opts.Stall > 0 {
		if c.stall == nil {
			c.stall = time.AfterFunc(c.opts.Stall, func() {
				c.end(dragoman.ErrSlow)
				_ = c.stream.Close()
			})
		} else {
			c.stall.Reset(c.opts.Stall)
		}
		defer c.stall.Stop()
	}
	if err := c.stream.Write(frames); err != nil {
		c.end(err)
		<-c.done
		return c.err
	}
	return nil
}
