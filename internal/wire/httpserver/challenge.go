package httpserver

import (
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Challenge returns the WWW-Authenticate header that asks for a token, or a better one
// (RFC 6750, RFC 9728). Each part may be empty.
func Challenge(metadata, code, description, scope string) string {
	var list []string
	add := func(name, value string) {
		if value != "" {
			list = append(list, name+`="`+quotable(value)+`"`)
		}
	}
	add("error", code)
	if code != "" {
		add("error_description", description)
	}
	add("scope", scope)
	add("resource_metadata", metadata)
	return strings.TrimSuffix("Bearer "+strings.Join(list, ", "), " ")
}

// Challenge says in the header of the answer which token an error says that its caller
// needs, if it does. No answer has begun.
func (x *Exchange) Challenge(e *dragoman.Error) {
	if scope := protocol.NeededScope(e); scope != "" {
		x.W.Header().Set("WWW-Authenticate", Challenge(x.Caller.Metadata, httpframe.InsufficientScope, e.Message, scope))
	}
}

// quotable returns a text without what ends a quoted string, or has no place in a header.
func quotable(s string) string {
	return strings.Map(func(c rune) rune {
		if c == '"' || c == '\\' || c < ' ' || c > '~' {
			return '\''
		}
		return c
	}, s)
}
