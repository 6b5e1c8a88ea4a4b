package ws

import (
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

// BenchmarkCall is one call after the other over a loopback socket.
func BenchmarkCall(b *testing.B) {
	for _, n := range []int{128, 4 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%d bytes", n), func(b *testing.B) {
			conn := dial(b, &Client{URL: serve(b, &Server{Acceptor: peertest.Accept(echoes)})}, nil)
			req := peertest.Parse(b, asking(sized(n)))
			b.SetBytes(int64(2 * n))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := conn.Call(b.Context(), req, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCalls is many calls at once over one loopback socket.
func BenchmarkCalls(b *testing.B) {
	conn := dial(b, &Client{URL: serve(b, &Server{Acceptor: peertest.Accept(echoes)})}, nil)
	req := peertest.Parse(b, asking(sized(128)))
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := conn.Call(b.Context(), req, nil); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkToolFrames is one tool frame after the other.
func BenchmarkToolFrames(b *testing.B) {
	conn := dial(b, &Client{URL: serve(b, &Server{Requests: toolEcho}), Tools: true}, nil)
	req := toolCall(b, "1", "n")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := conn.Call(b.Context(), req, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkIdle reports what a client that has spoken once and is silent now
// costs the server.
func BenchmarkIdle(b *testing.B) {
	for b.Loop() {
		const n = 2000
		at := strings.TrimPrefix(serve(b, &Server{Acceptor: peertest.Accept(echoes)}), "ws://")
		conns := make([]net.Conn, n)
		before, stacks := memory()
		for i := range conns {
			r := rawDial(b, at, mcp)
			r.wantOpen()
			r.in = nil
			conns[i] = r.Conn
		}
		after, stacksAfter := memory()
		b.ReportMetric(float64(after-before)/n, "heap-B/conn")
		b.ReportMetric(float64(stacksAfter-stacks)/n, "stack-B/conn")
		b.ReportMetric(float64(runtime.NumGoroutine())/n, "goroutines/conn")
		for _, c := range conns {
			_ = c.Close()
		}
	}
}

func memory() (heap, stacks int64) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), int64(m.StackInuse)
}
