package bench

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/observe"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// everythingVariable makes the test binary be the built-in server of one era. It
// is looked at before TestMain, which knows nothing of it.
const everythingVariable = "DRAGOMAN_BENCH_EVERYTHING"

func init() {
	name := os.Getenv(everythingVariable)
	if name == "" {
		return
	}
	server := builtin.New(&builtin.Options{Revisions: slices.DeleteFunc(protocol.Revisions(), func(r protocol.Revision) bool {
		return r.Era().String() != name
	})})
	if err := stdio.Serve(context.Background(), server, nil); err != nil {
		log.Fatal(err)
	}
	os.Exit(0)
}

// bridgeTimeout is how long the server may take over a request. The time is not
// the point: that it is limited costs something, and `dragoman run` limits it.
const bridgeTimeout = time.Minute

// BenchmarkBridge compares a call of echo through the bridge, as `dragoman run`
// builds it, with handlers that know nothing of the protocol: they write the body
// of a POST to a process of the same kind, and the line that comes back to the
// client. Across eras the bare one's client speaks the server's era, so that both
// processes have the same to do. Its messages are some 300 bytes shorter in all
// than those of the bridge's client if that one is modern, and longer by as much if
// it is legacy, so the one direction pays what the other gains. What is reported is
// the median turn.
//
// "bare" serves any number of connections: it reads on a goroutine of its own, which
// finds out who waits for a line. "lone" is one that can serve a single connection
// only, and so reads the next line itself.
func BenchmarkBridge(b *testing.B) {
	for _, server := range []protocol.Era{protocol.Legacy, protocol.Modern} {
		for _, client := range []protocol.Era{protocol.Legacy, protocol.Modern} {
			for _, conns := range []int{1, 16, 64} {
				b.Run(fmt.Sprintf("%s=>%s/connections=%d", client, server, conns), func(b *testing.B) {
					benchBridge(b, client, server, conns)
				})
			}
		}
	}
}

func benchBridge(b *testing.B, client, server protocol.Era, conns int) {
	over := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: conns}}
	defer over.CloseIdleConnections()
	sides := []*caller{
		echoCaller(b, startBridge(b, server, &config.File{}), client),
		echoCaller(b, startRelay(b, server, false), server),
	}
	if conns == 1 {
		sides = append(sides, echoCaller(b, startRelay(b, server, true), server))
	}
	for _, c := range sides {
		c.rounds(b, over, 320, conns)
	}
	const turn = 160
	times := make([][]time.Duration, len(sides))
	for b.Loop() {
		for range 5 { // short turns, so that all have the same share of noise
			for i, c := range sides {
				times[i] = append(times[i], c.rounds(b, over, turn, conns))
			}
		}
	}
	medians := make([]float64, len(sides))
	for i, t := range times {
		slices.Sort(t)
		medians[i] = t[len(t)/2].Seconds()
	}
	ours, bare := medians[0], medians[1]
	b.ReportMetric(turn/ours, "calls/s")
	b.ReportMetric(turn/bare, "bare/s")
	b.ReportMetric(bare/ours, "x-bare")
	if conns == 1 {
		b.ReportMetric(medians[2]/ours, "x-lone")
	}
}

// startBridge serves a process of an era to clients of both, as a configuration without
// servers says, and returns its URL.
func startBridge(b *testing.B, of protocol.Era, file *config.File) string {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	file.Names = []string{"everything"}
	file.Servers = map[string]*config.Server{"everything": {
		Name: "everything", Command: self, Env: map[string]string{everythingVariable: of.String()}, Timeout: bridgeTimeout,
	}}
	g, err := observe.NewGateway(&gateway.Options{Name: "bench", Version: "1", Single: true}, file, slog.LevelInfo)
	if err != nil {
		b.Fatal(err)
	}
	found, err := g.Upstreams()[0].Start(b.Context())
	if err != nil || found != of {
		b.Fatalf("the server is of the %v era, %v", found, err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	web := httpserver.New(g.Handler(nil), &httpserver.Options{Logger: slog.New(slog.DiscardHandler)})
	var serving sync.WaitGroup
	serving.Go(func() { _ = web.Serve(l) }) // ends with Close
	b.Cleanup(func() {
		if err := g.Shutdown(context.Background()); err != nil {
			b.Error(err)
		}
		_ = web.Close()
		serving.Wait()
	})
	return "http://" + l.Addr().String() + gateway.MCPPath
}

// startRelay serves a process of an era by a bare handler, and returns its URL. If it
// is for one connection only, there is no table of who waits.
func startRelay(b *testing.B, of protocol.Era, one bool) string {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), everythingVariable+"="+of.String())
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
	var handler http.Handler = &bareLine{in: in, out: bufio.NewReader(out)}
	var reading sync.WaitGroup
	if !one {
		relay := newBareRelay(in)
		handler = relay
		reading.Go(func() { relay.read(out) }) // ends with the process
	}
	listener := httptest.NewServer(handler)
	b.Cleanup(func() {
		listener.Close()
		_ = in.Close()
		reading.Wait()
		_ = cmd.Wait()
	})
	return listener.URL
}
