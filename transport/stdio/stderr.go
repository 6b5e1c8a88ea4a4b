package stdio

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

const (
	stderrKept    = 64 << 10 // how much of the end is remembered
	stderrLine    = 64 << 10 // where a line is cut
	stderrWaiting = 1 << 20  // how far the callback may fall behind, in bytes
)

// A stderrSink takes everything that a server writes to stderr, as fast as it
// comes, so that the server never blocks on it. It remembers the end and hands
// the lines to a callback.
type stderrSink struct {
	onLine func(string)
	ended  chan struct{} // closed when stderr is at its end and the callback has had every line

	// Owned by drain.
	line []byte // a line without its end yet
	skip bool   // the rest of this line was cut

	mu      sync.Mutex
	ready   *sync.Cond // there are lines, or there will be none
	tail    []byte     // guarded by mu; the last stderrKept bytes are of interest
	lines   []string   // guarded by mu; not yet with the callback
	waiting int        // guarded by mu; the bytes in lines
	dropped int        // guarded by mu; lines the callback will not see
	over    bool       // guarded by mu; no more lines will come
}

// newStderrSink starts to drain r, and closes it at its end.
func newStderrSink(r io.ReadCloser, onLine func(string)) *stderrSink {
	s := &stderrSink{onLine: onLine, ended: make(chan struct{})}
	s.ready = sync.NewCond(&s.mu)
	go s.drain(r)  // until the end of r
	go s.deliver() // until drain has ended
	return s
}

func (s *stderrSink) drain(r io.ReadCloser) {
	defer r.Close()
	buf := make([]byte, 16<<10)
	for {
		n, err := r.Read(buf)
		s.appendTail(buf[:n])
		s.split(buf[:n])
		if err != nil {
			break
		}
	}
	if len(s.line) > 0 {
		s.put(s.line)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.ready.Signal()
}

// appendTail appends text to the tail.
func (s *stderrSink) appendTail(text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.tail)+len(text) > 2*stderrKept {
		s.tail = append(s.tail[:0], s.tail[len(s.tail)-stderrKept:]...)
	}
	s.tail = append(s.tail, text...)
}

// split finds the lines in text.
func (s *stderrSink) split(text []byte) {
	for len(text) > 0 {
		part, rest, whole := bytes.Cut(text, []byte{'\n'})
		text = rest
		if !s.skip {
			room := stderrLine - len(s.line)
			s.line = append(s.line, part[:min(room, len(part))]...)
			s.skip = len(part) > room
			if whole || s.skip {
				s.put(s.line)
				s.line = s.line[:0]
			}
		}
		if whole {
			s.skip = false
		}
	}
}

// put queues a line for the callback.
func (s *stderrSink) put(line []byte) {
	line = bytes.TrimSuffix(line, []byte{'\r'})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting+len(line) > stderrWaiting {
		s.dropped++
		return
	}
	s.lines = append(s.lines, string(line))
	s.waiting += len(line) + 1 // so that empty lines are not free
	s.ready.Signal()
}

// deliver calls the callback, without holding up drain.
func (s *stderrSink) deliver() {
	defer close(s.ended)
	for {
		s.mu.Lock()
		for len(s.lines) == 0 && !s.over {
			s.ready.Wait()
		}
		lines, dropped, over := s.lines, s.dropped, s.over
		s.lines, s.waiting, s.dropped = nil, 0, 0
		s.mu.Unlock()
		for _, line := range lines {
			s.onLine(line)
		}
		if dropped > 0 {
			s.onLine(fmt.Sprintf("(%d lines were dropped: they came faster than they were taken)", dropped))
		}
		if over {
			return
		}
	}
}

// last returns a copy of the end of what was written.
func (s *stderrSink) last() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.tail[max(0, len(s.tail)-stderrKept):])
}
