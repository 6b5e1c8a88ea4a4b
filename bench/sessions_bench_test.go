package bench

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/testkit/memnet"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// idleSessions is how many sessions are open at once.
const idleSessions = 10_000

// BenchmarkSessions compares the memory of idle sessions, each with an open GET
// stream, with that of a handler that holds as many event streams open, both
// behind net/http. B/session is what a session needs beyond the bare stream.
//
// The network is in memory: it needs no descriptors, so the number is the same
// everywhere, and its clients have no goroutines.
func BenchmarkSessions(b *testing.B) {
	bareServer := func() (http.Handler, func()) { return http.HandlerFunc(holdHandler), func() {} }
	ourServer := func() (http.Handler, func()) {
		e := builtin.New(nil)
		s := &streamable.Server{Sessions: e, Requests: e.Requests(), KeepAlive: time.Hour}
		return s, func() { _ = s.Shutdown(b.Context()) }
	}
	// The runtime keeps what describes a goroutine when that has ended. So that
	// the first to be measured does not pay for it alone, nobody does.
	idleCost(b, idleSessions, openSession, bareServer)
	var bare, ours int64
	rounds := int64(0)
	for b.Loop() {
		bare += idleCost(b, idleSessions, openSession, bareServer)
		ours += idleCost(b, idleSessions, openSession, ourServer)
		rounds++
	}
	n := rounds * idleSessions
	b.ReportMetric(0, "ns/op") // says nothing here
	b.ReportMetric(float64(idleSessions), "sessions")
	b.ReportMetric(float64(bare/n), "B/bare")
	b.ReportMetric(float64((ours-bare)/n), "B/session")
}

// streamStart is how an event stream begins whose events are numbered.
const streamStart = ": ok\n\nid: 0_1\ndata: \n\n"

// holdHandler answers a POST as bareMemory does, and holds an event stream open
// on a GET.
func holdHandler(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		bareMemory(bareResults[protocol.Legacy]).ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, streamStart)
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// idleCost returns how much memory a server takes for n connections, each of which open has
// used.
func idleCost(b *testing.B, n int, open func(net.Conn, *bufio.Reader) error, start func() (http.Handler, func())) int64 {
	b.Helper()
	handler, stop := start()
	listener := memnet.Listen()
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	served := make(chan struct{})
	go func() { // ends with server.Close
		defer close(served)
		_ = server.Serve(listener)
	}()
	conns := make([]net.Conn, n)
	br := bufio.NewReader(nil)
	before := memoryInUse()
	for i := range conns {
		conn, err := listener.DialContext(b.Context(), "", "")
		if err == nil {
			br.Reset(conn)
			err = open(conn, br)
		}
		if err != nil {
			b.Fatalf("connection %d: %v", i, err)
		}
		conns[i] = conn
	}
	grown := memoryInUse() - before
	stop()
	for _, conn := range conns {
		_ = conn.Close()
	}
	_ = server.Close()
	<-served
	return grown
}

// openSession makes the handshake and opens the stream that the server may
// speak on, all on one connection.
func openSession(conn net.Conn, br *bufio.Reader) error {
	const post = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
	session := ""
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + protocol.LatestLegacy.String() + `","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
	} {
		if _, err := fmt.Fprintf(conn, "%s%sContent-Length: %d\r\n\r\n%s", post, session, len(body), body); err != nil {
			return err
		}
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return err
		}
		if resp.StatusCode > http.StatusAccepted {
			return fmt.Errorf("status %s", resp.Status)
		}
		if id := resp.Header.Get(protocol.HeaderSession); id != "" {
			session = protocol.HeaderSession + ": " + id + "\r\n" + protocol.HeaderVersion + ": " + protocol.LatestLegacy.String() + "\r\n"
		}
	}
	if _, err := fmt.Fprintf(conn, "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n%s\r\n", session); err != nil {
		return err
	}
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", resp.Status)
	}
	// A write that nobody reads would keep the server from being idle.
	got := make([]byte, len(streamStart))
	if _, err := io.ReadFull(resp.Body, got); err != nil {
		return err
	}
	if string(got) != streamStart {
		return fmt.Errorf("the stream begins with %q, want %q", got, streamStart)
	}
	return nil
}

// memoryInUse returns the bytes of heap and stacks, without garbage.
func memoryInUse() int64 {
	for range 3 { // pools give up what they hold in the second
		runtime.GC()
		time.Sleep(50 * time.Millisecond) // those who were woken get to where they wait
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}
