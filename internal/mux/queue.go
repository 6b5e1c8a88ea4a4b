package mux

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A queue holds what waits to be written.
type queue struct {
	limit int // bytes

	mu      sync.Mutex
	work    sync.Cond // the writer waits here
	frames  []Frame
	bytes   int           // of frames, and of what is being written
	room    chan struct{} // closed when there is room again; nil while nobody waits
	empty   chan struct{} // closed when all is written; nil while nobody waits
	err     error         // why nothing more is taken
	dropcnt uint64
}

func newQueue(limit int) *queue {
	q := &queue{limit: limit}
	q.work.L = &q.mu
	return q
}

// put queues a frame, and waits for room if there is none.
func (q *queue) put(ctx context.Context, f Frame) error {
	n := f.Len()
	for {
		q.mu.Lock()
		if q.err != nil {
			q.mu.Unlock()
			return q.err
		}
		if q.bytes == 0 || q.bytes+n <= q.limit {
			q.push(f, n)
			q.mu.Unlock()
			return nil
		}
		if q.room == nil {
			q.room = make(chan struct{})
		}
		room := q.room
		q.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// offer queues a message without waiting. If there is no room, progress
// replaces what is queued of it, log messages are dropped, and others may go
// up to twice the limit; beyond that full is true.
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
		q.dropcnt++
		return false, nil
	case m.Method() == protocol.NoteProgress:
		q.newest(m)
		return false, nil
	default:
		full = q.bytes+n > 2*q.limit
	}
	if !full {
		q.push(m, n)
	}
	return full, nil
}

// newest keeps the newest progress of a token.
func (q *queue) newest(m *dragoman.Message) {
	q.dropcnt++
	token := m.Get("progressToken")
	for i := len(q.frames) - 1; i >= 0; i-- {
		old, ok := q.frames[i].(*dragoman.Message)
		if ok && old.Method() == protocol.NoteProgress && bytes.Equal(old.Get("progressToken"), token) {
			q.bytes += m.Len() - old.Len()
			q.frames[i] = m
			return
		}
	}
}

func (q *queue) push(f Frame, n int) {
	q.frames = append(q.frames, f)
	q.bytes += n
	q.work.Signal()
}

// take returns all that is queued, and waits for it. It returns false when the
// queue is closed and empty. spare is memory to use.
func (q *queue) take(spare []Frame) ([]Frame, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.frames) == 0 {
		if q.err != nil {
			return nil, false
		}
		q.work.Wait()
	}
	frames := q.frames
	q.frames = spare[:0]
	return frames, true
}

// written makes room for what has been written.
func (q *queue) written(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes -= n
	if q.room != nil {
		close(q.room)
		q.room = nil
	}
	if q.bytes == 0 && q.empty != nil {
		close(q.empty)
		q.empty = nil
	}
}

// close refuses more. What is queued is still written.
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
	q.work.Broadcast()
}

// drain waits until all is written, for limit at most.
func (q *queue) drain(limit time.Duration) {
	q.mu.Lock()
	if q.bytes == 0 || q.err != nil {
		q.mu.Unlock()
		return
	}
	if q.empty == nil {
		q.empty = make(chan struct{})
	}
	empty := q.empty
	q.mu.Unlock()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-empty:
	case <-t.C:
	}
}

func (q *queue) dropped() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropcnt
}

// write writes what is queued until the queue is closed. Frames that have
// gathered meanwhile go together.
func (c *Conn) write() {
	defer close(c.writer)
	var stall *time.Timer
	if c.opts.Stall > 0 {
		stall = time.AfterFunc(c.opts.Stall, func() {
			c.end(dragoman.ErrSlow)
			_ = c.stream.Close()
		})
		stall.Stop()
	}
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
		if stall != nil {
			stall.Reset(c.opts.Stall)
		}
		err := c.stream.Write(frames)
		if stall != nil {
			stall.Stop()
		}
		clear(frames)
		spare = frames
		c.out.written(n)
		if err != nil {
			c.end(err)
			return
		}
	}
}
