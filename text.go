package dragoman

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"
)

// view returns b as a string that shares its memory. The bytes of a message
// never change, so this is safe for them and for nothing else.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// unescape returns what the inside of a valid JSON string says. It allocates
// only if there are escapes.
func unescape(inside []byte) string {
	if bytes.IndexByte(inside, '\\') < 0 {
		return view(inside)
	}
	var s string
	quoted := make([]byte, 0, len(inside)+2)
	quoted = append(quoted, '"')
	quoted = append(quoted, inside...)
	quoted = append(quoted, '"')
	if json.Unmarshal(quoted, &s) != nil {
		return view(inside)
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
	if n, err := strconv.Atoi(view(value)); err == nil {
		return n
	}
	// Some write integers as 1.0 or 1e3.
	if f, err := strconv.ParseFloat(view(value), 64); err == nil && f == math.Trunc(f) && math.Abs(f) <= math.MaxInt32 {
		return int(f)
	}
	return 0
}

// quote returns s as JSON text, without escapes that JSON does not need.
func quote(s string) []byte { return appendQuote(nil, s) }

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

// masks tells whether name is a spelling of want, other than want itself, that
// some readers take for it: other case, by Unicode's folding, or with NULs.
func masks(name, want string) bool {
	if strings.IndexByte(name, 0) >= 0 {
		return strings.EqualFold(strings.ReplaceAll(name, "\x00", ""), want)
	}
	// Folding maps at most three bytes, the Kelvin sign, to one.
	return len(name) >= len(want) && len(name) <= 3*len(want) && name != want && strings.EqualFold(name, want)
}
