package sse

import (
	"bytes"
	"strconv"

	"github.com/dragoman-mcp/dragoman"
)

// ContentType is the media type of event streams.
const ContentType = "text/event-stream"

// Append appends an event to dst as it goes over the wire, its blank line
// included. Whatever the fields hold, it is one event: Data is JSON text, whose
// line ends stand between tokens and become spaces, and whose U+2028 and U+2029,
// at which some readers end a line, are escaped. Line ends and NULs in Name and
// ID are left out.
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

// appendData appends JSON text on one line.
func appendData(dst, data []byte) []byte {
	start := len(dst)
	for {
		// U+2028 is E2 80 A8, U+2029 is E2 80 A9.
		i := bytes.Index(data, []byte("\xe2\x80"))
		if i < 0 || i+2 >= len(data) {
			dst = append(dst, data...)
			break
		}
		dst = append(dst, data[:i]...)
		switch data[i+2] {
		case 0xa8:
			dst = append(dst, `\u2028`...)
		case 0xa9:
			dst = append(dst, `\u2029`...)
		default:
			dst = append(dst, data[i:i+3]...)
		}
		data = data[i+3:]
	}
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
