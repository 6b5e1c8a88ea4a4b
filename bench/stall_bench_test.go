package bench

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// BenchmarkStalledReader compares how long calls take on a server one of whose
// clients reads nothing of its stream, though it is told more and more, with how
// long they take on a server without such a client, in turns. A ratio of 1 means
// that the others do not notice.
func BenchmarkStalledReader(b *testing.B) {
	plain, stalled := newSite(b), newSite(b)
	stop := stalled.stall(b)
	defer stop()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
	defer client.CloseIdleConnections()
	for _, era := range []protocol.Era{protocol.Legacy, protocol.Modern} {
		b.Run(era.String(), func(b *testing.B) {
			without, with := echoCaller(b, plain.url, era), echoCaller(b, stalled.url, era)
			without.rounds(b, client, 200, 1)
			with.rounds(b, client, 200, 1)
			var quiet, beside []time.Duration
			for b.Loop() {
				for range 100 { // one by one, so that both have the same share of noise
					quiet = append(quiet, without.rounds(b, client, 1, 1))
					beside = append(beside, with.rounds(b, client, 1, 1))
				}
			}
			if !stalled.blocked() {
				b.Fatal("the client that reads nothing does not block the server's write")
			}
			slices.Sort(quiet)
			slices.Sort(beside)
			b.ReportMetric(0, "ns/op") // two calls, which says nothing
			for _, p := range []int{50, 99} {
				i := len(quiet) * p / 100
				b.ReportMetric(float64(beside[i].Microseconds()), fmt.Sprintf("p%d-µs", p))
				b.ReportMetric(float64(beside[i])/float64(quiet[i]), fmt.Sprintf("p%d-ratio", p))
			}
		})
	}
}

// A stallSite is a server that shows its clients and their connections.
type stallSite struct {
	url     string
	clients chan dragoman.Conn // of the sessions, as they begin
	last    atomic.Pointer[watchedConn]
}

func newSite(b *testing.B) *stallSite {
	b.Helper()
	s := &stallSite{clients: make(chan dragoman.Conn, 16)}
	e := builtin.New(nil)
	// Nobody is cut while the benchmark runs.
	server := &streamable.Server{Requests: e.Requests(), WriteTimeout: time.Hour}
	server.Sessions = dragoman.AcceptFunc(func(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
		select {
		case s.clients <- client:
		default:
		}
		return e.Accept(ctx, client)
	})
	var config net.ListenConfig
	listener, err := config.Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s.url = "http://" + listener.Addr().String()
	h := &http.Server{Handler: server, ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() { // ends with h.Close
		defer close(done)
		_ = h.Serve(&watchedListener{listener, s})
	}()
	b.Cleanup(func() {
		_ = h.Close()
		<-done
		_ = server.Shutdown(context.Background())
	})
	return s
}

// stall opens a session and its stream, of which nothing is read, and tells its
// client more than fits anywhere, and then continues. The function that it returns
// ends that.
func (s *stallSite) stall(b *testing.B) (stop func()) {
	b.Helper()
	conn, err := new(net.Dialer).DialContext(b.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		b.Fatal(err)
	}
	if err := openSession(conn, bufio.NewReader(conn)); err != nil {
		b.Fatal(err)
	}
	client := <-s.clients
	note, err := dragoman.NewNotification(protocol.NoteMessage, map[string]any{"level": "info", "data": strings.Repeat("x", 64<<10)})
	if err != nil {
		b.Fatal(err)
	}
	deadline := time.Now().Add(30 * time.Second)
	for !s.blocked() {
		if err := client.Notify(b.Context(), note); err != nil || time.Now().After(deadline) {
			b.Fatalf("the stream does not fill: %v", err)
		}
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() { // ends with ctx
		defer close(done)
		for tick := time.NewTicker(time.Millisecond); ctx.Err() == nil; <-tick.C {
			_ = client.Notify(ctx, note)
		}
	}()
	return func() {
		cancel()
		<-done
		_ = conn.Close()
	}
}

// blocked reports whether a write of the first connection takes longer than any
// write that somebody reads.
func (s *stallSite) blocked() bool {
	c := s.last.Load()
	if c == nil {
		return false
	}
	since := c.since.Load()
	return since != 0 && time.Since(time.Unix(0, since)) > 200*time.Millisecond
}

// A watchedListener keeps its first connection in view.
type watchedListener struct {
	net.Listener
	site *stallSite
}

func (l *watchedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	watched := &watchedConn{Conn: c}
	l.site.last.CompareAndSwap(nil, watched)
	return watched, nil
}

// A watchedConn knows since when a write is in progress.
type watchedConn struct {
	net.Conn
	since atomic.Int64
}

func (c *watchedConn) Write(p []byte) (int, error) {
	c.since.Store(time.Now().UnixNano())
	defer c.since.Store(0)
	return c.Conn.Write(p)
}
