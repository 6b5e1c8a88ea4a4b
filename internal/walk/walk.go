package walk

import (
	"bytes"
	"encoding/json"
	"iter"
)

// A Field is where one member of an object lies: its name from the opening
// quote, and its value.
type Field struct{ Key, Start, End int }

// Members returns the members of an object, by what their names say. Of anything
// but an object there are none.
func Members(obj []byte) iter.Seq2[[]byte, Field] {
	return func(yield func([]byte, Field) bool) {
		if len(obj) == 0 || obj[0] != '{' {
			return
		}
		for i := space(obj, 1); i < len(obj) && obj[i] == '"'; {
			f := Field{Key: i}
			if i = endOfString(obj, i); i < f.Key+2 {
				return
			}
			name := obj[f.Key+1 : i-1]
			if bytes.IndexByte(name, '\\') >= 0 {
				s, _ := Text(obj[f.Key:i])
				name = []byte(s)
			}
			if f.Start = space(obj, space(obj, i)+1); f.Start >= len(obj) {
				return
			}
			f.End = skip(obj, f.Start)
			if !yield(name, f) {
				return
			}
			i = behind(obj, f.End)
		}
	}
}

// Elements returns where the elements of an array lie. Of anything but an array
// there are none.
func Elements(list []byte) iter.Seq2[int, int] {
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

// Get returns a member of an object, the last one of that name, or nil.
func Get(obj []byte, name string) (value []byte) {
	for n, f := range Members(obj) {
		if string(n) == name {
			value = obj[f.Start:f.End:f.End]
		}
	}
	return value
}

// TextOf returns a member of an object that is a string, or "".
func TextOf(obj []byte, name string) string {
	s, _ := Text(Get(obj, name))
	return s
}

// Text returns what a value says if it is a string.
func Text(value []byte) (string, bool) {
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

// IsObject tells whether a value is an object.
func IsObject(value []byte) bool { return len(value) > 0 && value[0] == '{' }

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
