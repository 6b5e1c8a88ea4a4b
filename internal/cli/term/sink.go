package term

import (
	"io"
	"sync"
	"time"
)

const (
	// gatherTime is how long lines gather before they are written together: a write for
	// each call would cost more than all else that is said of it.
	gatherTime = 10 * time.Millisecond

	// maxUnread is how much waits to be written. Whoever started us may never read what
	// we say; then it is left out, and nobody waits.
	maxUnread = 1 << 20

	// lastWords is how long the rest may take when we end.
	lastWords = time.Second
)

// A sink writes lines where they are read: at once, or from start to stop in the
// background, so that nobody who speaks waits for who reads.
type sink struct {
	out  io.Writer
	left func(lines int) // is told how many lines were left out

	mu     sync.Mutex
	lines  []byte        // that wait; nothing waits unless more is not nil
	lost   int           // lines that were left out
	more   chan struct{} // holds a token while lines wait; closed by stop
	ended  chan struct{} // closed when the background has written the last
	spare  []byte        // the array of lines that have been written
	closed bool
}

// Write takes a line, whole.
func (s *sink) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.more == nil {
		return s.out.Write(line)
	}
	if len(s.lines)+len(line) > maxUnread {
		s.lost++
		return len(line), nil
	}
	s.lines = append(s.lines, line...)
	if !s.closed {
		select {
		case s.more <- struct{}{}:
		default: // there is one
		}
	}
	return len(line), nil
}

// Start has lines written in the background from now on.
func (s *sink) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.more != nil {
		return
	}
	s.more, s.ended, s.closed = make(chan struct{}, 1), make(chan struct{}), false
	go s.write(s.more, s.ended) // ends with stop, or never if the last line is not read
}

// write writes what has gathered, until stop.
func (s *sink) write(more <-chan struct{}, ended chan<- struct{}) {
	defer close(ended)
	for range more {
		time.Sleep(gatherTime)
		s.flush()
	}
	s.flush()
}

func (s *sink) flush() {
	s.mu.Lock()
	lines, lost := s.lines, s.lost
	s.lines, s.spare, s.lost = s.spare[:0], nil, 0
	s.mu.Unlock()
	if len(lines) > 0 {
		_, _ = s.out.Write(lines) // there is nowhere else to say it
	}
	if cap(lines) > 1<<16 {
		lines = nil
	}
	s.mu.Lock()
	s.spare = lines[:0]
	s.mu.Unlock()
	if lost > 0 && s.left != nil {
		s.left(lost)
	}
}

// stop has what waits written, as far as that is read within a while, and lines written at
// once from then on.
func (s *sink) stop() {
	s.mu.Lock()
	if s.more == nil || s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	close(s.more)
	ended := s.ended
	s.mu.Unlock()
	limit := time.NewTimer(lastWords)
	defer limit.Stop()
	select {
	case <-ended:
	case <-limit.C:
		return // nobody reads; what is said now is left out too
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.out.Write(s.lines) // what was said meanwhile
	s.more, s.lines = nil, nil
}
