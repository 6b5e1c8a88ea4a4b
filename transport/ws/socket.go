package ws

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"
	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
)

const (
	// fragment is how much of a message is written at once. The library gives a
	// pong five seconds to find a gap between two frames.
	fragment = 256 << 10

	// closeTimeout is how long the other side may take to answer a close.
	closeTimeout = 2 * time.Second

	// reasonWait is how long a write that failed waits for the reader to find
	// out why.
	reasonWait = 200 * time.Millisecond
)

// A socket is a WebSocket as the stream of a conversation.
type socket struct {
	ws    *websocket.Conn
	wire  *wire
	limit int // bytes of a message
	pings pings
	conn  *jsonrpc.Conn // set before the conversation starts, if it does

	in      counted     // what Read reads from
	first   []byte      // what was read before the conversation; the next Read returns it
	reading atomic.Bool // Read is running
	closed  func(error) // called once, with the reason; may be nil

	mu          sync.Mutex
	closeReason *closeReason  // the first one counts
	reasonSet   chan struct{} // closed when closeReason is set
	closer      sync.Once
}

var _ jsonrpc.Stream = (*socket)(nil)

// newSocket returns a socket that pings every so often, and that may be silent for so
// long after it. Zero means the defaults, negative never and forever.
func newSocket(c *websocket.Conn, w *wire, limits dragoman.Limits, interval, timeout time.Duration) *socket {
	s := &socket{ws: c, wire: w, limit: limits.Message(), reasonSet: make(chan struct{})}
	c.SetReadLimit(int64(s.limit))   // of what is inflated
	w.frames.limit = uint64(s.limit) // #nosec G115 -- limits are positive
	s.pings.start(s, httpframe.Duration(interval, DefaultPingInterval), httpframe.Duration(timeout, DefaultWriteTimeout))
	return s
}

// setReason sets why the socket ends, unless that is set already, and returns the
// error of the reason that is set.
func (s *socket) setReason(v closeReason) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closeReason == nil {
		s.closeReason = &v
		close(s.reasonSet)
	}
	return s.closeReason.err
}

// reason returns why the socket ends, or nil if it does not.
func (s *socket) reason() *closeReason {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closeReason
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
		return nil, s.setReason(s.reasonOf(err))
	}
	if kind != websocket.MessageText {
		return nil, s.setReason(closeReason{websocket.StatusUnsupportedData, "only text messages are understood", errBinary})
	}
	s.in.reset(r)
	data, err := readAll(&s.in)
	s.in.hold.Release() // a request is counted by who serves it
	if err != nil {
		return nil, s.setReason(s.reasonOf(err))
	}
	if !utf8.Valid(data) {
		return nil, s.setReason(closeReason{websocket.StatusInvalidFramePayloadData, "the text is not UTF-8", errNotUTF8})
	}
	return data, nil
}

// Write implements mux.Stream. It has no deadline: mux closes a
// socket whose write takes too long.
func (s *socket) Write(frames []jsonrpc.Frame) error {
	out, one := getLarge(), getLarge()
	defer larges.Put(out)
	defer larges.Put(one)
	var err error
	for i, f := range frames {
		if i == 0 || s.wire.full() {
			if err = s.wire.flush(); err != nil {
				break
			}
			s.wire.buffer(out[:0])
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
func textOf(f jsonrpc.Frame, b []byte) []byte {
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

// writeFailed returns why the socket ends. It waits for the reader, which knows more:
// writes also fail when the other side has closed the socket.
func (s *socket) writeFailed(err error) error {
	t := time.NewTimer(reasonWait)
	defer t.Stop()
	select {
	case <-s.reasonSet:
	case <-t.C:
	}
	return s.setReason(s.reasonOf(err))
}

// Close implements mux.Stream. It sends the close frame.
func (s *socket) Close() error {
	s.closer.Do(s.close)
	return nil
}

func (s *socket) close() {
	s.pings.stop()
	v := s.reason()
	if v == nil {
		v = s.localReason()
		_ = s.setReason(*v)
	}
	if v.code == noCode {
		s.wire.cut()
		_ = s.ws.CloseNow()
	} else {
		t := time.AfterFunc(closeTimeout, s.wire.cut)
		_ = s.ws.Close(v.code, v.text)
		t.Stop()
	}
	if s.closed != nil {
		s.closed(v.err)
	}
}

// localReason returns why our own side ends the conversation.
func (s *socket) localReason() *closeReason {
	var err error
	if s.conn != nil {
		err = s.conn.Err()
	}
	switch {
	case errors.Is(err, dragoman.ErrSlow):
		return &closeReason{noCode, "", err}
	case errors.Is(err, dragoman.ErrOverloaded):
		return &closeReason{websocket.StatusPolicyViolation, "too much at once", err}
	}
	return &closeReason{websocket.StatusNormalClosure, "", dragoman.ErrClosed}
}

// Defaults of Server and Client.
const (
	// DefaultPingInterval is how often the other side is pinged.
	DefaultPingInterval = 25 * time.Second

	// DefaultWriteTimeout is how long one write may take, and how long the other
	// side may be silent after a ping.
	DefaultWriteTimeout = 30 * time.Second
)

// pings detects that the other side is gone. It has a timer instead
// of a goroutine: most sockets are idle most of the time.
type pings struct {
	socket   *socket
	interval time.Duration
	timeout  time.Duration

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

func (p *pings) start(s *socket, interval, timeout time.Duration) {
	p.socket, p.interval, p.timeout = s, interval, timeout
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(interval, p.ping)
}

func (p *pings) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	if p.timer != nil {
		p.timer.Stop()
	}
}

// ping sends a ping and closes the connection if nothing is read in time. Anything
// counts as an answer; while Read is not running, none can be seen.
func (p *pings) ping() {
	s := p.socket
	reads, reading := s.wire.reads.Load(), s.reading.Load()
	ctx, cancel := context.WithTimeout(context.Background(), p.timeout)
	defer cancel()
	err := s.ws.Ping(ctx)
	if err != nil && ctx.Err() != nil && reading && s.reading.Load() && s.wire.reads.Load() == reads {
		_ = s.setReason(closeReason{noCode, "", errNoPong})
		s.wire.cut() // makes Read return
		return
	}
	// If the ping could not be written, another write is in progress, which has a
	// limit of its own; or the socket is closed, and stop is called.
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stopped {
		p.timer.Reset(p.interval)
	}
}

// A CloseError says that the other side closed the socket, and how. It is
// [dragoman.ErrTooLarge] if a message of ours was too large for it.
type CloseError struct {
	Code   int    // 1000, say; 1005 if the other side gave none
	Reason string // what the other side said, perhaps nothing
}

// Error implements error.
func (e *CloseError) Error() string {
	s := fmt.Sprintf("ws: the other side closed the socket with code %d", e.Code)
	if e.Reason != "" {
		s += ": " + strings.ToValidUTF8(e.Reason, "\uFFFD")
	}
	return s
}

// Unwrap returns what the code means to a caller, or nil.
func (e *CloseError) Unwrap() error {
	switch websocket.StatusCode(e.Code) {
	case websocket.StatusMessageTooBig:
		return dragoman.ErrTooLarge
	case websocket.StatusNormalClosure, websocket.StatusGoingAway:
		return io.EOF // in good order, as that of any stream
	}
	return nil
}

// noCode means that no close frame is sent.
const noCode websocket.StatusCode = -1

// A closeReason is why a socket ends: code and text for the other side, the error for
// ours.
type closeReason struct {
	code websocket.StatusCode
	text string
	err  error
}

var (
	errConnectionLost = errors.New("ws: the connection was lost without a close")
	errNoPong         = errors.New("ws: the other side answers no ping")
	errBinary         = errors.New("ws: the other side sent a binary message")
	errNotUTF8        = errors.New("ws: the other side sent text that is not UTF-8")
	errStopping       = errors.New("ws: the server is stopping")
)

// reasonOf returns the reason that an error of the library stands for.
func (s *socket) reasonOf(err error) closeReason {
	var closed websocket.CloseError
	var network net.Error
	switch {
	case errors.As(err, &closed):
		return closeReason{closed.Code, "", &CloseError{int(closed.Code), closed.Reason}}
	case errors.Is(err, websocket.ErrMessageTooBig), errors.Is(err, errFrame):
		return closeReason{websocket.StatusMessageTooBig, "",
			fmt.Errorf("ws: a message of more than %d bytes came: %w", s.limit, dragoman.ErrTooLarge)}
	case errors.Is(err, errNoRoom):
		return closeReason{websocket.StatusTryAgainLater, "there is no room for this message now; send it again later", errNoRoom}
	case errors.Is(err, context.DeadlineExceeded):
		return closeReason{noCode, "", dragoman.ErrSlow} // the library could not write a pong
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe),
		errors.Is(err, net.ErrClosed), errors.As(err, &network):
		return closeReason{noCode, "", errConnectionLost}
	}
	return closeReason{websocket.StatusProtocolError, "this is not WebSocket",
		fmt.Errorf("ws: the other side does not speak WebSocket: %w", err)}
}
