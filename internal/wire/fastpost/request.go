package fastpost

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
)

// A request is one that has come as a whole, at the beginning of the connection's in.
type request struct {
	target string
	host   string
	header http.Header
	length int // where the value of Content-Length begins in the head; 0 if there is none
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
	line, fields, _ := strings.Cut(head, "\r\n")
	if line, ok = strings.CutSuffix(line, " HTTP/1.1"); !ok {
		return q, false
	}
	if q.target, ok = strings.CutPrefix(line, "POST "); !ok || !isPath(q.target) {
		return q, false
	}
	q.head, q.size = len(head), len(head)
	n := strings.Count(fields, "\n")
	if n > MaxFields+1 { // with the empty line
		return q, false
	}
	q.header = make(http.Header, min(n, 8)) // a map with room for more costs much more
	values := make([]string, 0, n)
	for fields != "" && fields != "\r\n" {
		line, fields, _ = strings.Cut(fields, "\r\n")
		name, value, found := strings.Cut(line, ":")
		value = strings.TrimLeft(value, " \t")
		behind := len(fields) + len("\r\n") + len(value)
		value = strings.TrimRight(value, " \t")
		key, usual := names[name]
		if !usual {
			key = http.CanonicalHeaderKey(name)
		}
		if !found || !usual && !httpframe.IsToken(name) || !isText(value) || !q.take(key, value) {
			return q, false
		}
		switch key {
		case "Host":
			continue
		case lengthName:
			q.length = len(head) - behind
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
	case lengthName:
		return q.header[key] == nil && q.setLength(value)
	case "Connection":
		return strings.EqualFold(value, "keep-alive")
	case "Expect", "Pragma", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return false
	}
	return true
}

// setLength notes how long the body is. It reports false if the request is for others.
func (q *request) setLength(value string) bool {
	n, ok := number(value)
	q.size = q.head + n
	return ok && q.size <= MaxRequest
}

// A pattern is the head of a connection's last request. Most clients send the same again,
// but for the length of the body: such a head need not be read again.
type pattern struct {
	text string  // empty if there is none
	says request // its header is nobody else's
	end  int     // of the value of Content-Length
}

// maxPattern is how long a head may be to be remembered.
const maxPattern = 2 << 10

// set remembers a head, unless it is too long or has no body.
func (p *pattern) set(head string, q *request) {
	if len(head) > maxPattern || q.length == 0 {
		*p = pattern{}
		return
	}
	*p = pattern{head, *q, q.length + len(q.header[lengthName][0])}
	p.says.header = maps.Clone(q.header)
}

// match returns what a head says that is like the one remembered. Header values are shared with
// other requests then, which is why handlers must not write into them.
func (p *pattern) match(head []byte) (q request, ok bool) {
	before, behind := p.text[:p.says.length], p.text[p.end:]
	end := len(head) - len(behind)
	if p.text == "" || end <= len(before) || string(head[:len(before)]) != before || string(head[end:]) != behind {
		return q, false
	}
	q = p.says
	q.head, q.header = len(head), maps.Clone(q.header)
	length := q.header[lengthName][0]
	if digits := head[len(before):end]; string(digits) != length {
		length = string(digits)
		q.header[lengthName] = []string{length}
	}
	ok = q.setLength(length)
	return q, ok
}

// lengthName is the name of the field that says how long the body is.
const lengthName = "Content-Length"

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

// isPath reports whether a target is a path, perhaps with a query, in visible ASCII and with
// escapes that are valid.
func isPath(target string) bool {
	if strings.Contains(target, "%") {
		if _, err := url.ParseRequestURI(target); err != nil {
			return false
		}
	}
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

// request returns what a handler is given. The error says that the target is none.
func (a *answer) request(ctx context.Context, q *request) (*http.Request, error) {
	c := a.c
	if q.target != c.target {
		u, err := url.ParseRequestURI(q.target)
		if err != nil {
			return nil, err
		}
		c.target, c.url = q.target, *u
	}
	a.url = c.url
	r := new(http.Request).WithContext(ctx)
	r.Method, r.RequestURI, r.URL = http.MethodPost, q.target, &a.url
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, 1
	r.Host, r.RemoteAddr, r.TLS = q.host, c.remote, c.secure
	r.Header, r.ContentLength, r.Body = q.header, int64(q.size-q.head), http.NoBody
	if q.size > q.head {
		a.body.rest, r.Body = c.in[q.head:q.size], &a.body
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
