package httpframe

import (
	"io"

	"github.com/dragoman-mcp/dragoman"
)

// firstRead is how much memory a body gets before its bytes have arrived,
// whatever its length is said to be.
const firstRead = 16 << 10

// ReadAll reads to the end, or to the byte behind the limit. size is the length
// that the sender claims, or -1: it saves growing further than that, but memory
// is only given to bytes that have come.
func ReadAll(r io.Reader, size int64, limit int) ([]byte, error) {
	room := int64(firstRead)
	if size >= 0 {
		room = min(room, size+1)
	}
	b := make([]byte, 0, room)
	for {
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case len(b) > limit:
			return b, dragoman.ErrTooLarge // a replaced body may be longer than it claims
		case err == io.EOF:
			return b, nil
		case err != nil:
			return b, err
		}
		if len(b) == cap(b) {
			next := 2 * int64(cap(b))
			if size >= int64(len(b)) {
				next = min(next, size+1)
			}
			b = append(make([]byte, 0, next), b...)
		}
	}
}
