package httpx

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// NewID returns a new session id: 130 random bits in visible ASCII.
func NewID() string { return rand.Text() }

// Single returns the value of a header that may be there once, without the white
// space around it. An empty value is present. The error is a sentence for the client:
// of a header that is there twice, others may read the other value.
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
	return "", true, errors.New("the header " + header + " is there more than once")
}

// versionHeader is the spelling that net/http would otherwise make each time.
var versionHeader = http.CanonicalHeaderKey(protocol.HeaderVersion)

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

// Accepts reports whether the request's Accept accepts all of these media types.
// Of several ranges that fit a type the most specific decides. A request without
// Accept accepts none: MCP requires the types to be named.
func Accepts(r *http.Request, types ...string) bool {
	values := r.Header["Accept"]
	if len(values) == 1 && isExactList(values[0], types) {
		return true
	}
	for _, t := range types {
		major, _, _ := strings.Cut(t, "/")
		if !accepts(values, t, major+"/*", "*/*") {
			return false
		}
	}
	return true
}

// isExactList reports whether line is these names and nothing else, as most clients write
// it.
func isExactList(line string, names []string) bool {
	for i, name := range names {
		if i > 0 {
			if !strings.HasPrefix(line, ", ") {
				return false
			}
			line = line[len(", "):]
		}
		if !strings.HasPrefix(line, name) {
			return false
		}
		line = line[len(name):]
	}
	return line == ""
}

// accepts reports whether a list with weights, such as that of Accept, accepts
// something that has several names, the most specific first.
func accepts(values []string, names ...string) bool {
	best, accepted := len(names), false
	for _, line := range values {
		for element := range strings.SplitSeq(line, ",") {
			name, params, _ := strings.Cut(element, ";")
			name = strings.TrimSpace(name)
			for i, want := range names[:min(best+1, len(names))] {
				if !strings.EqualFold(name, want) {
					continue
				}
				// Named twice, it is accepted if either says so.
				ok := hasWeight(params)
				if i < best {
					best, accepted = i, ok
				} else {
					accepted = accepted || ok
				}
				break
			}
		}
	}
	return accepted
}

// hasWeight reports whether the weight of an element is above zero.
func hasWeight(params string) bool {
	for p := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(p, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return err == nil && q > 0
		}
	}
	return true
}

// HeaderRequestID carries the id under which a request is logged, from end to
// end.
const HeaderRequestID = "X-Request-Id"

// maxRequestID is how long an id of the client's may be.
const maxRequestID = 128

type requestKey struct{}

// WithRequestID returns the context of a request that is logged under an id.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestKey{}, id)
}

var (
	requests atomic.Uint64
	process  = strings.ToLower(rand.Text()[:10]) + "-" // makes our ids differ from those of other processes
)

// WithNewRequestID returns the context of a request that is logged under an id of ours.
// It is no secret, so it is a counter: random bits would cost more than the rest of the
// request here.
func WithNewRequestID(ctx context.Context) context.Context {
	return &numberedContext{ctx, requests.Add(1)}
}

// A numberedContext has a request id that is spelled out when somebody asks for it:
// most requests are not logged.
type numberedContext struct {
	context.Context
	number uint64
}

// Value implements context.Context.
func (c *numberedContext) Value(key any) any {
	if _, ok := key.(requestKey); ok {
		return c
	}
	return c.Context.Value(key)
}

// RequestID returns the id under which a request is logged, or "".
func RequestID(ctx context.Context) string {
	switch id := ctx.Value(requestKey{}).(type) {
	case string:
		return id
	case *numberedContext:
		return process + strconv.FormatUint(id.number, 36)
	}
	return ""
}

// HasRequestID reports whether a request is logged under an id.
func HasRequestID(ctx context.Context) bool { return ctx.Value(requestKey{}) != nil }

// WithClientRequestID returns the request with the client's id for it in its context, which the
// response names too, if there is one that is fit to be logged.
func WithClientRequestID(w http.ResponseWriter, r *http.Request) *http.Request {
	id := r.Header[HeaderRequestID]
	if len(id) != 1 || !validRequestID(id[0]) {
		return r
	}
	w.Header()[HeaderRequestID] = id
	return r.WithContext(WithRequestID(r.Context(), id[0]))
}

// validRequestID reports whether an id is short and has nothing in it that could be taken
// for something else in a log.
func validRequestID(id string) bool {
	for _, c := range []byte(id) {
		if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return id != "" && len(id) <= maxRequestID
}
