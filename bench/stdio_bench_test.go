package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// childVariable makes the test binary be the other process of a benchmark.
const childVariable = "DRAGOMAN_BENCH_CHILD"

func TestMain(m *testing.M) {
	stdio.Guard()
	switch os.Getenv(childVariable) {
	case "bare":
		bareChild()
	case "peer":
		if err := stdio.Serve(context.Background(), acceptEcho, nil); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	default:
		os.Exit(m.Run())
	}
}

const answer = `{"content":[{"type":"text","text":"the quick brown fox jumps over the lazy dog"}],"structuredContent":{"words":9,"letters":35},"isError":false}`

// acceptEcho answers every request at once, with the same result.
var acceptEcho = dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) {
	return dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		return req.Reply([]byte(answer))
	}}, nil
})

// wordCall returns a request of about 200 bytes.
func wordCall(b *testing.B) *dragoman.Message {
	b.Helper()
	m, err := dragoman.NewRequest(dragoman.IntID(1), "tools/call", []byte(`{"name":"count_words","arguments":{"text":"the quick brown fox jumps over the lazy dog","language":"en","options":{"fold":true}}}`))
	if err != nil {
		b.Fatal(err)
	}
	return m
}

// bareChild answers each line with a line that has its id, and knows nothing
// else. What has arrived together is answered together.
func bareChild() {
	r := bufio.NewReader(os.Stdin)
	var out []byte
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return
		}
		_, line, _ = bytes.Cut(line, []byte(`"id":`))
		id, _, _ := bytes.Cut(line, []byte(","))
		out = append(out, `{"jsonrpc":"2.0","id":`...)
		out = append(out, id...)
		out = append(out, `,"result":`+answer+"}\n"...)
		if r.Buffered() > 0 {
			continue
		}
		if _, err := os.Stdout.Write(out); err != nil {
			return
		}
		out = out[:0]
	}
}

// A bare is a process at the other end of two pipes.
type bare struct {
	in  io.WriteCloser
	out *bufio.Reader
	msg []byte
}

func startBare(b *testing.B) *bare {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"=bare")
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return &bare{in, bufio.NewReader(out), append(wordCall(b).Bytes(), '\n')}
}

// rounds makes n round trips and returns how long they took.
func (p *bare) rounds(b *testing.B, n int) time.Duration {
	begin := time.Now()
	for range n {
		if _, err := p.in.Write(p.msg); err != nil {
			b.Fatal(err)
		}
		if _, err := p.out.ReadSlice('\n'); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(begin)
}

// rounds makes n calls, some of them at once, and returns how long they took.
func rounds(b *testing.B, peer dragoman.Peer, req *dragoman.Message, n, atOnce int) time.Duration {
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	begin := time.Now()
	for range atOnce {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				resp, err := peer.Call(context.Background(), req, nil)
				if err != nil || resp.IsError() {
					b.Error(resp, err)
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(begin)
}

// BenchmarkStdio compares calls over the pipes of a child with a bare ping-pong
// of the same bytes between two processes: a line there, a line back, one at a
// time. "client" has the same bare process at the other end, so it shows what
// our client side costs; in "both" the other process is a server of ours. The
// two sides are measured in turns, so that they share whatever else happens.
func BenchmarkStdio(b *testing.B) {
	for _, sides := range []struct{ name, child string }{{"client", "bare"}, {"both", "peer"}} {
		for _, atOnce := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/inflight=%d", sides.name, atOnce), func(b *testing.B) {
				benchStdio(b, sides.child, atOnce)
			})
		}
	}
}

func benchStdio(b *testing.B, child string, atOnce int) {
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	conn, err := (&stdio.Command{Path: self, Env: []string{childVariable + "=" + child}}).Dial(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	pipe, req := startBare(b), wordCall(b)
	rounds(b, conn, req, 100, atOnce)
	pipe.rounds(b, 100)
	var ours, bareTime time.Duration
	total := 0
	for b.Loop() {
		const turn = 1000
		ours += rounds(b, conn, req, turn, atOnce)
		bareTime += pipe.rounds(b, turn)
		total += turn
	}
	b.ReportMetric(float64(total)/ours.Seconds(), "calls/s")
	b.ReportMetric(float64(total)/bareTime.Seconds(), "bare/s")
	b.ReportMetric(bareTime.Seconds()/ours.Seconds(), "x-bare")
}
