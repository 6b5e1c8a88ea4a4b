package httpframe

import (
	"bytes"
	"strings"
)

const (
	// maxLine is how long a line of a head may be. Servers bound whole heads, so it
	// is there for those that do not.
	maxLine = 1 << 20

	// maxSmallLine is how long the line before a chunk, or one of a trailer, may be.
	maxSmallLine = 4 << 10
)

// What a scanner expects next.
const (
	atRequest   = iota // a request line
	atField            // a header field, or the end of the head
	atBody             // bytes of a body of known length
	atChunkSize        // the line before a chunk
	atChunk            // bytes of a chunk
	atChunkEnd         // the end of the line behind a chunk
	atTrailer          // a trailer field, or the end of the body
	atNothing          // what comes is not to be read any more
	atAnything         // what comes is not HTTP/1
)

// A scanner follows the requests of an HTTP/1 connection: it finds where each head and
// each body ends. It keeps nothing but the beginning of a line whose rest has not come.
type scanner struct {
	state   uint8
	used    bool   // a request has come
	old     bool   // the request is not of HTTP/1.1
	preface bool   // this may be the preface of HTTP/2
	upgrade bool   // the request asks for another protocol
	coded   bool   // there is a Transfer-Encoding,
	chunked bool   // which is the one that we know
	sized   bool   // there is a Content-Length,
	length  uint64 // which says so
	hosts   uint8  // that agree with the target, see below

	left   uint64 // bytes of the body or chunk that are to come
	target []byte // the host in a target of absolute form
	part   []byte // the line that has begun
	room   [128]byte
}

// How a Host agrees with a request target of absolute form.
const (
	noTarget  = iota // the target names no host
	noHost           // there is no Host yet
	otherHost        // it differs
	sameHost         // it does not
)

// scan looks at the next bytes and returns how many of them may be read. If it is fewer
// than there are, the rest makes the request ambiguous, and the connection is not to be
// read any further.
func (s *scanner) scan(b []byte) int {
	at := 0
	for at < len(b) {
		switch s.state {
		case atAnything:
			return len(b)
		case atBody, atChunk:
			n := int(min(s.left, uint64(len(b)-at))) // #nosec G115 -- at most len(b)
			at += n
			if s.left -= uint64(n); s.left == 0 { // #nosec G115 -- at most s.left
				s.state = after[s.state]
			}
			continue
		}
		end := bytes.IndexByte(b[at:], '\n')
		if end < 0 {
			if !s.keep(b[at:]) {
				return at
			}
			return len(b)
		}
		line := b[at : at+end+1]
		if len(s.part) > 0 {
			s.part = append(s.part, line...)
			line, s.part = s.part, s.part[:0]
		}
		if !s.line(line) {
			return at
		}
		at += end + 1
	}
	return at
}

// after is what follows the bytes of a body or chunk.
var after = [...]uint8{atBody: atRequest, atChunk: atChunkEnd}

// keep holds the beginning of a line. It reports whether that may be one.
func (s *scanner) keep(b []byte) bool {
	most := maxSmallLine
	if s.state <= atField {
		most = maxLine
	}
	if cap(s.part) == 0 || cap(s.part) > maxSmallLine && len(s.part) == 0 {
		s.part = s.room[:0]
	}
	s.part = append(s.part, b...)
	return len(s.part) <= most
}

// line takes a line with its end. It reports whether all readers agree on it.
func (s *scanner) line(line []byte) bool {
	n := len(line) - 2
	if n < 0 || bytes.IndexByte(line, '\r') != n {
		return false
	}
	switch line = line[:n]; s.state {
	case atRequest:
		return n == 0 || s.request(line) // some clients send an empty line behind a body
	case atField:
		if n == 0 {
			return s.endHead()
		}
		return s.field(line)
	case atChunkSize:
		return s.chunkSize(line)
	case atChunkEnd:
		s.state = atChunkSize
		return n == 0
	case atTrailer:
		if n == 0 {
			s.state = atRequest
			return true
		}
		return s.field(line)
	}
	return false
}

// request takes a request line. What is wrong with it besides is left to the server.
func (s *scanner) request(line []byte) bool {
	from, to := bytes.IndexByte(line, ' ')+1, bytes.LastIndexByte(line, ' ')
	if from >= to {
		return false
	}
	s.preface = !s.used && string(line) == "PRI * HTTP/2.0"
	s.state, s.used = atField, true
	version := line[to+1:]
	s.old = !bytes.HasPrefix(version, []byte("HTTP/1.")) || string(version) == "HTTP/1.0"
	s.upgrade, s.coded, s.chunked, s.sized, s.length, s.hosts = false, false, false, false, 0, noTarget
	target := line[from:to]
	if target[0] == '/' || string(target) == "*" || string(line[:from]) == "CONNECT " {
		return true
	}
	scheme, rest, ok := bytes.Cut(target, []byte("://"))
	if end := bytes.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	s.target, s.hosts = append(s.target[:0], rest...), noHost
	return ok && len(scheme) > 0
}

// field takes a header field, or one of a trailer.
func (s *scanner) field(line []byte) bool {
	colon := bytes.IndexByte(line, ':')
	if colon <= 0 || isSpace(line[0]) || isSpace(line[colon-1]) {
		return false // a line that continues, or a name that some take for another
	}
	head := s.state == atField
	s.preface = false
	name, value := line[:colon], line[colon+1:]
	switch colon {
	case len("host"):
		if bytes.EqualFold(name, []byte("host")) {
			return head && s.host(bytes.Trim(value, " \t"))
		}
	case len("upgrade"):
		s.upgrade = s.upgrade || head && bytes.EqualFold(name, []byte("upgrade"))
	case len("content-length"):
		if bytes.EqualFold(name, []byte("content-length")) {
			return head && s.contentLength(bytes.Trim(value, " \t"))
		}
	case len("transfer-encoding"):
		if bytes.EqualFold(name, []byte("transfer-encoding")) {
			again := s.coded
			s.coded = true
			s.chunked = bytes.EqualFold(bytes.Trim(value, " \t"), []byte("chunked"))
			return head && !again
		}
	}
	return true
}

func isSpace(b byte) bool { return b == ' ' || b == '\t' }

// host takes the value of a Host. That there is one only is left to the server.
func (s *scanner) host(value []byte) bool {
	if s.hosts != noTarget {
		s.hosts = otherHost
		if bytes.EqualFold(value, s.target) {
			s.hosts = sameHost
		}
	}
	return true
}

// contentLength takes the value of a Content-Length.
func (s *scanner) contentLength(value []byte) bool {
	if s.sized || len(value) == 0 || len(value) > 18 {
		return false
	}
	for _, c := range value {
		if c < '0' || c > '9' {
			return false
		}
		s.length = 10*s.length + uint64(c-'0')
	}
	s.sized = true
	return true
}

// endHead finds what follows a head.
func (s *scanner) endHead() bool {
	switch {
	case s.coded && (s.sized || s.old), s.hosts == otherHost:
		return false
	case s.preface:
		s.state = atAnything
	case s.coded && !s.chunked:
		s.state = atNothing // the server answers that it does not know the coding, and closes
	case s.chunked:
		s.state = atChunkSize
	case s.length > 0:
		s.state, s.left = atBody, s.length
	default:
		s.state = atRequest
	}
	return true
}

// chunkSize takes the line before a chunk.
func (s *scanner) chunkSize(line []byte) bool {
	size, _, _ := bytes.Cut(line, []byte(";"))
	if len(size) == 0 || len(size) > 15 {
		return false
	}
	s.left = 0
	for _, c := range size {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = (c | 0x20) - 'a' + 10
		default:
			return false
		}
		s.left = s.left<<4 | uint64(c)
	}
	s.state = atChunk
	if s.left == 0 {
		s.state = atTrailer
	}
	return true
}

// IsToken reports whether s is a token of RFC 9110, as header names are.
func IsToken(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}
