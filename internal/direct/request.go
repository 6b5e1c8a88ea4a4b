package direct

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/strict"
)

// A request is one that has come as a whole, at the beginning of the connection's in.
type request struct {
	target string
	host   string
	header http.Header
	head   int // bytes
	size   int // bytes, with the body
}

// names are header names in their usual spellings, each with that of net/http.
var names = spellings(
	"Accept", "Accept-Encoding", "Accept-Language", "Authorization", "Connection", "Content-Length", "Content-Type", "Host",
	"Last-Event-Id", "Mcp-Method", "Mcp-Name", "Mcp-Protocol-Version", "Mcp-Session-Id", "Origin", "Sec-Fetch-Mode",
	"Traceparent", "User-Agent", "X-Forwarded-For", "X-Request-Id",
)

func spellings(canonical ...string) map[string]string {
	m := map[string]string{"MCP-Protocol-Version": "Mcp-Protocol-Version"}
	for _, name := range canonical {
		m[name], m[strings.ToLower(name)] = name, name
	}
	return m
}

// parse reads a head, or its first lines. It reports false if the request is for others.
func parse(head string) (q request, ok bool) {
	line, fields, _ := strings.Cut(strings.TrimSuffix(head, "\r\n"), "\r\n")
	if line, ok = strings.CutSuffix(line, " HTTP/1.1"); !ok {
		return q, false
	}
	if q.target, ok = strings.CutPrefix(line, "POST "); !ok || !isPath(q.target) {
		return q, false
	}
	q.head, q.size = len(head), len(head)
	n := strings.Count(fields, "\n")
	q.header = make(http.Header, min(n, 8)) // a map with room for more costs much more
	values := make([]string, 0, n)
	for fields != "" {
		line, fields, _ = strings.Cut(fields, "\r\n")
		name, value, found := strings.Cut(line, ":")
		value = strings.Trim(value, " \t")
		key, usual := names[name]
		if !usual {
			key = http.CanonicalHeaderKey(name)
		}
		if !found || !usual && !strict.IsToken(name) || !isText(value) || !q.take(key, value) {
			return q, false
		}
		if key == "Host" {
			continue
		}
		values = append(values, value)
		if earlier := q.header[key]; earlier != nil {
			q.header[key] = append(earlier, value)
		} else {
			q.header[key] = values[len(values)-1 : len(values) : len(values)]
		}
	}
	return q, true
}

// take notes what a header field says about the request itself. It reports false if that
// makes it one for others.
func (q *request) take(key, value string) bool {
	switch key {
	case "Host":
		if q.host != "" || !isHost(value) {
			return false
		}
		q.host = value
	case "Content-Length":
		length, ok := number(value)
		if !ok || q.header[key] != nil || q.head+length > MaxRequest {
			return false
		}
		q.size += length
	case "Connection":
		return strings.EqualFold(value, "keep-alive")
	case "Expect", "Pragma", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return false
	}
	return true
}

// number reads a length. It reports false if that is none, or far too long.
func number(s string) (n int, ok bool) {
	if s == "" || len(s) > 9 {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = 10*n + int(s[i]-'0')
	}
	return n, true
}

// isPath reports whether a target is a path, perhaps with a query, in visible ASCII.
func isPath(target string) bool {
	for i := range len(target) {
		if target[i] <= ' ' || target[i] >= 0x7f {
			return false
		}
	}
	return strings.HasPrefix(target, "/")
}

// isText reports whether a value has no control characters.
func isText(value string) bool {
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// isHost reports whether a value is a name or an address, perhaps with a port.
func isHost(value string) bool {
	for i := range len(value) {
		c := value[i]
		if c|0x20 < 'a' || c|0x20 > 'z' {
			if (c < '0' || c > '9') && strings.IndexByte("-.:[]_", c) < 0 {
				return false
			}
		}
	}
	return value != ""
}

// httpRequest returns what a handler is given. The error says that the target is none.
func (c *conn) httpRequest(ctx context.Context, q *request, b *body) (*http.Request, error) {
	if q.target != c.target {
		u, err := url.ParseRequestURI(q.target)
		if err != nil {
			return nil, err
		}
		c.target, c.url = q.target, *u
	}
	u := c.url
	r := new(http.Request).WithContext(ctx)
	r.Method, r.RequestURI, r.URL = http.MethodPost, q.target, &u
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, 1
	r.Host, r.RemoteAddr, r.TLS = q.host, c.remote, c.secure
	r.Header, r.ContentLength, r.Body = q.header, int64(q.size-q.head), http.NoBody
	if q.size > q.head {
		b.rest, r.Body = c.in[q.head:q.size], b
	}
	return r, nil
}

// A body is that of a request. It ends with the request, because its memory is that of the
// connection.
type body struct {
	mu     sync.Mutex
	rest   []byte // guarded by mu
	closed bool   // guarded by mu
}

func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	n := copy(p, b.rest)
	if b.rest = b.rest[n:]; len(b.rest) == 0 {
		return n, io.EOF
	}
	return n, nil
}

// Len returns how much there is to read, all of which has come.
func (b *body) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.rest)
}

func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest, b.closed = nil, true
	return nil
}
