package httpframe

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// InsufficientScope is the error of a challenge for a better token.
const InsufficientScope = "insufficient_scope"

// MirrorName returns the part of a request that Mcp-Name repeats. It is false if
// the method has none, or the request lacks it or has no string there.
func MirrorName(m *dragoman.Message) (string, bool) {
	switch m.Method() {
	case protocol.MethodCallTool, protocol.MethodGetPrompt:
		return m.Name(), isText(m.Get("name"))
	case protocol.MethodReadResource:
		return m.URI(), isText(m.Get("uri"))
	case protocol.MethodGetTask, protocol.MethodUpdateTask, protocol.MethodCancelTask:
		return dragoman.Text(m.Get("taskId"))
	}
	return "", false
}

// isText reports whether a JSON value is a string.
func isText(value json.RawMessage) bool { return len(value) > 0 && value[0] == '"' }

// Prefix and suffix of a header value that is encoded.
const (
	encodedPrefix = "=?base64?"
	encodedSuffix = "?="
)

var (
	errCharacter = errors.New("httpframe: header value has characters outside of visible ASCII that are not encoded")
	errEncoding  = errors.New("httpframe: header value is marked as base64 but is none")
	errUTF8      = errors.New("httpframe: header value encodes text that is not UTF-8")
)

// EncodeHeaderValue returns s as the value of Mcp-Name or Mcp-Param-*: as it is
// where that is safe, else in base64 with marks around.
func EncodeHeaderValue(s string) string {
	if !needsEncoding(s) {
		return s
	}
	return encodedPrefix + base64.StdEncoding.EncodeToString([]byte(s)) + encodedSuffix
}

func needsEncoding(s string) bool {
	if s == "" {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return true
		}
	}
	// What looks encoded already would be decoded on the other side.
	return s[0] == ' ' || s[len(s)-1] == ' ' ||
		strings.HasPrefix(s, encodedPrefix) && strings.HasSuffix(s, encodedSuffix)
}

// DecodeHeaderValue returns what EncodeHeaderValue was given. It takes tabs as
// they are, which others do not encode.
func DecodeHeaderValue(s string) (string, error) {
	for i := range len(s) {
		if (s[i] < ' ' || s[i] > '~') && s[i] != '\t' {
			return "", errCharacter
		}
	}
	if len(s) < len(encodedPrefix)+len(encodedSuffix) ||
		!strings.HasPrefix(s, encodedPrefix) || !strings.HasSuffix(s, encodedSuffix) {
		return s, nil
	}
	b, err := base64.StdEncoding.Strict().DecodeString(s[len(encodedPrefix) : len(s)-len(encodedSuffix)])
	if err != nil {
		return "", errEncoding
	}
	if !utf8.Valid(b) {
		return "", errUTF8
	}
	return string(b), nil
}

// MediaType returns what a body is, without parameters.
func MediaType(h http.Header) string {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return kind
}

// EffectivePort returns port, or the one that a scheme of URLs implies.
func EffectivePort(scheme, port string) string {
	switch {
	case port != "":
		return port
	case scheme == "http":
		return "80"
	case scheme == "https":
		return "443"
	}
	return ""
}
