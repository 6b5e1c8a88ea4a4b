package adapt

import (
	"bytes"
	"encoding/json"
	"iter"
)

// Everything here walks over JSON text that has been checked before, as part of
// a message. On other text it ends, with whatever result.

// A field is where one member of an object lies: its name from the opening
// quote, and its value.
type field struct{ key, start, end int }

// fields returns the members of an object, by what their names say. Of anything
// but an object there are none.
func fields(obj []byte) iter.Seq2[[]byte, field] {
	return func(yield func([]byte, field) bool) {
		if len(obj) == 0 || obj[0] != '{' {
			return
		}
		for i := space(obj, 1); i < len(obj) && obj[i] == '"'; {
			f := field{key: i}
			if i = endOfString(obj, i); i < f.key+2 {
				return
			}
			name := obj[f.key+1 : i-1]
			if bytes.IndexByte(name, '\\') >= 0 {
				s, _ := text(obj[f.key:i])
				name = []byte(s)
			}
			if f.start = space(obj, space(obj, i)+1); f.start >= len(obj) {
				return
			}
			f.end = skip(obj, f.start)
			if !yield(name, f) {
				return
			}
			i = behind(obj, f.end)
		}
	}
}

// elements returns where the elements of an array lie. Of anything but an array
// there are none.
func elements(list []byte) iter.Seq2[int, int] {
	return func(yield func(start, end int) bool) {
		if len(list) == 0 || list[0] != '[' {
			return
		}
		for i := space(list, 1); i < len(list) && list[i] != ']'; {
			end := skip(list, i)
			if !yield(i, end) {
				return
			}
			i = behind(list, end)
		}
	}
}

// get returns a member of an object, the last one of that name, or nil.
func get(obj []byte, name string) (value []byte) {
	for n, f := range fields(obj) {
		if string(n) == name {
			value = obj[f.start:f.end:f.end]
		}
	}
	return value
}

// textOf returns a member of an object that is a string, or "".
func textOf(obj []byte, name string) string {
	s, _ := text(get(obj, name))
	return s
}

// text returns what a value says if it is a string.
func text(value []byte) (string, bool) {
	if len(value) < 2 || value[0] != '"' {
		return "", false
	}
	if inside := value[1 : len(value)-1]; bytes.IndexByte(inside, '\\') < 0 {
		return string(inside), true
	}
	var s string
	err := json.Unmarshal(value, &s)
	return s, err == nil
}

// Pieces of strings with their quotes, to find out quickly whether a text may
// hold them. Eight bytes are found several times faster than more.
const (
	pieceAudio      = `"audio"`
	pieceLink       = `ce_link"` // resource_link
	pieceStructured = `Content"` // structuredContent
	pieceSchema     = `"outputS` // outputSchema
	pieceExecution  = `"executi` // execution
	pieceTask       = `"task"`
	pieceToolResult = `_result"` // tool_result
)

// mentions tells whether JSON text may hold a string of one of these pieces, as
// a name or a value. It may be wrong only if it says yes.
func mentions(data []byte, pieces ...string) bool {
	for _, p := range pieces {
		if bytes.Contains(data, []byte(p)) {
			return true
		}
	}
	return len(pieces) > 0 && bytes.Contains(data, []byte(`\u`)) // any letter may be spelt like that
}

// isObject tells whether a value is an object.
func isObject(value []byte) bool { return len(value) > 0 && value[0] == '{' }

// skip returns the offset behind the value at i, at least one further.
func skip(data []byte, i int) int {
	depth := 0
	for i < len(data) {
		switch c := data[i]; {
		case c == '"':
			i = endOfString(data, i)
		case c == '{' || c == '[':
			depth++
			i++
		case c == '}' || c == ']':
			depth--
			i++
		case ends(c):
			i++
			continue
		default: // a number or a literal
			for i++; i < len(data) && !ends(data[i]); i++ {
			}
		}
		if depth <= 0 {
			return i
		}
	}
	return i
}

// ends tells whether c cannot be part of a number or a literal.
func ends(c byte) bool {
	switch c {
	case ',', ':', '}', ']', ' ', '\t', '\n', '\r':
		return true
	}
	return false
}

// endOfString returns the offset behind the string whose opening quote is at i.
func endOfString(data []byte, i int) int {
	for i++; i < len(data); {
		n := bytes.IndexByte(data[i:], '"')
		if n < 0 {
			break
		}
		// An odd number of backslashes before it makes it part of the string.
		quote := i + n
		first := quote
		for first > i && data[first-1] == '\\' {
			first--
		}
		i = quote + 1
		if (quote-first)%2 == 0 {
			return i
		}
	}
	return len(data)
}

// behind returns the offset of what follows the member or element that ends
// at i.
func behind(data []byte, i int) int {
	if i = space(data, i); i < len(data) && data[i] == ',' {
		i = space(data, i+1)
	}
	return i
}

func space(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\t' || data[i] == '\r') {
		i++
	}
	return i
}
