package dragoman

import (
	"bytes"
	"encoding/json"
	"iter"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"
)

// What follows goes over JSON text that is known to be valid, such as parts of a
// message, without decoding it. On other text it ends, with whatever result.

// Members yields the members of an object, in order, by what their names say. Both
// share the object's memory. Of anything but an object there are none.
func Members(object []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for name, f := range Fields(object) {
			if !yield(name, object[f.Start:f.End:f.End]) {
				return
			}
		}
	}
}

// A Field is where a member of an object lies: its name from the opening quote, and
// its value.
type Field struct{ Key, Start, End int }

// Fields is [Members] for those who edit the text.
func Fields(object []byte) iter.Seq2[string, Field] {
	return func(yield func(string, Field) bool) {
		if !IsObject(object) {
			return
		}
		for i := skipSpace(object, 1); i < len(object) && object[i] == '"'; {
			f := Field{Key: i}
			if i = skipString(object, i); i < f.Key+2 {
				return
			}
			name := unescape(object[f.Key+1 : i-1])
			if f.Start = skipSpace(object, skipSpace(object, i)+1); f.Start >= len(object) {
				return
			}
			f.End = skipValue(object, f.Start)
			if !yield(name, f) {
				return
			}
			i = skipComma(object, f.End)
		}
	}
}

// Items yields the elements of an array, which share its memory, and where each
// begins. Of anything but an array there are none. [Elements] is the same for text
// that has not been checked.
func Items(array []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		if len(array) == 0 || array[0] != '[' {
			return
		}
		for i := skipSpace(array, 1); i < len(array) && array[i] != ']'; {
			end := skipValue(array, i)
			if !yield(i, array[i:end:end]) {
				return
			}
			i = skipComma(array, end)
		}
	}
}

// Member returns a member of an object, the last one of that name, or nil.
func Member(object []byte, name string) (value []byte) {
	for n, v := range Members(object) {
		if n == name {
			value = v
		}
	}
	return value
}

// MemberText returns a member of an object that is a string, or "".
func MemberText(object []byte, name string) string {
	s, _ := Text(Member(object, name))
	return s
}

// Text returns what a JSON value says if it is a string, in memory of its own.
func Text(value []byte) (string, bool) {
	s, ok := text(value)
	return strings.Clone(s), ok
}

// Quote returns s as JSON text, without escapes that JSON does not need. Bytes that
// are not UTF-8 become U+FFFD.
func Quote(s string) []byte { return appendQuote(nil, s) }

// IsObject reports whether a JSON value is an object.
func IsObject(value []byte) bool { return len(value) > 0 && value[0] == '{' }

// WithMember returns an object in which a member has a new value, or is there if it
// was not. Every other byte is as it was.
func WithMember(object []byte, name string, value []byte) []byte {
	out := make([]byte, 0, len(object)+len(name)+len(value)+4)
	at, last, found := 0, 1, false
	for n, f := range Fields(object) {
		if last = f.End; n != name {
			continue
		}
		out = append(append(out, object[at:f.Start]...), value...)
		at, found = f.End, true
	}
	if found {
		return append(out, object[at:]...)
	}
	out = append(out, object[:last]...)
	if last > 1 {
		out = append(out, ',')
	}
	out = append(append(appendQuote(out, name), ':'), value...)
	return append(out, object[last:]...)
}

// skipValue returns the offset behind the value at i, at least one further.
func skipValue(data []byte, i int) int {
	depth := 0
	for i < len(data) {
		switch c := data[i]; {
		case c == '"':
			i = skipString(data, i)
		case c == '{' || c == '[':
			depth++
			i++
		case c == '}' || c == ']':
			depth--
			i++
		case isDelimiter(c):
			i++
			continue
		default: // a number or a literal
			for i++; i < len(data) && !isDelimiter(data[i]); i++ {
			}
		}
		if depth <= 0 {
			return i
		}
	}
	return i
}

// isDelimiter reports whether c cannot be part of a number or a literal.
func isDelimiter(c byte) bool {
	switch c {
	case ',', ':', '}', ']', ' ', '\t', '\n', '\r':
		return true
	}
	return false
}

// skipString returns the offset behind the string whose opening quote is at i.
func skipString(data []byte, i int) int {
	for i++; i < len(data); {
		n := bytes.IndexByte(data[i:], '"')
		if n < 0 {
			break
		}
		// An odd number of backslashes before it makes it part of the string.
		end := i + n
		first := end
		for first > i && data[first-1] == '\\' {
			first--
		}
		i = end + 1
		if (end-first)%2 == 0 {
			return i
		}
	}
	return len(data)
}

// skipComma returns the offset of what follows the member or element that ends at i.
func skipComma(data []byte, i int) int {
	if i = skipSpace(data, i); i < len(data) && data[i] == ',' {
		i = skipSpace(data, i+1)
	}
	return i
}

func skipSpace(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\t' || data[i] == '\r') {
		i++
	}
	return i
}

// The two that follow check the text.

// Elements returns the elements of a JSON array, such as a batch of messages.
// They share its memory. The error is a [ParseError].
func Elements(array []byte) ([][]byte, error) {
	s := scanner{data: array}
	i := s.space(0)
	if i >= len(array) || array[i] != '[' {
		return nil, &ParseError{Code: codeInvalidRequest, Offset: i, Reason: "not an array"}
	}
	var parts [][]byte
	i = s.space(i + 1)
	if i < len(array) && array[i] == ']' {
		i++
	} else {
		for more := true; more && i >= 0; {
			start := s.space(i)
			if i = s.value(start, 1); i < 0 {
				break
			}
			parts = append(parts, array[start:i:i])
			switch i = s.space(i); {
			case i >= len(array):
				i = s.eof()
			case array[i] == ',':
				i++
			case array[i] == ']':
				i++
				more = false
			default:
				i = s.fail(i, "expected ',' or ']'")
			}
		}
	}
	if i >= 0 {
		if i = s.space(i); i < len(array) {
			s.fail(i, "more text behind the array")
		}
	}
	if s.reason != "" {
		return nil, &ParseError{Code: s.code, Offset: s.at, Reason: s.reason}
	}
	return parts, nil
}

// Span returns the length of the JSON array or object that data begins with,
// white space before it included: 0 if it is not complete, -1 if data begins
// with something else or the text is not valid.
func Span(data []byte) int {
	s := scanner{data: data}
	i := s.space(0)
	if i == len(data) {
		return 0
	}
	if data[i] != '{' && data[i] != '[' {
		return -1
	}
	end := s.value(i, 0)
	if end < 0 && !utf8.FullRune(data[s.at:]) { // also when nothing is left
		return 0
	}
	return end
}

// stringView returns b as a string that shares its memory. The bytes of a message
// never change, so this is safe for them and for nothing else.
func stringView(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// unescape returns what the inside of a valid JSON string says. It allocates
// only if there are escapes.
func unescape(inside []byte) string {
	if bytes.IndexByte(inside, '\\') < 0 {
		return stringView(inside)
	}
	var s string
	quoted := make([]byte, 0, len(inside)+2)
	quoted = append(quoted, '"')
	quoted = append(quoted, inside...)
	quoted = append(quoted, '"')
	if json.Unmarshal(quoted, &s) != nil {
		return stringView(inside)
	}
	return s
}

// text returns what a valid JSON value says if it is a string.
func text(value []byte) (string, bool) {
	if len(value) < 2 || value[0] != '"' {
		return "", false
	}
	return unescape(value[1 : len(value)-1]), true
}

// integer returns what a valid JSON value says if it is a number without a
// fraction that fits, else 0.
func integer(value []byte) int {
	if n, err := strconv.Atoi(stringView(value)); err == nil {
		return n
	}
	// Some write integers as 1.0 or 1e3.
	if f, err := strconv.ParseFloat(stringView(value), 64); err == nil && f == math.Trunc(f) && math.Abs(f) <= math.MaxInt32 {
		return int(f)
	}
	return 0
}

// appendQuote appends s as JSON text. Bytes that are not UTF-8 become U+FFFD.
func appendQuote(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	start := 0 // of what is the same in JSON and not copied yet
	for i := 0; i < len(s); {
		c := s[i]
		if ' ' <= c && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[start:i]...)
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			r, n := utf8.DecodeRuneInString(s[i:])
			dst = utf8.AppendRune(dst, r)
			i += n - 1
		}
		i++
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// loneSurrogate returns the offset of the first escape in a valid JSON string
// that is half a surrogate pair, or -1. Different readers make different text
// of it, so it must not stand where we decide something.
func loneSurrogate(s []byte) int {
	for i := 0; ; {
		next := bytes.IndexByte(s[i:], '\\')
		if next < 0 {
			return -1
		}
		i += next
		if s[i+1] != 'u' {
			i += 2
			continue
		}
		switch r := hex4(s[i+2:]); {
		case r>>10 == 0xD800>>10:
			low := s[i+6:]
			if len(low) < 6 || low[0] != '\\' || low[1] != 'u' || hex4(low[2:])>>10 != 0xDC00>>10 {
				return i
			}
			i += 12
		case r>>10 == 0xDC00>>10:
			return i
		default:
			i += 6
		}
	}
}

// hex4 returns the value of four hex digits.
func hex4(b []byte) (r rune) {
	for _, c := range b[:4] {
		switch {
		case c <= '9':
			c -= '0'
		default:
			c = c | 0x20 - 'a' + 10
		}
		r = r<<4 | rune(c)
	}
	return r
}

// looksLike reports whether name is a spelling of want, other than want itself, that
// some readers take for it: other case, by Unicode's folding, or with NULs.
func looksLike(name, want string) bool {
	if strings.IndexByte(name, 0) >= 0 {
		return strings.EqualFold(strings.ReplaceAll(name, "\x00", ""), want)
	}
	// Folding maps at most three bytes, the Kelvin sign, to one.
	return len(name) >= len(want) && len(name) <= 3*len(want) && name != want && strings.EqualFold(name, want)
}
