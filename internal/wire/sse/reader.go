package sse

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/dragoman-mcp/dragoman"
)

const (
	firstBuffer = 4 << 10
	keepBuffer  = 1 << 20

	// maxRetry bounds what a server may ask a client to wait, in milliseconds.
	maxRetry = 24 * 60 * 60 * 1000
)

// A Reader takes events from a stream. One goroutine may use it.
type Reader struct {
	r   io.Reader
	max int

	buf        []byte
	start, end int  // the unread bytes of buf
	seen       int  // how many of them hold no end of a line
	begun      bool // the start of the stream has been looked at
	afterCR    bool // the last line ended in CR; a LF belongs to it
	err        error

	id   string // the last that was named
	head []byte // the beginning of an event that was too large
}

// NewReader reads from r. An event, or one line of it, may have up to limit
// bytes; a larger one ends the stream with [dragoman.ErrTooLarge], unless Skip
// passes over it.
func NewReader(r io.Reader, limit int) *Reader { return &Reader{r: r, max: limit} }

// Next returns the next event that has data, an id or a retry. Comments and
// unknown fields are skipped. At the end of the stream the error is io.EOF; an
// event that the end cuts off is returned before it if its data is whole JSON,
// because some servers forget the last blank line.
func (r *Reader) Next() (*Event, error) {
	var e Event
	var named, data bool
	size := 0
	for {
		line, err := r.line()
		if err != nil {
			if errors.Is(err, io.EOF) && data && json.Valid(e.Data) {
				e.ID = r.id
				return &e, nil
			}
			r.keepHead(e.Data, r.buf[r.start:r.end])
			return nil, err
		}
		if len(line) == 0 {
			if len(e.Data) > 0 || named || e.Retry > 0 {
				e.ID = r.id
				return &e, nil
			}
			e, data, size = Event{}, false, 0
			continue
		}
		if size += len(line); size > r.max {
			r.keepHead(e.Data, line)
			return nil, r.tooLarge()
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "data":
			if data {
				e.Data = append(e.Data, '\n')
			}
			e.Data = append(e.Data, value...)
			data = true
		case "event":
			e.Name = string(value)
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				r.id = string(value)
				named = true
			}
		case "retry":
			if n, ok := milliseconds(value); ok {
				e.Retry = n
			}
		}
	}
}

// milliseconds reads a value of retry: digits alone count.
func milliseconds(value []byte) (int, bool) {
	if len(value) == 0 {
		return 0, false
	}
	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	n, err := strconv.Atoi(string(value))
	if err != nil {
		n = maxRetry
	}
	return min(max(n, 1), maxRetry), true
}

func (r *Reader) tooLarge() error {
	return fmt.Errorf("%w: an event of more than %d bytes", dragoman.ErrTooLarge, r.max)
}

// line returns the next line without its end, which is CR, LF or both. It is
// valid until the next call. A line without an end is none, by the standard,
// but it may finish an event that the stream cuts off.
func (r *Reader) line() ([]byte, error) {
	if err := r.begin(); err != nil {
		return nil, err
	}
	for {
		b := r.buf[r.start:r.end]
		if r.afterCR && len(b) > 0 {
			r.afterCR = false
			if b[0] == '\n' {
				r.start++
				continue
			}
		}
		if i := bytes.IndexAny(b[r.seen:], "\r\n"); i >= 0 {
			i += r.seen
			if i > r.max {
				return nil, r.tooLarge()
			}
			r.afterCR = b[i] == '\r'
			r.start += i + 1
			r.seen = 0
			return b[:i], nil
		}
		if r.seen = len(b); r.seen > r.max {
			return nil, r.tooLarge()
		}
		if err := r.fill(); err != nil {
			if errors.Is(err, io.EOF) && len(b) > 0 {
				r.start, r.seen = r.end, 0
				return b, nil
			}
			return nil, err
		}
	}
}

// begin skips a byte order mark at the start of the stream.
func (r *Reader) begin() error {
	mark := []byte("\xef\xbb\xbf")
	for !r.begun {
		b := r.buf[r.start:r.end]
		switch {
		case bytes.HasPrefix(b, mark):
			r.start += len(mark)
			r.begun = true
		case len(b) >= len(mark) || !bytes.HasPrefix(mark, b):
			r.begun = true
		default:
			if err := r.fill(); err != nil {
				r.begun = true
				if len(b) == 0 {
					return err
				}
			}
		}
	}
	return nil
}

// fill reads more. It fails when there is no more.
func (r *Reader) fill() error {
	if r.err != nil {
		return r.err
	}
	if r.start == r.end {
		r.start, r.end = 0, 0
		if len(r.buf) > keepBuffer {
			r.buf = nil
		}
	}
	if r.end == len(r.buf) {
		to := r.buf
		if r.start < len(r.buf)/2 || r.buf == nil {
			to = make([]byte, max(firstBuffer, 2*len(r.buf)))
		}
		r.end = copy(to, r.buf[r.start:r.end])
		r.start, r.buf = 0, to
	}
	for range 100 {
		n, err := r.r.Read(r.buf[r.end:])
		r.end += n
		r.err = err
		if n > 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// keepEnds is how much of an event that is too large is kept, at each end.
const keepEnds = 256

// keepHead notes how the data of an event begins: with data, or if that is
// empty, with the value of line.
func (r *Reader) keepHead(data, line []byte) {
	if len(data) == 0 {
		_, data, _ = bytes.Cut(line[:min(len(line), keepEnds)], []byte(":"))
	}
	r.head = slices.Clone(data[:min(len(data), keepEnds)])
}

// Skip passes over the rest of an event for which Next has returned
// [dragoman.ErrTooLarge], so that Next can continue. It returns the beginning of
// the event's data and the end of its last line. If the rest has more than limit
// bytes, it gives up with the same error.
func (r *Reader) Skip(limit int) (head, tail []byte, err error) {
	r.seen = 0
	begun := false // the line has begun
	for n := 0; n <= limit; {
		b := r.buf[r.start:r.end]
		if r.afterCR && len(b) > 0 {
			r.afterCR = false
			if b[0] == '\n' {
				r.start++
				continue
			}
		}
		i := bytes.IndexAny(b, "\r\n")
		if i < 0 {
			begun = begun || len(b) > 0
			tail = keepTail(tail, b)
			n += len(b)
			r.start = r.end
			if err := r.fill(); err != nil {
				return nil, nil, err
			}
			continue
		}
		r.afterCR = b[i] == '\r'
		r.start += i + 1
		n += i + 1
		if i == 0 && !begun {
			return r.head, tail, nil
		}
		tail = keepTail(tail, b[:i])
		begun = false
	}
	return nil, nil, fmt.Errorf("%w: an event of more than %d bytes beyond the limit", dragoman.ErrTooLarge, limit)
}

// keepTail returns the end of tail and more together.
func keepTail(tail, more []byte) []byte {
	tail = append(tail, more[max(0, len(more)-keepEnds):]...)
	return slices.Delete(tail, 0, max(0, len(tail)-keepEnds))
}
