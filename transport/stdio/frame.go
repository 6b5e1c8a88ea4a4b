package stdio

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Framing is how messages are delimited on a byte stream.
type Framing uint8

// The framings. All are understood when reading.
const (
	// Auto writes as the other side does, and lines as long as it has said
	// nothing.
	Auto Framing = iota

	// Lines ends each message with a newline.
	Lines

	// ContentLength precedes each message by a header with its length.
	ContentLength
)

var framings = [...]string{Auto: "auto", Lines: "lines", ContentLength: "content-length"}

// String returns the framing's name, as it is spelt in configurations.
func (f Framing) String() string { return framings[f] }

// ParseFraming returns the framing of that name.
func ParseFraming(name string) (Framing, bool) {
	for f, n := range framings {
		if n == name {
			return Framing(f), true
		}
	}
	return Auto, false
}

// A stream is a mux.Stream over bytes.
type stream struct {
	frameReader
	w       io.Writer
	framing Framing
	out     []byte       // owned by Write
	end     func() error // makes reads and writes return
}

var _ jsonrpc.Stream = (*stream)(nil)

func newStream(r io.Reader, w io.Writer, framing Framing, limits dragoman.Limits, log *slog.Logger, end func() error) *stream {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	s := &stream{w: w, framing: framing, end: end}
	s.r, s.max, s.log = r, limits.Message(), log
	return s
}

// Close implements mux.Stream.
func (s *stream) Close() error { return s.end() }

// Write implements mux.Stream: frames that came together go out together, in
// one write.
func (s *stream) Write(frames []jsonrpc.Frame) error {
	framed := s.framing == ContentLength || s.framing == Auto && s.framed.Load()
	for i, f := range frames {
		if framed {
			s.out = append(s.out, "Content-Length: "...)
			s.out = strconv.AppendInt(s.out, int64(f.Len()), 10)
			s.out = append(s.out, "\r\n\r\n"...)
		}
		start := len(s.out)
		s.out = f.AppendTo(s.out)
		s.debug(framed, s.out[start:])
		if !framed {
			dragoman.OneLine(s.out[start:])
			s.out = append(s.out, '\n')
		}
		if len(s.out) < keepBuffer && i < len(frames)-1 {
			continue
		}
		_, err := s.w.Write(s.out)
		if s.out = s.out[:0]; cap(s.out) > keepBuffer {
			s.out = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// debug reports what is sent, without its secrets.
func (s *stream) debug(framed bool, text []byte) {
	if !s.verbose() {
		return
	}
	mode := "line"
	if framed {
		mode = "framed"
	}
	s.log.Log(context.Background(), jsonrpc.LevelSteps, "send", "mode", mode, "bytes", len(text), "json", redact.JSON(text))
}

const (
	firstBuffer = 8 << 10

	// keepBuffer is the largest buffer that is kept for the next message.
	keepBuffer = 1 << 20

	// giveAway is the size from which on a message gets the buffer that it was
	// read into, instead of a copy.
	giveAway = 64 << 10

	// keptEnds is how much of each end of a line that is too long is kept.
	keptEnds = 512

	// endless times the limit is where a line that is too long ends the stream.
	endless = 8
)

// A frameReader takes messages from a byte stream. Each byte is looked at once
// for the end of its line, however the bytes arrive.
type frameReader struct {
	r      io.Reader
	max    int
	log    *slog.Logger
	framed atomic.Bool // the last message had a header; the writer looks at it

	buf        []byte
	start, end int   // the unread bytes of buf
	seen       int   // how many of them hold no newline
	started    bool  // the start of the stream has been looked at
	err        error // what r returned with its last bytes
}

func (f *frameReader) unread() []byte { return f.buf[f.start:f.end] }

// verbose reports whether each step is logged. A reload may change that.
func (f *frameReader) verbose() bool { return f.log.Enabled(context.Background(), jsonrpc.LevelSteps) }

// Buffered returns how many bytes were read beyond the last message.
func (f *frameReader) Buffered() int { return f.end - f.start }

// Read implements mux.Stream.
func (f *frameReader) Read() ([]byte, error) {
	for {
		if err := f.skipBlank(); err != nil {
			return nil, err
		}
		header, err := f.atHeader()
		if err != nil {
			return nil, err
		}
		if header {
			frame, err := f.readFramed()
			if err != nil {
				return nil, err
			}
			if frame != nil {
				f.framed.Store(true)
				return frame, nil
			}
			continue // the header was in vain; a line follows
		}
		line, err := f.readLine()
		if err != nil {
			return nil, err
		}
		if line = bytes.TrimRight(line, " \t\r"); len(line) > 0 {
			f.framed.Store(false)
			return line, nil
		}
	}
}

// fill reads more. It fails when there is no more.
func (f *frameReader) fill() error {
	if f.err != nil {
		return f.err
	}
	f.reserve()
	for range 100 {
		n, err := f.r.Read(f.buf[f.end:])
		f.end += n
		f.err = err
		if n > 0 {
			if f.verbose() {
				f.log.Log(context.Background(), jsonrpc.LevelSteps, "stdin", "chunk", n)
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// reserve makes room behind the unread bytes. Nobody waits for more of them than the
// largest message has and one, so that is how far the buffer grows.
func (f *frameReader) reserve() {
	if f.start == f.end {
		f.start, f.end = 0, 0
		if len(f.buf) > keepBuffer {
			f.buf = nil
		}
	}
	if f.end < len(f.buf) {
		return
	}
	to := f.buf
	if size := max(firstBuffer, min(2*len(f.buf), f.max+firstBuffer)); f.start < len(f.buf)/2 && size > len(f.buf) || f.buf == nil {
		to = make([]byte, size)
	}
	f.end = copy(to, f.unread())
	f.start, f.buf = 0, to
}

// take removes the first n unread bytes and what more to skip, and returns the
// former in memory of their own.
func (f *frameReader) take(n, skip int) []byte {
	head, rest := f.unread()[:n:n], f.unread()[n+skip:]
	if n < giveAway || len(rest) > n {
		f.drop(n + skip)
		return bytes.Clone(head)
	}
	f.buf = make([]byte, max(firstBuffer, 2*len(rest)))
	f.start, f.end, f.seen = 0, copy(f.buf, rest), 0
	return head
}

func (f *frameReader) drop(n int) {
	f.start += n
	f.seen = 0
}

// skipBlank drops white space, and a byte order mark at the very start.
func (f *frameReader) skipBlank() error {
	for {
		b := f.unread()
		i := 0
		for i < len(b) && (b[i] == '\n' || b[i] == '\r' || b[i] == ' ' || b[i] == '\t') {
			i++
		}
		f.drop(i)
		b = b[i:]
		mark := []byte("\xef\xbb\xbf")
		switch {
		case len(b) == 0:
		case f.started || !bytes.HasPrefix(b, mark[:min(len(b), 3)]):
			f.started = true
			return nil
		case len(b) >= 3:
			f.log.Warn("byte order mark at the start of the stream skipped; MCP is UTF-8 without one")
			f.started = true
			f.drop(3)
			continue
		}
		if err := f.fill(); err != nil {
			if len(b) > 0 && errors.Is(err, io.EOF) {
				f.started = true
				return nil
			}
			return err
		}
	}
}

// readLine takes the next line, without its newline. The last may lack one if the
// stream is at its end, or if it is a whole message, whatever ends the stream: a child
// that has exited ends it by an error.
func (f *frameReader) readLine() ([]byte, error) {
	for {
		b := f.unread()
		if i := bytes.IndexByte(b[f.seen:], '\n'); i >= 0 {
			n := f.seen + i
			if n > f.max {
				return nil, f.skipLine()
			}
			return f.take(n, 1), nil
		}
		if f.seen = len(b); f.seen > f.max {
			return nil, f.skipLine()
		}
		if err := f.fill(); err != nil {
			if f.seen > 0 && (errors.Is(err, io.EOF) || isWhole(f.unread())) {
				return f.take(f.seen, 0), nil
			}
			return nil, err
		}
	}
}

// isWhole reports whether b is one JSON object or array and nothing more.
func isWhole(b []byte) bool {
	n := dragoman.Span(b)
	return n > 0 && len(bytes.TrimSpace(b[n:])) == 0
}

// skipLine drops a line that is too long. It keeps the ends, which may say
// which call it was the answer to.
func (f *frameReader) skipLine() error {
	head := bytes.Clone(f.unread()[:min(keptEnds, f.end-f.start)])
	var tail []byte
	for n := 0; ; {
		b := f.unread()
		i := bytes.IndexByte(b, '\n')
		last := b
		if i >= 0 {
			last = b[:i]
		}
		tail = append(tail, last[max(0, len(last)-keptEnds):]...)
		tail = tail[max(0, len(tail)-keptEnds):]
		if n += len(last); n > endless*f.max {
			return fmt.Errorf("%w: a line of more than %d bytes, at most %d are accepted", dragoman.ErrTooLarge, endless*f.max, f.max)
		}
		if i >= 0 {
			f.drop(i + 1)
			return &jsonrpc.BadFrame{Err: f.tooLarge(n), Head: head, Tail: tail}
		}
		f.drop(len(b))
		if err := f.fill(); err != nil {
			return err
		}
	}
}

func (f *frameReader) tooLarge(n int) error {
	return fmt.Errorf("%w: %d bytes, at most %d are accepted", dragoman.ErrTooLarge, n, f.max)
}

// maxHeader is how long the header of one message may be.
const maxHeader = 8 << 10

// headerStart is how a header begins, in any case: Content-Length or
// Content-Type.
const headerStart = "content-"

// atHeader reports whether the next message has a header.
func (f *frameReader) atHeader() (bool, error) {
	for {
		b := f.unread()
		n := min(len(b), len(headerStart))
		if !strings.EqualFold(string(b[:n]), headerStart[:n]) {
			return false, nil
		}
		if n == len(headerStart) {
			return true, nil
		}
		if err := f.fill(); err != nil {
			if errors.Is(err, io.EOF) {
				return false, nil
			}
			return false, err
		}
	}
}

// readFramed takes a header and the message behind it. It returns nil if no
// message is there after all, and a line may follow.
func (f *frameReader) readFramed() ([]byte, error) {
	length, read := -1, 0
	for {
		line, err := f.headerLine(&read)
		if err != nil {
			return nil, err
		}
		if len(line) == 0 {
			break
		}
		name, value, _ := strings.Cut(string(line), ":")
		if !strings.EqualFold(strings.TrimSpace(name), "content-length") {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 31)
		if err != nil {
			return nil, badHeader("Content-Length %q is not a number of bytes", strings.TrimSpace(value))
		}
		length = int(n)
		if ok, err := f.headerGoesOn(); err != nil {
			return nil, err
		} else if !ok {
			f.log.Warn("no blank line behind the header; reading a line instead")
			return nil, nil
		}
	}
	f.log.Log(context.Background(), jsonrpc.LevelSteps, "stdin", "headerEnd", read, "contentLength", length)
	switch {
	case length < 0:
		return nil, badHeader("the header has no Content-Length")
	case length > f.max:
		return nil, f.skipFrame(length)
	}
	return f.payload(length)
}

func badHeader(format string, args ...any) error {
	return &jsonrpc.BadFrame{Err: &dragoman.ParseError{Code: protocol.CodeParse, Reason: fmt.Sprintf(format, args...)}}
}

// headerLine takes one line of the header, without its end.
func (f *frameReader) headerLine(read *int) ([]byte, error) {
	for {
		b := f.unread()
		i := bytes.IndexByte(b, '\n')
		if i >= 0 {
			b = b[:i]
		}
		if *read+len(b) > maxHeader {
			return nil, fmt.Errorf("%w: a header of more than %d bytes", dragoman.ErrTooLarge, maxHeader)
		}
		if i >= 0 {
			*read += i + 1
			return bytes.TrimRight(f.take(i, 1), " \t\r"), nil
		}
		if err := f.fill(); err != nil {
			if errors.Is(err, io.EOF) && len(b) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
}

// headerGoesOn reports whether what follows is more header or its end, and not
// already the message.
func (f *frameReader) headerGoesOn() (bool, error) {
	for f.start == f.end {
		if err := f.fill(); err != nil {
			return false, err
		}
	}
	c := f.unread()[0]
	return c != '{' && c != '[', nil
}

// skipFrame drops a message that is too long.
func (f *frameReader) skipFrame(length int) error {
	bad := &jsonrpc.BadFrame{Err: f.tooLarge(length)}
	for left := length; left > 0; {
		if f.start == f.end {
			if err := f.fill(); err != nil {
				return err
			}
		}
		b := f.unread()[:min(left, f.end-f.start)]
		if bad.Head == nil {
			bad.Head = bytes.Clone(b[:min(len(b), keptEnds)])
		}
		bad.Tail = append(bad.Tail, b[max(0, len(b)-keptEnds):]...)
		bad.Tail = bad.Tail[max(0, len(bad.Tail)-keptEnds):]
		left -= len(b)
		f.drop(len(b))
	}
	return bad
}

// payload takes the message of a header that promises length bytes. A message
// is an object, which says itself where it ends; so a wrong length is reported
// and does no harm, and one that promises too much is not waited for.
func (f *frameReader) payload(length int) ([]byte, error) {
	retry := 0 // when to look again, so that all looks together take linear time
	for {
		if n := f.end - f.start; n >= retry && (n >= length || endsLikeMessage(f.unread())) {
			if frame, err := f.whole(length, false); frame != nil || err != nil {
				return frame, err
			}
			if retry = min(n+n/8, f.max) + 1; n < length {
				retry = min(retry, length)
			}
		}
		if err := f.fill(); err != nil {
			if f.start == f.end {
				return nil, err
			}
			frame, bad := f.whole(length, errors.Is(err, io.EOF))
			if frame == nil && bad == nil {
				bad = err
			}
			return frame, bad
		}
	}
}

// whole takes the message if it is complete, or else if last says that nothing
// more will come. What is no JSON is taken by its length: the parser
// will say what is wrong.
func (f *frameReader) whole(length int, last bool) ([]byte, error) {
	b := f.unread()
	n := dragoman.Span(b[:min(len(b), f.max)])
	switch {
	case n > 0:
		return f.matched(length, n), nil
	case n < 0 && len(b) >= length:
		return f.take(length, 0), nil
	case len(b) > f.max:
		f.drop(f.max)
		return nil, &jsonrpc.BadFrame{Err: f.tooLarge(f.max + 1)}
	case last:
		f.log.Warn("the stream ends inside a message", "header", length, "message", len(b))
		return f.take(len(b), 0), nil
	}
	return nil, nil
}

// matched takes a message of n bytes, and says so if its header said otherwise.
func (f *frameReader) matched(length, n int) []byte {
	rest := f.unread()[n:]
	rest = rest[:min(len(rest), max(0, length-n))]
	if n > length || len(bytes.TrimSpace(rest)) > 0 || len(rest) < length-n {
		f.log.Warn("Content-Length does not match the message; it counts bytes of UTF-8", "header", length, "message", n)
	}
	return f.take(n, 0)
}

// endsLikeMessage reports whether b may be a whole message.
func endsLikeMessage(b []byte) bool {
	b = bytes.TrimSpace(b)
	return len(b) > 1 && (b[0] == '{' && b[len(b)-1] == '}' || b[0] == '[' && b[len(b)-1] == ']')
}
