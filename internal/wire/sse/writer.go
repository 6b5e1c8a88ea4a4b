package sse

import (
	"net/http"
	"os"
	"sync"
	"time"
)

// Defaults of a Writer.
const (
	// KeepAlive is how often a silent stream should carry a comment.
	KeepAlive = 15 * time.Second

	// WriteTimeout is how long one write may take before the reader counts as
	// gone.
	WriteTimeout = 30 * time.Second
)

// A Writer writes events to the answer of an HTTP request. Its owner sees to it
// that one goroutine uses it at a time, and sends a Comment when nothing else
// has been sent for KeepAlive.
type Writer struct {
	w   http.ResponseWriter
	rc  *http.ResponseController
	out []byte
	d   time.Duration

	mu  sync.Mutex // guards the deadline and cut
	cut bool
}

// Start answers a request with an event stream. The headers go out at once,
// with a comment behind them, so that whoever stands in between passes them on.
// A write that takes longer than timeout fails; zero means WriteTimeout.
func Start(w http.ResponseWriter, timeout time.Duration) (*Writer, error) {
	h := w.Header()
	h.Set("Content-Type", ContentType)
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	h.Del("Content-Length")
	h.Del("Content-Encoding")
	if timeout == 0 {
		timeout = WriteTimeout
	}
	s := &Writer{w: w, rc: http.NewResponseController(w), d: timeout}
	w.WriteHeader(http.StatusOK)
	err := s.Comment("ok")
	return s, err
}

// Event writes one event, in one write, and flushes it.
func (s *Writer) Event(e *Event) error {
	s.out = Append(s.out[:0], e)
	return s.Raw(s.out)
}

// Comment writes a comment.
func (s *Writer) Comment(text string) error {
	s.out = AppendComment(s.out[:0], text)
	return s.Raw(s.out)
}

// Raw writes events that Append has made, and flushes them.
func (s *Writer) Raw(events []byte) error {
	if !s.arm() {
		return os.ErrDeadlineExceeded
	}
	_, err := s.w.Write(events)
	if err == nil {
		err = s.rc.Flush()
	}
	if cap(s.out) > keepBuffer {
		s.out = nil
	}
	return err
}

// arm sets the deadline of the next write, unless the stream has been cut.
func (s *Writer) arm() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.cut {
		// Not every ResponseWriter has deadlines; those that have none cannot
		// be stuck on a network.
		_ = s.rc.SetWriteDeadline(time.Now().Add(s.d))
	}
	return !s.cut
}

// Abort makes a write that is in progress, and every later one, fail immediately. Any
// goroutine may call it, as long as the handler of the request has not returned.
func (s *Writer) Abort() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = true
	_ = s.rc.SetWriteDeadline(time.Unix(1, 0))
}

// CloseConn ends the connection in good order while the handler of the request
// continues, and reports whether it could: only HTTP/1.1 lets go of a connection.
func (s *Writer) CloseConn() bool {
	conn, _, err := s.rc.Hijack()
	if err != nil {
		return false
	}
	_, _ = conn.Write([]byte("0\r\n\r\n")) // the last chunk
	_ = conn.Close()
	return true
}
