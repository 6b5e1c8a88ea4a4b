package httpframe

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"strconv"
	"testing"
)

// whole scans all at once, and returns how much passes.
func whole(b []byte) (passed int, s *scanner) {
	s = new(scanner)
	passed = s.scan(b)
	return passed, s
}

// bytewise scans one byte after the other. It returns how many pass, and where requests
// end.
func bytewise(b []byte) (passed int, ends []int, s *scanner) {
	s = new(scanner)
	for i := range b {
		before := s.state
		if s.scan(b[i:i+1]) == 0 {
			return i, ends, s
		}
		if before != atRequest && s.state == atRequest {
			ends = append(ends, i+1)
		}
	}
	return len(b), ends, s
}

// FuzzScanner holds the scanner against net/http: each request that net/http reads from
// what was passed must end where the scanner says it does.
func FuzzScanner(f *testing.F) {
	const next = "GET /next HTTP/1.1\r\nHost: a\r\n\r\n"
	for _, seed := range []string{
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc" + next,
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\nabc\r\n0\r\nX: y\r\n\r\n" + next,
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n" + next,
		"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + next,
		"GET http://a/ HTTP/1.1\r\nHost: a\r\nX : y\n\r\n" + next,
		"POST / HTTP/0.9\r\nTransfer-Encoding: chunked\r\n\r\n" + next,
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"\r\n\r\n" + next + next,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		passed, ends, slow := bytewise(b)
		at, fast := whole(b)
		if (at < len(b)) != (passed < len(b)) || at > passed {
			t.Fatalf("%d bytes pass at once, %d one by one", at, passed)
		}
		if at == len(b) && (fast.state != slow.state || fast.left != slow.left || !bytes.Equal(fast.part, slow.part)) {
			t.Fatalf("at once %+v, one by one %+v", fast, slow)
		}
		if slow.state == atAnything {
			return
		}
		source := bytes.NewReader(b[:passed])
		in := bufio.NewReader(source)
		for i := 0; ; i++ {
			req, err := http.ReadRequest(in)
			if err != nil {
				return // the server answers that, and closes
			}
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				return
			}
			end := passed - source.Len() - in.Buffered()
			if i >= len(ends) || ends[i] != end {
				t.Fatalf("net/http reads a request that ends at %d, number %d; the scanner has found %v", end, i, ends)
			}
		}
	})
}

// A repeating connection brings the same bytes with each Read.
type repeating struct {
	net.Conn
	bytes []byte
}

func (c repeating) Read(p []byte) (int, error) { return copy(p, c.bytes), nil }

// BenchmarkRequest is what one request of a usual client costs.
func BenchmarkRequest(b *testing.B) {
	const body = `{"jsonrpc":"2.0","id":1000000,"method":"tools/call","params":{"name":"echo","arguments":{"text":"0123456789ab"}}}`
	request := []byte("POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:8970\r\nUser-Agent: Go-http-client/1.1\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n" +
		"Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\nMcp-Protocol-Version: 2025-11-25\r\n" +
		"Mcp-Session-Id: 0123456789abcdef0123456789abcdef\r\nAccept-Encoding: gzip\r\n\r\n" + body)
	for _, bench := range []struct {
		name string
		wrap func(net.Conn) net.Conn
	}{
		{"bare", func(c net.Conn) net.Conn { return c }},
		{"strict", func(c net.Conn) net.Conn { return New(c, nil) }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			c := bench.wrap(repeating{bytes: request})
			p := make([]byte, 4096)
			b.ReportAllocs()
			for b.Loop() {
				if n, err := c.Read(p); n != len(request) || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}
