package ws

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/limit"
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

	// turn has a token in it while something is written, so that nothing overtakes what
	// was buffered: no message may follow a close frame. Who waits for it would otherwise
	// wait for the connection.
	turn chan struct{}

	mu        sync.Mutex
	buffering bool
	buffered  []byte
}

// take begins to use a connection.
func (w *wire) take(conn io.ReadWriteCloser) {
	w.conn, w.turn = conn, make(chan struct{}, 1)
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
	if w.keep(p) {
		return len(p), nil
	}
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	if err := w.writeBuffered(); err != nil {
		return 0, err
	}
	return w.conn.Write(p)
}

// keep buffers p, if it is to be buffered, and reports whether it did.
func (w *wire) keep(p []byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.buffering || len(p) > writeBuffer && len(w.buffered)+len(p) > maxBuffered {
		return false
	}
	w.buffered = append(w.buffered, p...)
	return true
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
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	return w.writeBuffered()
}

// writeBuffered is called by who has the turn.
func (w *wire) writeBuffered() error {
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
	t.wire.take(conn)
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
		t.wire.take(body)
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

// errFrame is why a wire is not read any more: a frame announces more than a message may
// have. The library would take what comes of it until the limit is reached, and wait for
// the rest as long as anything comes.
var errFrame = errors.New("ws: a frame is too large")

// frames follows the frames that are read, by their headers.
type frames struct {
	limit      uint64 // bytes of a message
	fragmented bool   // a message is in flight, in fragments
	max        uint64 // bytes that its frames may have
	sum        uint64 // and have, by their headers so far

	header [10]byte // the header that has begun, without the mask
	have   int      // bytes of it
	left   uint64   // bytes of the frame behind that: the mask and the payload
}

// check reads the frame headers in b and returns how many bytes may be passed on. If it
// is fewer than len(b), the next frame is too large.
func (f *frames) check(b []byte) int {
	at := 0
	for at < len(b) {
		if f.left > 0 {
			n := min(f.left, uint64(len(b)-at))
			f.left -= n
			at += int(n) // #nosec G115 -- at most len(b)
			continue
		}
		start := at
		for f.have < f.length() && at < len(b) {
			f.header[f.have] = b[at]
			f.have++
			at++
		}
		if f.have == f.length() && !f.startFrame() {
			return start
		}
	}
	return at
}

// length returns how long the header is, as far as that is known.
func (f *frames) length() int {
	if f.have < 2 {
		return 2
	}
	switch f.header[1] & 0x7F {
	case 126:
		return 4
	case 127:
		return 10
	}
	return 2
}

// startFrame takes the header that is complete. It reports whether the message may be
// that large. The library checks the rest of the header.
func (f *frames) startFrame() bool {
	n := uint64(f.header[1] & 0x7F)
	switch f.have {
	case 4:
		n = uint64(binary.BigEndian.Uint16(f.header[2:]))
	case 10:
		n = binary.BigEndian.Uint64(f.header[2:]) &^ (1 << 63)
	}
	first := f.header[0]
	f.have, f.left = 0, n
	if f.header[1]&0x80 != 0 {
		f.left += 4
	}
	if first&controlBit != 0 {
		return true
	}
	if first&opcodeBits != 0 || !f.fragmented { // the library refuses a continuation without a beginning
		f.sum, f.max = 0, f.limit
		if first&deflateBit != 0 {
			f.max += f.limit/16 + 64 // what cannot be deflated grows
		}
	}
	f.fragmented = first&finBit == 0
	f.sum += n
	return f.sum <= f.max
}

// The first byte of a frame.
const (
	finBit     = 0x80
	deflateBit = 0x40
	controlBit = 0x08 // of the opcode
	opcodeBits = 0x0F
)

// Buffers for messages on their way. A message that comes slowly holds what it
// fills, so the first buffer of each is a small one.
type (
	small [4 << 10]byte
	large [maxBuffered]byte
)

var (
	smalls = sync.Pool{New: func() any { return new(small) }}
	larges = sync.Pool{New: func() any { return new(large) }}
)

func getLarge() *large {
	b, _ := larges.Get().(*large)
	return b
}

// readAll returns a message in memory of its own. Its length is known only
// at its end, so it is read into buffers first.
func readAll(r io.Reader) ([]byte, error) {
	first, _ := smalls.Get().(*small)
	defer smalls.Put(first)
	n, err := fill(r, first[:])
	if err != nil {
		return concat(err, first[:n])
	}
	rest := make([]*large, 0, 4)
	for err == nil {
		b := getLarge()
		rest = append(rest, b)
		n, err = fill(r, b[:])
	}
	parts := make([][]byte, 0, len(rest)+1)
	parts = append(parts, first[:])
	for _, b := range rest {
		parts = append(parts, b[:])
	}
	parts[len(rest)] = rest[len(rest)-1][:n]
	data, err := concat(err, parts...)
	for _, b := range rest {
		larges.Put(b)
	}
	return data, err
}

// fill reads until p is full or there is an error.
func fill(r io.Reader, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var m int
		m, err = r.Read(p[n:])
		n += m
	}
	return n, err
}

// concat returns the parts as one if end is io.EOF.
func concat(end error, parts ...[]byte) ([]byte, error) {
	if !errors.Is(end, io.EOF) {
		return nil, end
	}
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	data := make([]byte, 0, n)
	for _, p := range parts {
		data = append(data, p...)
	}
	return data, nil
}

// freeMessage is up to which size messages are not counted while they are read.
const freeMessage = 4 << 10

// errNoRoom is why a socket ends whose message finds no room.
var errNoRoom = fmt.Errorf("ws: %w: there is no room for this message", dragoman.ErrOverloaded)

// A counted reads a message for which there is room. It is used for one after the other.
type counted struct {
	r    io.Reader
	hold *limit.Hold // nil if messages are not counted
	read int64
}

func (c *counted) reset(r io.Reader) { c.r, c.read = r, 0 }

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	if more := c.read + int64(len(p)); c.hold != nil && more > freeMessage {
		if c.hold.Grow(more) != nil {
			return 0, errNoRoom
		}
	}
	n, err := c.r.Read(p)
	c.read += int64(n)
	return n, err
}
