package stdio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/mux"
)

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
func (f *frameReader) verbose() bool { return f.log.Enabled(context.Background(), slog.LevelDebug) }

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
				f.log.Debug("stdin", "chunk", n)
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// reserve makes room behind the unread bytes.
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
	if f.start < len(f.buf)/2 || f.buf == nil {
		to = make([]byte, max(firstBuffer, 2*len(f.buf)))
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
			return &mux.BadFrame{Err: f.tooLarge(n), Head: head, Tail: tail}
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
