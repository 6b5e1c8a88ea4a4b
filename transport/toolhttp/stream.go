package toolhttp

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/sse"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	// maxFragments and maxFragmentBytes are how much may wait for a caller that
	// reads slowly. Fragments beyond that are left out.
	maxFragments     = 1024
	maxFragmentBytes = 4 << 20
)

// Names of events.
const (
	eventResult   = "result"
	eventComplete = "complete"
	eventError    = "error"
)

// heartbeat is the comment that keeps an idle stream open.
const heartbeat = "heartbeat"

// A stream is the answer to a call as events. Notify adds progress to a
// queue; one goroutine writes it.
type stream struct {
	req    *dragoman.Message
	out    *sse.Writer
	wake   chan struct{} // has room for one; something is to be written
	served chan struct{} // closed when the writer has ended

	mu       sync.Mutex
	queue    []*sse.Event
	size     int  // bytes of queue
	finished bool // the queue ends with the answer, or the caller is gone
}

// serveStream makes the call by ask, and answers with events.
func (c *call) serveStream(ask func(from dragoman.Peer) *dragoman.Message, cancel context.CancelCauseFunc) error {
	s := c.server
	out, err := c.x.Events()
	if err != nil {
		return nil //nolint:nilerr // the caller is gone
	}
	st := &stream{req: c.req, out: out, wake: make(chan struct{}, 1), served: make(chan struct{})}
	// Ends with the answer, or when the caller is gone, which makes writes fail.
	go func() {
		defer close(st.served)
		if err := st.write(s.keepAlive); err != nil {
			st.discard()
			if errors.Is(err, os.ErrDeadlineExceeded) {
				s.base.Log.Debug("a caller does not read its stream", "tool", c.req.Name())
			}
			cancel(dragoman.ErrCancelled)
		}
	}()
	resp, _ := toolAnswer(c.req, ask(st)) // the status is 200 by now
	st.finish(resp)
	<-st.served // which the endpoint's limits see to
	return nil
}

// discard drops the queue when the caller is gone.
func (st *stream) discard() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.queue, st.size, st.finished = nil, 0, true
}

// write writes what is queued until the answer has been written.
func (st *stream) write(keepAlive time.Duration) error {
	t := time.NewTimer(keepAlive)
	defer t.Stop()
	for {
		events, over := st.take()
		for _, e := range events {
			if err := st.out.Event(e); err != nil {
				return err
			}
		}
		if over {
			return nil
		}
		t.Reset(keepAlive)
		select {
		case <-st.wake:
		case <-t.C:
			if err := st.out.Comment(heartbeat); err != nil {
				return err
			}
		}
	}
}

// take returns what is to be written, and whether the answer is at its end.
func (st *stream) take() (events []*sse.Event, over bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	events = st.queue
	st.queue, st.size = nil, 0
	return events, st.finished
}

// finish queues the answer.
func (st *stream) finish(resp *dragoman.Message) {
	e := &sse.Event{Name: eventComplete, Data: resp.Bytes()}
	if resp.IsError() {
		e.Name = eventError
	}
	st.mu.Lock()
	st.queue = append(st.queue, e)
	st.finished = true
	st.mu.Unlock()
	st.signal()
}

func (st *stream) signal() {
	select {
	case st.wake <- struct{}{}:
	default: // it is awake already
	}
}

// Call implements dragoman.Peer: the caller cannot be asked.
func (st *stream) Call(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	return req.Fail(&dragoman.Error{
		Code: protocol.CodeMethodNotFound, Message: "a caller over plain HTTP cannot be asked",
	}), nil
}

// Notify implements dragoman.Peer: progress becomes a fragment, all else is
// nothing to the caller.
func (st *stream) Notify(_ context.Context, note *dragoman.Message) error {
	data := fragment(note)
	if data == nil {
		return nil
	}
	st.mu.Lock()
	if !st.finished && len(st.queue) < maxFragments && (st.size == 0 || st.size+len(data) <= maxFragmentBytes) {
		st.queue = append(st.queue, &sse.Event{Name: eventResult, Data: data})
		st.size += len(data)
	}
	st.mu.Unlock()
	st.signal()
	return nil
}
