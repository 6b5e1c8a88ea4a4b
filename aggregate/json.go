package aggregate

import (
	"encoding/json"
	"fmt"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/walk"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// join puts pieces of JSON text, strings or bytes, together.
func join(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			b = append(b, p...)
		case []byte:
			b = append(b, p...)
		case json.RawMessage:
			b = append(b, p...)
		}
	}
	return b
}

// array returns texts as a JSON array.
func array(texts []string) []byte {
	b := []byte{'['}
	for i, s := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, walk.Quote(s)...)
	}
	return append(b, ']')
}

// failure is an error of our own.
func failure(code int, format string, args ...any) *dragoman.Error {
	return &dragoman.Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// invalid is the error for a request that is wrong.
func invalid(format string, args ...any) *dragoman.Error {
	return failure(protocol.CodeInvalidParams, format, args...)
}
