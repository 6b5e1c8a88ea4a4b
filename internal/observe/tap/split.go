package tap

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman"
)

// A splitter finds the messages in a stream of bytes: lines, and frames with a
// Content-Length. It is given the bytes in any pieces.
type splitter struct {
	emit func(text []byte) // is given memory of its own

	buf    []byte
	clean  int  // how much of buf has no line end
	length int  // of the frame that follows the header; -1 outside of one
	body   bool // the header has ended
	skips  bool // the line is too long, and its end is not here yet
}

func newSplitter(emit func([]byte)) *splitter { return &splitter{emit: emit, length: -1} }

// maxLine is how much of a line is kept. More of it is not shown.
const maxLine = dragoman.DefaultMaxMessage

// take takes the next bytes.
func (s *splitter) take(p []byte) {
	s.buf = append(s.buf, p...)
	rest := s.buf
	for s.one(&rest) {
	}
	switch {
	case len(rest) == 0 && cap(s.buf) > 1<<20:
		s.buf = nil // a large message is no reason to keep its memory
	case len(rest) < len(s.buf):
		s.buf = append(s.buf[:0], rest...)
	}
}

// one takes a line or a frame from rest. It returns false if there is none.
func (s *splitter) one(rest *[]byte) bool {
	if s.body {
		if len(*rest) < s.length {
			return false
		}
		s.give((*rest)[:s.length])
		*rest = (*rest)[s.length:]
		s.body, s.length = false, -1
		return true
	}
	i := bytes.IndexByte((*rest)[s.clean:], '\n')
	if i < 0 {
		if s.clean = len(*rest); s.clean > maxLine {
			if !s.skips {
				s.give((*rest)[:maxText])
			}
			s.skips, *rest, s.clean = true, nil, 0
		}
		return false
	}
	i, s.clean = i+s.clean, 0
	line := (*rest)[:i]
	*rest = (*rest)[i+1:]
	switch name, value, _ := strings.Cut(string(line[:min(len(line), 64)]), ":"); {
	case s.skips:
		s.skips = false
	case s.length >= 0 && len(bytes.TrimSpace(line)) == 0:
		s.body = true
	case s.length >= 0: // another header
	case strings.EqualFold(strings.TrimSpace(name), "Content-Length"):
		if n, err := strconv.Atoi(strings.TrimSpace(value)); err == nil && n >= 0 && n <= maxLine {
			s.length = n
		} else {
			s.give(line)
		}
	default:
		s.give(line)
	}
	return true
}

// end gives what has no end.
func (s *splitter) end() {
	if !s.skips {
		s.give(s.buf)
	}
	s.buf = nil
}

func (s *splitter) give(text []byte) {
	if text = bytes.TrimSpace(text); len(text) > 0 {
		s.emit(bytes.Clone(text))
	}
}
