package stdio

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/mux"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// maxHeader is how long the header of one message may be.
const maxHeader = 8 << 10

// headerStart is how a header begins, in any case: Content-Length or
// Content-Type.
const headerStart = "content-"

// atHeader tells whether the next message has a header.
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
	f.log.Debug("stdin", "headerEnd", read, "contentLength", length)
	switch {
	case length < 0:
		return nil, badHeader("the header has no Content-Length")
	case length > f.max:
		return nil, f.skipFrame(length)
	}
	return f.payload(length)
}

func badHeader(format string, args ...any) error {
	return &mux.BadFrame{Err: &dragoman.ParseError{Code: protocol.CodeParse, Reason: fmt.Sprintf(format, args...)}}
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

// headerGoesOn tells whether what follows is more header or its end, and not
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
	bad := &mux.BadFrame{Err: f.tooLarge(length)}
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
			if retry = n + n/8 + 1; n < length {
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
// more will come. What is no JSON is taken by its length: whoever parses it
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
		return nil, &mux.BadFrame{Err: f.tooLarge(f.max + 1)}
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

// endsLikeMessage tells whether b may be a whole message.
func endsLikeMessage(b []byte) bool {
	b = bytes.TrimSpace(b)
	return len(b) > 1 && (b[0] == '{' && b[len(b)-1] == '}' || b[0] == '[' && b[len(b)-1] == ']')
}
