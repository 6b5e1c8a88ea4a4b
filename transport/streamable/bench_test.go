package streamable_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// BenchmarkServeHTTP is what a call costs in the server alone: no network, no
// net/http, and a peer that answers from memory. Beside time and memory it counts
// the headers of an answer, and how often a deadline is set.
func BenchmarkServeHTTP(b *testing.B) {
	for _, size := range []int{128, 64 << 10} {
		for _, era := range []protocol.Era{protocol.Legacy, protocol.Modern} {
			b.Run(fmt.Sprintf("%s/%d", era, size), func(b *testing.B) { benchServeHTTP(b, era, size) })
		}
	}
}

func benchServeHTTP(b *testing.B, era protocol.Era, size int) {
	peer := benchPeer(b, size)
	s := &streamable.Server{Requests: peer, Sessions: dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) {
		return peer, nil
	})}
	b.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	post := newBenchPost(b, era)
	if era == protocol.Legacy {
		hello := newBenchPost(b, era)
		hello.body = []byte(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + protocol.LatestLegacy.String() +
			`","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`)
		w := hello.to(s)
		post.header.Set(protocol.HeaderSession, w.header.Get(protocol.HeaderSession))
		post.header.Set(protocol.HeaderVersion, protocol.LatestLegacy.String())
	}
	w := post.to(s)
	if w.status != http.StatusOK || w.bytes < size/2 {
		b.Fatalf("status %d, %d bytes", w.status, w.bytes)
	}
	b.ReportAllocs()
	for b.Loop() {
		w = post.to(s)
	}
	b.ReportMetric(float64(len(w.header)), "headers")
	b.ReportMetric(float64(w.deadlines), "deadlines")
}

// benchPeer answers every request with a result of about so many bytes.
func benchPeer(b *testing.B, size int) dragoman.Peer {
	b.Helper()
	parse := func(result string) *dragoman.Message {
		m, err := dragoman.Parse([]byte(`{"jsonrpc":"2.0","id":1,"result":` + result + `}`))
		if err != nil {
			b.Fatal(err)
		}
		return m
	}
	hello := parse(`{"protocolVersion":"` + protocol.LatestLegacy.String() + `","capabilities":{"tools":{}},"serverInfo":{"name":"bench","version":"1"}}`)
	tools := parse(`{"resultType":"complete","ttlMs":3600000,"cacheScope":"public","tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`)
	answer := parse(`{"resultType":"complete","content":[{"type":"text","text":"` + strings.Repeat("x", size) + `"}]}`)
	return dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		switch req.Method() {
		case protocol.MethodInitialize:
			return hello.WithID(req.ID()), nil
		case protocol.MethodListTools:
			return tools.WithID(req.ID()), nil
		}
		return answer.WithID(req.ID()), nil
	}}
}

// A benchPost is a POST that is made again and again.
type benchPost struct {
	r      *http.Request
	header http.Header
	body   []byte
}

func newBenchPost(b *testing.B, era protocol.Era) *benchPost {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "http://localhost/mcp", http.NoBody)
	if err != nil {
		b.Fatal(err)
	}
	r.RemoteAddr = "127.0.0.1:40000"
	p := &benchPost{r: r, header: http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}}
	meta := ""
	if era == protocol.Modern {
		p.header.Set(protocol.HeaderVersion, protocol.Latest.String())
		p.header.Set(protocol.HeaderMethod, protocol.MethodCallTool)
		p.header.Set(protocol.HeaderName, "echo")
		meta = `,"_meta":{"` + protocol.MetaProtocolVersion + `":"` + protocol.Latest.String() + `","` + protocol.MetaClientCapabilities + `":{}}`
	}
	p.body = []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"the quick brown fox"}` + meta + `}}`)
	return p
}

// to makes the request.
func (p *benchPost) to(h http.Handler) *benchWriter {
	r := *p.r
	r.Header, r.Body, r.ContentLength = p.header, io.NopCloser(bytes.NewReader(p.body)), int64(len(p.body))
	w := &benchWriter{header: make(http.Header)}
	h.ServeHTTP(w, &r)
	return w
}

// A benchWriter takes a response, and counts.
type benchWriter struct {
	header                   http.Header
	status, bytes, deadlines int
}

func (w *benchWriter) Header() http.Header { return w.header }

func (w *benchWriter) WriteHeader(status int) { w.status = status }

func (w *benchWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.bytes += len(p)
	return len(p), nil
}

func (w *benchWriter) SetReadDeadline(time.Time) error {
	w.deadlines++
	return nil
}

func (w *benchWriter) SetWriteDeadline(time.Time) error {
	w.deadlines++
	return nil
}
