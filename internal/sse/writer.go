package sse

import (
	"net/http"
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
	return s, s.Comment("ok")
}

// Event writes one event, in one write, and flushes it.
func (s *Writer) Event(e *Event) error {
	s.out = Append(s.out[:0], e)
	return s.flush()
}

// Raw writes events that Append has made.
func (s *Writer) Raw(events []byte) error {
	s.out = append(s.out[:0], events...)
	return s.flush()
}

// Comment writes a comment.
func (s *Writer) Comment(text string) error {
	s.out = AppendComment(s.out[:0], text)
	return s.flush()
}

func (s *Writer) flush() error {
	// Not every ResponseWriter has deadlines; those that have none cannot be
	// stuck on a network.
	_ = s.rc.SetWriteDeadline(time.Now().Add(s.d))
	_, err := s.w.Write(s.out)
	if err == nil {
		err = s.rc.Flush()
	}
	if cap(s.out) > keepBuffer {
		s.out = nil
	}
	return err
}
