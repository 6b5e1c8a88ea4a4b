package dragoman

import (
	"strconv"
	"strings"
)

// An ID is the id of a request as the JSON text it came in: `"a"` and `1` keep
// their type, and numbers of any size keep their digits. IDs are comparable.
// The zero ID is no id.
//
// An ID that was read from a message shares the message's memory.
type ID struct{ text string }

// NullID is what error responses carry when the request could not be read.
var NullID = ID{"null"}

// IntID returns the id n.
func IntID(n int64) ID { return ID{strconv.FormatInt(n, 10)} }

// StringID returns the id s.
func StringID(s string) ID { return ID{string(Quote(s))} }

// IsZero reports whether there is no id.
func (id ID) IsZero() bool { return id.text == "" }

// IsNull reports whether the id is JSON's null.
func (id ID) IsNull() bool { return id.text == "null" }

// String returns the id as JSON text.
func (id ID) String() string { return id.text }

// Int returns the id as a number, if it is one that fits.
func (id ID) Int() (int64, bool) {
	n, err := strconv.ParseInt(id.text, 10, 64)
	return n, err == nil
}

// Key returns the form of id in which equal ids are equal: strings spelt with
// and without escapes are the same id. It does not allocate unless there are
// escapes.
func (id ID) Key() ID {
	if strings.IndexByte(id.text, '\\') < 0 {
		return id
	}
	return StringID(unescape([]byte(id.text[1 : len(id.text)-1])))
}

// Clone returns id in memory of its own.
func (id ID) Clone() ID { return ID{strings.Clone(id.text)} }

// MarshalJSON returns the id's text.
func (id ID) MarshalJSON() ([]byte, error) {
	if id.IsZero() {
		return []byte("null"), nil
	}
	return []byte(id.text), nil
}

// ParseID reads an id from JSON text, as found in params.requestId: a string or
// an integer and nothing else, not even white space. The ID has memory of its
// own.
func ParseID(text []byte) (ID, bool) {
	s := scanner{data: text}
	if s.value(0, 0) != len(text) {
		return ID{}, false
	}
	if _, reason := checkID(text); reason != "" {
		return ID{}, false
	}
	return ID{string(text)}, true
}

// checkID returns what is wrong with one valid JSON value as an id, and where.
// The reason is "" if nothing is.
func checkID(text []byte) (at int, reason string) {
	switch c := text[0]; {
	case c == '"':
		if at = loneSurrogate(text); at >= 0 {
			return at, "id holds half a surrogate pair"
		}
	case c == '-' || isDigit(c):
		for at, c := range text {
			if c == '.' || c|0x20 == 'e' {
				return at, "id must be a string or an integer, not a fraction"
			}
		}
	default:
		return 0, "id must be a string or an integer"
	}
	return 0, ""
}
