package httpx

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// NewID returns a new session id: 130 random bits in visible ASCII.
func NewID() string { return rand.Text() }

// Single returns the value of a header that may be there once, without the white
// space around it. An empty value is present. The error is a *[Refusal] with the
// code for headers: of a header that is there twice, others may read the other
// value.
func Single(r *http.Request, header string) (value string, present bool, err error) {
	if header == protocol.HeaderVersion {
		header = versionHeader // every request has it
	}
	switch values := r.Header.Values(header); len(values) {
	case 0:
		return "", false, nil
	case 1:
		return strings.Trim(values[0], " \t"), true, nil
	}
	return "", true, &Refusal{
		Status:  http.StatusBadRequest,
		Code:    protocol.CodeHeaderMismatch,
		Message: "the header " + header + " is there more than once",
	}
}

// versionHeader is the spelling that net/http would otherwise make each time.
var versionHeader = http.CanonicalHeaderKey(protocol.HeaderVersion)

// MirrorName returns the part of a request that Mcp-Name repeats. It is false if
// the method has none, or the request lacks it or has no string there.
func MirrorName(m *dragoman.Message) (string, bool) {
	var raw json.RawMessage
	switch m.Method() {
	case protocol.MethodCallTool, protocol.MethodGetPrompt:
		raw = m.Get("name")
	case protocol.MethodReadResource:
		raw = m.Get("uri")
	case protocol.MethodGetTask, protocol.MethodUpdateTask, protocol.MethodCancelTask:
		raw = m.Get("taskId")
	}
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	if plain := raw[1 : len(raw)-1]; bytes.IndexByte(plain, '\\') < 0 && utf8.Valid(plain) {
		return string(plain), true
	}
	var name string
	err := json.Unmarshal(raw, &name)
	return name, err == nil
}

// Marks of a header value that is encoded.
const (
	encodedPrefix = "=?base64?"
	encodedSuffix = "?="
)

var (
	errCharacter = errors.New("httpx: header value has characters outside of visible ASCII that are not encoded")
	errEncoding  = errors.New("httpx: header value is marked as base64 but is none")
	errUTF8      = errors.New("httpx: header value encodes text that is not UTF-8")
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

// isToken tells whether s is a token of RFC 9110, as header names are.
func isToken(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}
