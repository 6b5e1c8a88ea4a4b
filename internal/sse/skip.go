package sse

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/dragoman-mcp/dragoman"
)

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
// [dragoman.ErrTooLarge], so that Next can go on. It returns the beginning of
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
