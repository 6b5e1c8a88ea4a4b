package dragoman

import (
	"encoding/json"
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
func StringID(s string) ID { return ID{string(quote(s))} }

// IsZero tells whether there is no id.
func (id ID) IsZero() bool { return id.text == "" }

// IsNull tells whether the id is JSON's null.
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
	var s string
	if json.Unmarshal([]byte(id.text), &s) != nil {
		return id
	}
	return StringID(s)
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

// ParseID reads an id from JSON text, as found in params.requestId.
func ParseID(text []byte) (ID, bool) {
	if i, reason := checkID(text); i >= 0 || reason != "" {
		return ID{}, false
	}
	return ID{string(text)}, true
}

// checkID tells what is wrong with one valid JSON value as an id, and where;
// -1 if nothing.
func checkID(text []byte) (int, string) {
	if len(text) == 0 {
		return 0, "id is missing"
	}
	switch c := text[0]; {
	case c == '"':
		if i := loneSurrogate(text); i >= 0 {
			return i, "id holds half a surrogate pair"
		}
	case c == '-' || '0' <= c && c <= '9':
		for i, c := range text {
			if c == '.' || c == 'e' || c == 'E' {
				return i, "id must be a string or an integer, not a fraction"
			}
		}
	default:
		return 0, "id must be a string or an integer"
	}
	return -1, ""
}
