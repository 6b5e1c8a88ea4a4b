package tap

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

// A Stream looks at the two streams of one conversation. What it sees is handed to a
// function, in order, by a goroutine that ends with Close.
type Stream struct {
	queue   *Queue
	running sync.WaitGroup
}

// NewStream returns a Stream whose events are given to show. The caller closes it.
func NewStream(show func(Event)) *Stream {
	s := &Stream{queue: newQueue("")}
	c := newConversation()
	// Ends with the queue.
	s.running.Go(func() {
		for events := s.queue.Next(context.Background()); len(events) > 0; events = s.queue.Next(context.Background()) {
			for _, raw := range events {
				for _, e := range c.read(raw.Time, raw.From, raw.Message) {
					e.Dropped, raw.Dropped = raw.Dropped, 0
					show(e)
				}
			}
		}
	})
	return s
}

// Close waits until all has been shown, and returns how many messages were not at last.
func (s *Stream) Close() (dropped int) {
	dropped = s.queue.close()
	s.running.Wait()
	return dropped
}

func (s *Stream) split(from Side) *splitter {
	return newSplitter(func(text []byte) { s.queue.put(Event{Time: time.Now(), From: from, Message: text}) })
}

// Reader returns r, looked at: what is read there is from one side.
func (s *Stream) Reader(from Side, r io.Reader) io.Reader { return &tappedReader{r, s.split(from)} }

// Writer returns w, looked at: what is written there is from one side. Its Close, which
// does not close w, is the end of the stream.
func (s *Stream) Writer(from Side, w io.Writer) io.WriteCloser {
	return &tappedWriter{w, s.split(from)}
}

type tappedReader struct {
	r     io.Reader
	split *splitter
}

// Read implements io.Reader.
func (t *tappedReader) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	t.split.take(p[:n])
	if err != nil && !errors.Is(err, io.ErrNoProgress) {
		t.split.end()
	}
	return n, err
}

type tappedWriter struct {
	w     io.Writer
	split *splitter
}

// Write implements io.Writer.
func (t *tappedWriter) Write(p []byte) (int, error) {
	t.split.take(p)
	return t.w.Write(p)
}

// Close implements io.Closer.
func (t *tappedWriter) Close() error {
	t.split.end()
	return nil
}
