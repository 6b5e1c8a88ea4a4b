package dragoman

import (
	"encoding/binary"
	"math/bits"
	"strconv"
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

// space skips white space. Most often there is none, so only that case is worth
// inlining.
func (s *scanner) space(i int) int {
	if i < len(s.data) && s.data[i] > ' ' {
		return i
	}
	return s.spaces(i)
}

//go:noinline
func (s *scanner) spaces(i int) int {
	for i < len(s.data) {
		switch s.data[i] {
		case ' ', '\t', '\n', '\r':
			i++
		default:
			return i
		}
	}
	return i
}

// value reads the value at i, white space before it included. depth is the
// number of arrays and objects that it lies in.
func (s *scanner) value(i, depth int) int {
	data := s.data
	n := nest{level: depth}
	for {
		if i = s.space(i); i >= len(data) {
			return s.eof()
		}
		switch c := data[i]; c {
		case '"':
			if i = endOfString(data, i+1); i < 0 {
				return s.badString(^i)
			}
		case '{', '[':
			if n.level >= MaxDepth {
				return s.deep(i)
			}
			if i = s.space(i + 1); i >= len(data) {
				return s.eof()
			}
			if data[i] == c+2 { // '}' and ']' are two behind '{' and '['
				i++
				break
			}
			if n.enter(c == '{'); n.object {
				i = s.key(i)
			}
			if i < 0 {
				return -1
			}
			continue
		case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			i = s.number(i)
		case 't', 'f', 'n':
			i = s.literal(i)
		default:
			return s.fail(i, "unexpected character")
		}
		// Behind a value: close containers until one continues.
		for ; i >= 0 && n.level > depth; n.leave() {
			if i = s.space(i); i >= len(data) {
				return s.eof()
			}
			if data[i] == ',' {
				break
			}
			if data[i] != n.closer() {
				return s.unclosed(i, n.object)
			}
			i++
		}
		if i < 0 || n.level == depth {
			return i
		}
		if i++; n.object {
			if i = s.key(s.space(i)); i < 0 {
				return -1
			}
		}
	}
}

// A nest is where a scanner is among containers: how many it is in, whether the
// innermost is an object, and in outer, bit by bit, whether the others are.
type nest struct {
	level  int
	object bool
	outer  [MaxDepth / 64]uint64
}

func (n *nest) enter(object bool) {
	if bit := uint64(1) << (n.level & 63); n.object {
		n.outer[n.level>>6] |= bit
	} else {
		n.outer[n.level>>6] &^= bit
	}
	n.level++
	n.object = object
}

func (n *nest) leave() {
	n.level--
	n.object = n.outer[n.level>>6]>>(n.level&63)&1 == 1
}

// closer returns the character that ends the innermost container.
func (n *nest) closer() byte {
	if n.object {
		return '}'
	}
	return ']'
}

// unclosed notes that a container neither continues nor ends at i.
func (s *scanner) unclosed(i int, object bool) int {
	if object {
		return s.fail(i, "expected ',' or '}'")
	}
	return s.fail(i, "expected ',' or ']'")
}

// deep notes that containers nest too deep.
func (s *scanner) deep(i int) int {
	s.fail(i, "nested deeper than "+strconv.Itoa(MaxDepth)+" levels")
	s.code = codeInvalidRequest
	return -1
}

// key reads the member name at i, the colon behind it included.
func (s *scanner) key(i int) int {
	if i >= len(s.data) {
		return s.eof()
	}
	if s.data[i] != '"' {
		return s.fail(i, "expected a member name")
	}
	if i = endOfString(s.data, i+1); i < 0 {
		return s.badString(^i)
	}
	if i = s.space(i); i >= len(s.data) {
		return s.eof()
	}
	if s.data[i] != ':' {
		return s.fail(i, "expected ':'")
	}
	return i + 1
}

const (
	lowBits  = 0x0101010101010101
	highBits = 0x8080808080808080
)

// endOfString returns the offset behind the quote that closes the string whose
// inside begins at i. A negative result is the complement of the offset of what
// must not stand in a string.
func endOfString(data []byte, i int) int {
	for {
		// Eight bytes at a time, up to the first that is a quote, a control
		// character, a backslash or not ASCII. XOR with 2 puts the quote next to
		// the control characters. What is not ASCII has its high bit in one of the
		// differences at least. They borrow only from bytes above one that is
		// found, so the lowest is right.
		for i+8 <= len(data) {
			w := binary.LittleEndian.Uint64(data[i:])
			m := ((w ^ lowBits*2) - lowBits*0x21) | ((w ^ lowBits*'\\') - lowBits)
			if m &= highBits; m != 0 {
				n := bits.TrailingZeros64(m)
				i += n >> 3
				if byte(w>>(n&^7)) == '"' { // #nosec G115 -- the lowest byte is what is looked at
					return i + 1
				}
				break
			}
			i += 8
		}
		if i >= len(data) {
			return ^i
		}
		switch c := data[i]; {
		case c == '"':
			return i + 1
		case c < 0x20:
			return ^i
		case c == '\\':
			n := escapeLen(data[i:])
			if n == 0 {
				return ^i
			}
			i += n
		case c < utf8.RuneSelf:
			i++
		default:
			n := runeLen(data[i:])
			if n == 0 {
				return ^i
			}
			i += n
		}
	}
}

// runeLen returns the length of the character that b begins with, which is not
// ASCII, or 0 if it is not UTF-8.
func runeLen(b []byte) int {
	// Two bytes hold most of Europe's letters.
	if len(b) > 1 && b[0]-0xC2 < 0xE0-0xC2 && b[1]&0xC0 == 0x80 {
		return 2
	}
	if r, n := utf8.DecodeRune(b); r != utf8.RuneError || n > 1 {
		return n
	}
	return 0
}

// escapeLen returns the length of the escape sequence that b begins with, or 0
// if it is none.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) >= 6 && isHex(b[2]) && isHex(b[3]) && isHex(b[4]) && isHex(b[5]) {
			return 6
		}
	}
	return 0
}

// badString notes what is wrong in a string at i.
func (s *scanner) badString(i int) int {
	rest := s.data[i:]
	switch {
	case len(rest) == 0:
		return s.eof()
	case rest[0] < 0x20:
		return s.fail(i, "control character in a string")
	case rest[0] != '\\':
		return s.fail(i, "invalid UTF-8")
	case len(rest) > 1 && rest[1] != 'u':
		return s.fail(i, "bad escape in a string")
	}
	for j := 2; j < 6 && j < len(rest); j++ {
		if !isHex(rest[j]) {
			return s.fail(i, "bad \\u escape in a string")
		}
	}
	return s.eof()
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
	if i < len(data) && data[i] == '0' {
		i++
	} else if i = s.digits(i); i < 0 {
		return -1
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
		return s.digits(i)
	}
	return i
}

// digits reads one digit or more.
func (s *scanner) digits(i int) int {
	start := i
	for i < len(s.data) && isDigit(s.data[i]) {
		i++
	}
	switch {
	case i > start:
		return i
	case i >= len(s.data):
		return s.eof()
	}
	return s.fail(i, "bad number")
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
	rest := s.data[i:]
	if len(rest) >= len(word) && string(rest[:len(word)]) == word {
		return i + len(word)
	}
	for j := range min(len(word), len(rest)) {
		if rest[j] != word[j] {
			return s.fail(i+j, "unexpected character")
		}
	}
	return s.eof()
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

// next reads the name of the member at i, which open or more returned, up to
// its value. It returns the raw name without quotes, where its opening quote
// is, and where the value is, or -1.
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
