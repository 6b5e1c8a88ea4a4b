package ws

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"
	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/internal/mux"
)

const (
	// fragment is how much of a message is written at once. The library gives a
	// pong five seconds to find a gap between two frames.
	fragment = 256 << 10

	// farewell is how long the other side may take to answer a close.
	farewell = 2 * time.Second

	// verdictWait is how long a write that failed waits for the reader to find
	// out why.
	verdictWait = 200 * time.Millisecond
)

// A socket is a WebSocket as the stream of a conversation.
type socket struct {
	ws    *websocket.Conn
	wire  *wire
	limit int       // bytes of a message
	pings pings     // see ping.go
	conn  *mux.Conn // set before the conversation starts, if it does

	first   []byte      // what was read before the conversation; the next Read returns it
	reading atomic.Bool // somebody is in Read
	closed  func(error) // called once, with the reason; nil if nobody wants to know

	mu      sync.Mutex
	verdict *verdict      // the first one counts
	known   chan struct{} // closed when there is a verdict
	closer  sync.Once
}

var _ mux.Stream = (*socket)(nil)

// newSocket returns a socket that pings every so often, and that may be silent for so
// long after it. Zero means the defaults, negative never and for ever.
func newSocket(c *websocket.Conn, w *wire, limits dragoman.Limits, every, within time.Duration) *socket {
	s := &socket{ws: c, wire: w, limit: limits.Message(), known: make(chan struct{})}
	c.SetReadLimit(int64(s.limit)) // of what is inflated
	w.frames.limit = uint64(s.limit)
	s.pings.start(s, httpx.Duration(every, DefaultPingInterval), httpx.Duration(within, DefaultWriteTimeout))
	return s
}

// because settles why the socket ends, unless that is settled already, and
// returns the reason that counts.
func (s *socket) because(v verdict) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.verdict == nil {
		s.verdict = &v
		close(s.known)
	}
	return s.verdict.err
}

// settled returns why the socket ends, or nil if it does not.
func (s *socket) settled() *verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.verdict
}

// Read implements mux.Stream.
func (s *socket) Read() ([]byte, error) {
	if first := s.first; first != nil {
		s.first = nil
		return first, nil
	}
	s.reading.Store(true)
	defer s.reading.Store(false)
	kind, r, err := s.ws.Reader(context.Background())
	if err != nil {
		return nil, s.because(s.judge(err))
	}
	if kind != websocket.MessageText {
		return nil, s.because(verdict{websocket.StatusUnsupportedData, "only text messages are understood", errBinary})
	}
	data, err := readAll(r)
	if err != nil {
		return nil, s.because(s.judge(err))
	}
	if !utf8.Valid(data) {
		return nil, s.because(verdict{websocket.StatusInvalidFramePayloadData, "the text is not UTF-8", errNotUTF8})
	}
	return data, nil
}

// Write implements mux.Stream. That it ends in time is what mux looks after,
// which closes the socket otherwise.
func (s *socket) Write(frames []mux.Frame) error {
	out, one := getLarge(), getLarge()
	defer larges.Put(out)
	defer larges.Put(one)
	var err error
	for i, f := range frames {
		if i == 0 || s.wire.full() {
			if err = s.wire.flush(); err != nil {
				break
			}
			s.wire.gather(out[:0])
		}
		if err = s.send(textOf(f, one[:0])); err != nil {
			break
		}
	}
	if flushed := s.wire.flush(); err == nil {
		err = flushed
	}
	if err != nil {
		return s.writeFailed(err)
	}
	return nil
}

// textOf returns the text of a frame, in the memory of b if it is not large.
func textOf(f mux.Frame, b []byte) []byte {
	if m, ok := f.(*dragoman.Message); ok && m.Len() > cap(b)/2 {
		return m.Bytes() // as it is, mostly
	}
	return f.AppendTo(b)
}

// send writes one message: in pieces if it is large, so that pongs get through.
func (s *socket) send(data []byte) error {
	ctx := context.Background()
	if len(data) <= fragment {
		return s.ws.Write(ctx, websocket.MessageText, data)
	}
	w, err := s.ws.Writer(ctx, websocket.MessageText)
	if err != nil {
		return err
	}
	for piece := range slices.Chunk(data, fragment) {
		if _, err := w.Write(piece); err != nil {
			return err
		}
	}
	return w.Close()
}

// writeFailed returns why the socket ends. Whoever reads knows better: a close
// of the other side makes writes fail too.
func (s *socket) writeFailed(err error) error {
	t := time.NewTimer(verdictWait)
	defer t.Stop()
	select {
	case <-s.known:
	case <-t.C:
	}
	return s.because(s.judge(err))
}

// Close implements mux.Stream. It tells the other side why.
func (s *socket) Close() error {
	s.closer.Do(s.close)
	return nil
}

func (s *socket) close() {
	s.pings.stop()
	v := s.settled()
	if v == nil {
		v = s.ours()
		_ = s.because(*v)
	}
	if v.code == lost {
		s.wire.cut()
		_ = s.ws.CloseNow()
	} else {
		t := time.AfterFunc(farewell, s.wire.cut)
		_ = s.ws.Close(v.code, v.reason)
		t.Stop()
	}
	if s.closed != nil {
		s.closed(v.err)
	}
}

// ours returns why our own side ends the conversation.
func (s *socket) ours() *verdict {
	var err error
	if s.conn != nil {
		err = s.conn.Err()
	}
	switch {
	case errors.Is(err, dragoman.ErrSlow):
		return &verdict{lost, "", err}
	case errors.Is(err, dragoman.ErrOverloaded):
		return &verdict{websocket.StatusPolicyViolation, "too much at once", err}
	}
	return &verdict{websocket.StatusNormalClosure, "", dragoman.ErrClosed}
}
