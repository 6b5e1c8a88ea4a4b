// Package sse reads and writes event streams by the rules of the WHATWG HTML
// standard, section 9.2. It is the only place that knows what one looks like.
package sse

import (
	"bytes"
	"strconv"

	"github.com/dragoman-mcp/dragoman"
)

// ContentType is the media type of event streams.
const ContentType = "text/event-stream"

// An Event is one event of a stream.
type Event struct {
	// Name is the event's type. Empty means "message".
	Name string

	// ID is the cursor of this event. A reader gives each event the last id
	// that the stream has named, as the standard wants it.
	ID string

	// Data is the payload. An event without data is delivered to nobody by the
	// standard, but its id and retry count.
	Data []byte

	// Retry is how many milliseconds to wait before connecting again. Zero means
	// that the event does not say; a reader turns a zero on the wire into one.
	Retry int
}

// HasMessage reports whether the event carries a message: it has data, and its type is
// "message".
func (e *Event) HasMessage() bool {
	return len(e.Data) > 0 && (e.Name == "" || e.Name == "message")
}

// Append appends an event to dst as it goes over the wire, its blank line
// included. Whatever the fields hold, it is one event: Data is JSON text, whose
// line ends stand between tokens and become spaces, and whose U+2028, U+2029 and
// U+0085, at which some readers end a line, are escaped. Line ends and NULs in
// Name and ID are left out.
func Append(dst []byte, e *Event) []byte {
	if e.Name != "" {
		dst = append(dst, "event: "...)
		dst = appendField(dst, e.Name)
	}
	if e.ID != "" {
		dst = append(dst, "id: "...)
		dst = appendField(dst, e.ID)
	}
	if e.Retry > 0 {
		dst = append(dst, "retry: "...)
		dst = strconv.AppendInt(dst, int64(e.Retry), 10)
		dst = append(dst, '\n')
	}
	// Also without data: readers exist that choke on an event that lacks it.
	dst = append(dst, "data: "...)
	dst = appendData(dst, e.Data)
	return append(dst, '\n', '\n')
}

// appendField appends the value of a field and the end of its line.
func appendField(dst []byte, value string) []byte {
	for i := range len(value) {
		switch c := value[i]; c {
		case '\r', '\n', 0:
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '\n')
}

// separators are the characters beyond ASCII at which readers exist that end a
// line. In JSON they stand in strings alone, where they can be escaped.
var separators = []struct{ raw, escaped []byte }{
	{[]byte("\u2028"), []byte(`\u2028`)}, {[]byte("\u2029"), []byte(`\u2029`)}, {[]byte("\u0085"), []byte(`\u0085`)},
}

// appendData appends JSON text on one line.
func appendData(dst, data []byte) []byte {
	for _, s := range separators {
		if bytes.Contains(data, s.raw) {
			data = bytes.ReplaceAll(data, s.raw, s.escaped)
		}
	}
	start := len(dst)
	dst = append(dst, data...)
	dragoman.OneLine(dst[start:])
	return dst
}

// AppendComment appends a comment, which readers ignore. It keeps connections
// alive that would otherwise be silent.
func AppendComment(dst []byte, text string) []byte {
	dst = append(dst, ": "...)
	dst = appendField(dst, text)
	return append(dst, '\n')
}
