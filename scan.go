package dragoman

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// A scanner walks over JSON text and checks it against RFC 8259 and UTF-8 on
// the way. Its methods take an offset and return the one behind what they
// read, or -1 after they have noted the fault. Nothing allocates.
type scanner struct {
	data   []byte
	reason string // why data was refused; "" while it was not
	at     int    // where
	code   int    // codeParse, or codeInvalidRequest when it is too deep
}

// fail notes a fault of grammar.
func (s *scanner) fail(at int, reason string) int {
	s.reason, s.at, s.code = reason, at, codeParse
	return -1
}

// eof notes that the text ends too early.
func (s *scanner) eof() int { return s.fail(len(s.data), "unexpected end") }

// space skips white space.
func (s *scanner) space(i int) int {
	for i < len(s.data) && s.data[i] <= ' ' {
		switch s.data[i] {
		case ' ', '\t', '\n', '\r':
			i++
		default:
			return i
		}
	}
	return i
}

const (
	lowBits  = 0x0101010101010101
	highBits = 0x8080808080808080
)

// str reads the string whose opening quote is at i.
func (s *scanner) str(i int) int {
	data := s.data
	i++
	for {
		// Eight bytes at a time, up to the first that is a quote, a backslash,
		// a control character or not ASCII.
		for i+8 <= len(data) {
			w := binary.LittleEndian.Uint64(data[i:])
			q := w ^ lowBits*'"'
			b := w ^ lowBits*'\\'
			m := ((w - lowBits*0x20) &^ w) | ((q - lowBits) &^ q) | ((b - lowBits) &^ b) | w
			if m &= highBits; m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			i += 8
		}
		if i >= len(data) {
			return s.eof()
		}
		switch c := data[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			if i = s.escape(i); i < 0 {
				return -1
			}
		case c < 0x20:
			return s.fail(i, "control character in a string")
		case c < utf8.RuneSelf:
			i++
		default:
			r, n := utf8.DecodeRune(data[i:])
			if r == utf8.RuneError && n <= 1 {
				return s.fail(i, "invalid UTF-8")
			}
			i += n
		}
	}
}

// escape reads the escape sequence at i.
func (s *scanner) escape(i int) int {
	data := s.data
	if i+1 >= len(data) {
		return s.eof()
	}
	switch data[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
		for j := i + 2; j < i+6; j++ {
			if j >= len(data) {
				return s.eof()
			}
			if !isHex(data[j]) {
				return s.fail(j, "bad \\u escape")
			}
		}
		return i + 6
	}
	return s.fail(i+1, "bad escape in a string")
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

func isDigit(c byte) bool { return c-'0' <= 9 }

// number reads the number at i.
func (s *scanner) number(i int) int {
	data := s.data
	if data[i] == '-' {
		i++
	}
	switch {
	case i >= len(data):
		return s.eof()
	case data[i] == '0':
		i++
	case isDigit(data[i]):
		for i < len(data) && isDigit(data[i]) {
			i++
		}
	default:
		return s.fail(i, "bad number")
	}
	if i < len(data) && data[i] == '.' {
		if i = s.digits(i + 1); i < 0 {
			return -1
		}
	}
	if i < len(data) && data[i]|0x20 == 'e' {
		i++
		if i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		if i = s.digits(i); i < 0 {
			return -1
		}
	}
	return i
}

// digits reads one digit or more.
func (s *scanner) digits(i int) int {
	if i >= len(s.data) {
		return s.eof()
	}
	if !isDigit(s.data[i]) {
		return s.fail(i, "bad number")
	}
	for i < len(s.data) && isDigit(s.data[i]) {
		i++
	}
	return i
}

// literal reads true, false or null.
func (s *scanner) literal(i int) int {
	word := "null"
	switch s.data[i] {
	case 't':
		word = "true"
	case 'f':
		word = "false"
	}
	for j := range len(word) {
		if i+j >= len(s.data) {
			return s.eof()
		}
		if s.data[i+j] != word[j] {
			return s.fail(i+j, "unexpected character")
		}
	}
	return i + len(word)
}

// value reads the value at i, white space before it included. depth is the
// number of arrays and objects that it lies in.
func (s *scanner) value(i, depth int) int {
	// Bit n of kinds says whether the container at level n is an object.
	var kinds [MaxDepth / 64]uint64
	data := s.data
	level := depth
	for {
		if i = s.space(i); i >= len(data) {
			return s.eof()
		}
		switch c := data[i]; {
		case c == '"':
			i = s.str(i)
		case c == '{' || c == '[':
			if level >= MaxDepth {
				return s.deep(i)
			}
			open := s.space(i + 1)
			if open >= len(data) {
				return s.eof()
			}
			if data[open] == c+2 { // '}' and ']' are two behind '{' and '['
				i = open + 1
				break
			}
			bit := uint64(1) << (level & 63)
			if c == '[' {
				kinds[level>>6] &^= bit
				level++
				i = open
				continue
			}
			kinds[level>>6] |= bit
			level++
			if i = s.key(open); i < 0 {
				return -1
			}
			continue
		case c == '-' || isDigit(c):
			i = s.number(i)
		case c == 't' || c == 'f' || c == 'n':
			i = s.literal(i)
		default:
			return s.fail(i, "unexpected character")
		}
		if i < 0 {
			return -1
		}
		// Behind a value: close containers until one goes on.
		for {
			if level == depth {
				return i
			}
			if i = s.space(i); i >= len(data) {
				return s.eof()
			}
			top := level - 1
			object := kinds[top>>6]>>(top&63)&1 == 1
			if data[i] == ',' {
				i++
				if object {
					if i = s.key(s.space(i)); i < 0 {
						return -1
					}
				}
				break
			}
			if object && data[i] == '}' || !object && data[i] == ']' {
				level--
				i++
				continue
			}
			if object {
				return s.fail(i, "expected ',' or '}'")
			}
			return s.fail(i, "expected ',' or ']'")
		}
	}
}

// key reads the member name at i, the colon behind it included.
func (s *scanner) key(i int) int {
	if i >= len(s.data) {
		return s.eof()
	}
	if s.data[i] != '"' {
		return s.fail(i, "expected a member name")
	}
	if i = s.str(i); i < 0 {
		return -1
	}
	if i = s.space(i); i >= len(s.data) {
		return s.eof()
	}
	if s.data[i] != ':' {
		return s.fail(i, "expected ':'")
	}
	return i + 1
}

// deep notes that containers nest too deep.
func (s *scanner) deep(i int) int {
	s.fail(i, "nested deeper than 128 levels")
	s.code = codeInvalidRequest
	return -1
}

// A member is where one member of an object lies: its name from the opening
// quote, and its value.
type member struct{ key, start, end uint32 }

func (v member) absent() bool { return v.end == 0 }

// next reads the member of an object at i, which is behind '{' or ','. It
// returns the raw name without quotes, and the offset of the value.
func (s *scanner) next(i int) (name []byte, key, value int) {
	key = s.space(i)
	if value = s.key(key); value < 0 {
		return nil, key, -1
	}
	end := value - 1
	for s.data[end] != '"' {
		end--
	}
	return s.data[key+1 : end], key, s.space(value)
}

// more looks behind a member at i: it returns the offset behind ',' with true,
// or behind '}' with false.
func (s *scanner) more(i int) (int, bool) {
	if i = s.space(i); i >= len(s.data) {
		return s.eof(), false
	}
	switch s.data[i] {
	case ',':
		return i + 1, true
	case '}':
		return i + 1, false
	}
	return s.fail(i, "expected ',' or '}'"), false
}

// open looks into the object at i: it returns the offset of its first member
// with true, or behind '}' with false if there is none.
func (s *scanner) open(i int) (int, bool) {
	if i = s.space(i + 1); i >= len(s.data) {
		return s.eof(), false
	}
	if s.data[i] == '}' {
		return i + 1, false
	}
	return i, true
}
