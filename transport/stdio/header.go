package stdio

import (
	"bytes"
	"encoding/json"
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
	length := -1
	for read := 0; ; {
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
	f.log.Debug("stdin", "headerEnd", length)
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
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			*read += i
			line := bytes.TrimRight(f.take(i, 1), " \t\r")
			return line, nil
		}
		if *read+len(b) > maxHeader {
			f.drop(len(b))
			return nil, badHeader("the header is longer than %d bytes", maxHeader)
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
// and does no harm, and a length that promises too much is not waited for.
func (f *frameReader) payload(length int) ([]byte, error) {
	tried := 0
	for f.end-f.start < length {
		if b := f.unread(); len(b) > 2*tried && endsLikeMessage(b) {
			tried = len(b)
			if n := objectEnd(b); n > 0 {
				return f.mismatch(length, n), nil
			}
		}
		if err := f.fill(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil, badHeader("Content-Length says %d bytes, but the stream ends after %d", length, f.end-f.start)
			}
			return nil, err
		}
	}
	if b := f.unread()[:length]; endsLikeMessage(b) {
		return f.take(length, 0), nil
	}
	// The length cuts the message, or reaches into the next.
	for {
		n := objectEnd(f.unread())
		switch {
		case n > 0:
			return f.mismatch(length, n), nil
		case n < 0 || f.end-f.start > f.max:
			err := badHeader("Content-Length says %d bytes, but no message ends there", length)
			f.resync()
			return nil, err
		}
		if err := f.fill(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil, badHeader("Content-Length says %d bytes, but the stream ends after %d", length, f.end-f.start)
			}
			return nil, err
		}
	}
}

// mismatch takes a message of n bytes whose header said otherwise.
func (f *frameReader) mismatch(length, n int) []byte {
	f.log.Warn("Content-Length does not match the message; it counts bytes of UTF-8", "header", length, "message", n)
	return f.take(n, 0)
}

// endsLikeMessage tells whether b may be a whole message.
func endsLikeMessage(b []byte) bool {
	b = bytes.TrimSpace(b)
	return len(b) > 1 && (b[0] == '{' && b[len(b)-1] == '}' || b[0] == '[' && b[len(b)-1] == ']')
}

// objectEnd returns how many bytes the JSON value at the start of b has: 0 if
// it is not complete, -1 if it is no JSON.
func objectEnd(b []byte) int {
	d := json.NewDecoder(bytes.NewReader(b))
	var v json.RawMessage
	err := d.Decode(&v)
	switch {
	case err == nil:
		return int(d.InputOffset())
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return 0
	}
	return -1
}

// resync drops what is unread up to the next header, or up to the end of the
// line if there is none.
func (f *frameReader) resync() {
	b := f.unread()
	if i := bytes.Index(bytes.ToLower(b), []byte("content-length:")); i > 0 {
		f.drop(i)
	} else if i := bytes.IndexByte(b, '\n'); i >= 0 {
		f.drop(i + 1)
	} else {
		f.drop(len(b))
	}
}
