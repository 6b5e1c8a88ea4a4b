package ws

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxBuffered is how much is buffered for one write.
	maxBuffered = 64 << 10

	// A server's socket has buffers of its own only for what is small: larger
	// messages pass them by. Most sockets are idle most of the time.
	readBuffer  = 2 << 10
	writeBuffer = 256 // holds any control frame, so that it is one write

	// lingerTime and lingerBytes are how long, and of how much, the rest of what
	// the other side sends is read when a socket is closed.
	lingerTime  = 500 * time.Millisecond
	lingerBytes = 256 << 10
)

// A wire is the connection below a socket. The library hides it, but cannot
// abort a close that the other side does not answer, report whether anything is read,
// or write several messages at once; so we take the connection when it is opened.
type wire struct {
	conn  io.ReadWriteCloser
	reads atomic.Uint64 // reads that brought something

	// Owned by the reader: the library has one at a time.
	unread   []byte // what was read before the connection was taken
	frames   frames
	tooLarge bool // a frame is, and nothing is read any more

	mu        sync.Mutex
	buffering bool
	buffered  []byte
}

func (w *wire) cut() { _ = w.conn.Close() }

func (w *wire) read(p []byte) (n int, err error) {
	switch {
	case w.tooLarge:
		return 0, errFrame
	case len(w.unread) > 0:
		n = copy(p, w.unread)
		w.unread = w.unread[n:]
	default:
		n, err = w.conn.Read(p)
	}
	if n > 0 {
		w.reads.Add(1)
	}
	passed := w.frames.check(p[:n])
	if passed == n {
		return n, err
	}
	w.tooLarge = true
	if passed == 0 {
		err = errFrame
	}
	return passed, err
}

// Write writes p, or buffers it. The library makes sure that a frame is whole before
// the next begins. What is small is always buffered: it may be a pong, by the goroutine
// that reads. All else comes from the goroutine that called buffer, so its memory is
// not in use elsewhere.
func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	if w.buffering && (len(p) <= writeBuffer || len(w.buffered)+len(p) <= maxBuffered) {
		w.buffered = append(w.buffered, p...)
		w.mu.Unlock()
		return len(p), nil
	}
	w.mu.Unlock()
	if err := w.flush(); err != nil {
		return 0, err
	}
	return w.conn.Write(p)
}

// buffer makes the next writes wait for flush, in the memory of b, which is in
// use until then.
func (w *wire) buffer(b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buffering, w.buffered = true, b
}

// full reports whether enough is buffered for a write.
func (w *wire) full() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.buffering || len(w.buffered) >= maxBuffered/2
}

// flush writes what is buffered.
func (w *wire) flush() error {
	w.mu.Lock()
	b := w.buffered
	w.buffering, w.buffered = false, nil
	w.mu.Unlock()
	if len(b) == 0 {
		return nil
	}
	_, err := w.conn.Write(b)
	return err
}

// A hijackTap is a response writer that keeps the wire which is taken from it.
type hijackTap struct {
	http.ResponseWriter
	wire *wire
}

// Hijack implements http.Hijacker.
func (t *hijackTap) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(t.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	t.wire.conn = conn
	early, _ := rw.Reader.Peek(rw.Reader.Buffered()) // as much as there is
	t.wire.unread = bytes.Clone(early)
	rw.Reader = bufio.NewReaderSize(conn, readBuffer)
	rw.Writer = bufio.NewWriterSize(t.wire, writeBuffer)
	return &tappedConn{conn, t.wire}, rw, nil
}

type tappedConn struct {
	net.Conn
	wire *wire
}

func (c *tappedConn) Read(p []byte) (int, error)  { return c.wire.read(p) }
func (c *tappedConn) Write(p []byte) (int, error) { return c.wire.Write(p) }

// Close ends our side and reads, for a moment, what the other still sends: a
// connection that is closed over that takes our last words with it.
func (c *tappedConn) Close() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_ = c.SetReadDeadline(time.Now().Add(lingerTime))
		_, _ = io.CopyN(io.Discard, c.Conn, lingerBytes) // whatever comes of it
	}
	return c.Conn.Close()
}

// canHijack reports whether connections can be taken from w.
func canHijack(w http.ResponseWriter) bool {
	for {
		switch t := w.(type) {
		case http.Hijacker:
			return true
		case interface{ Unwrap() http.ResponseWriter }:
			w = t.Unwrap()
		default:
			return false
		}
	}
}

// A tapTransport keeps the wire of a connection that a server upgrades.
type tapTransport struct {
	base http.RoundTripper
	wire *wire
}

// RoundTrip implements http.RoundTripper.
func (t *tapTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.base.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		return resp, err
	}
	if body, ok := resp.Body.(io.ReadWriteCloser); ok {
		t.wire.conn = body
		resp.Body = &tappedBody{body, t.wire}
	}
	return resp, nil
}

type tappedBody struct {
	io.ReadWriteCloser
	wire *wire
}

func (b *tappedBody) Read(p []byte) (int, error)  { return b.wire.read(p) }
func (b *tappedBody) Write(p []byte) (int, error) { return b.wire.Write(p) }
