package ws

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/memnet"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

// inMemory serves s on a network in memory, where time is the test's.
func inMemory(t *testing.T, s *Server, web *http.Server) *memnet.Listener {
	t.Helper()
	l := memnet.Listen()
	web.Handler = s
	go func() { _ = web.Serve(l) }() // ends by Close
	t.Cleanup(func() {
		stop(t, s)
		_ = web.Close()
	})
	return l
}

// rawIn is rawDial over such a network, without a deadline.
func rawIn(t *testing.T, l *memnet.Listener, lines ...string) *raw {
	t.Helper()
	conn, err := l.DialContext(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	r := rawOver(t, conn, lines...)
	_ = r.SetDeadline(time.Time{})
	return r
}

const mcp = "Sec-WebSocket-Protocol: mcp"

func TestS20_ClientThatAnswersNoPingIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		acceptor, conns := given(echoes)
		l := inMemory(t, &Server{Acceptor: acceptor}, &http.Server{})
		r := rawIn(t, l, mcp)
		conn := <-conns
		begin := time.Now()
		pings := 0
		for {
			first, _, err := r.next() // and no word from us
			if err != nil {
				break
			}
			if first == ping {
				pings++
			}
		}
		<-conn.Done()
		if took := time.Since(begin); took != DefaultPingInterval+DefaultWriteTimeout || pings != 1 {
			t.Errorf("cut after %v and %d pings", took, pings)
		}
		if err := conn.Err(); !errors.Is(err, errNoPong) || !errors.Is(err, dragoman.ErrClosed) {
			t.Errorf("the conversation ended with %v", err)
		}
	})
}

func TestServerThatAnswersNoPingIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen()
		web := &http.Client{Transport: &http.Transport{DialContext: l.DialContext}}
		r, conn := rawServeOn(t, l, &Client{URL: "ws://localhost/", HTTP: web}, nil)
		_ = r.SetDeadline(time.Time{})
		begin := time.Now()
		go func() { // ends with the connection
			for {
				if _, _, err := r.next(); err != nil {
					return
				}
			}
		}()
		_, err := conn.Call(t.Context(), peertest.Parse(t, asking("x")), nil)
		if took := time.Since(begin); took != DefaultPingInterval+DefaultWriteTimeout || !errors.Is(err, errNoPong) {
			t.Errorf("a call returned %v after %v", err, took)
		}
	})
}

func TestAnyFrameCountsAsAnAnswerToAPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		acceptor, conns := given(echoes)
		l := inMemory(t, &Server{Acceptor: acceptor, WriteTimeout: 10 * time.Second}, &http.Server{})
		r := rawIn(t, l, mcp)
		conn := <-conns
		frames := make(chan byte, 100)
		go func() { // ends with the connection
			defer close(frames)
			for {
				first, _, err := r.next()
				if err != nil {
					return
				}
				frames <- first
			}
		}()
		// One message, a byte every five seconds: no pong can come meanwhile.
		for _, b := range r.frame(text, []byte(asking("slow"))) {
			time.Sleep(5 * time.Second)
			r.write([]byte{b})
		}
		for first := range frames {
			if first == text {
				break
			}
		}
		if conn.Err() != nil {
			t.Errorf("cut: %v", conn.Err())
		}
	})
}

func TestDeadlinesOfTheHTTPServerDoNotCutSockets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := inMemory(t, &Server{Acceptor: peertest.Accept(echoes), Requests: toolEcho}, &http.Server{
			ReadTimeout: time.Second, ReadHeaderTimeout: time.Second, WriteTimeout: time.Second, IdleTimeout: time.Second,
		})
		web := &http.Client{Transport: &http.Transport{DialContext: l.DialContext}, Timeout: time.Second}
		// One side pings: this network has no buffers, and two pongs would meet.
		conn := dial(t, &Client{URL: "http://localhost/", HTTP: web, PingInterval: -1}, nil)
		for range 3 {
			time.Sleep(10 * time.Minute)
			if resp, err := conn.Call(t.Context(), peertest.Parse(t, asking("x")), nil); err != nil || resp.String() != asked("x") {
				t.Fatalf("got %v, %v", resp, err)
			}
		}
		_ = conn.Close()
	})
}

func TestS20_ClientThatPingsAndDoesNotReadIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		acceptor, conns := given(echoes)
		l := inMemory(t, &Server{Acceptor: acceptor}, &http.Server{})
		r := rawIn(t, l, mcp)
		conn := <-conns
		begin := time.Now()
		for range 10 {
			r.send(ping, []byte("x"))
		}
		<-conn.Done()
		if took := time.Since(begin); took > DefaultWriteTimeout {
			t.Errorf("cut after %v", took)
		}
		if err := conn.Err(); !errors.Is(err, dragoman.ErrClosed) {
			t.Errorf("the conversation ended with %v", err)
		}
	})
}

func TestClientThatDoesNotReadIsCutAndOthersAreServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conns := make(chan dragoman.Conn, 2)
		l := inMemory(t, &Server{PingInterval: -1, Acceptor: dragoman.AcceptFunc(func(_ context.Context, c dragoman.Conn) (dragoman.Peer, error) {
			conns <- c
			return echoes, nil
		})}, &http.Server{})
		slow := rawIn(t, l, mcp)
		conn := <-conns
		other := rawIn(t, l, mcp)
		begin := time.Now()
		slow.sendText(asking(sized(1 << 20)))
		for range 10 {
			other.wantOpen()
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("another client was held up for %v", took)
		}
		<-conn.Done()
		if took := time.Since(begin); took != DefaultWriteTimeout {
			t.Errorf("cut after %v", took)
		}
		if err := conn.Err(); !errors.Is(err, dragoman.ErrSlow) {
			t.Errorf("the conversation ended with %v", err)
		}
		other.wantOpen()
	})
}

func TestALargeMessageLetsPongsThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		acceptor, conns := given(echoes)
		l := inMemory(t, &Server{Acceptor: acceptor, WriteTimeout: time.Hour}, &http.Server{})
		r := rawIn(t, l, mcp)
		conn := <-conns
		x := sized(4 << 20)
		r.sendText(asking(x))
		go r.send(ping, []byte("in between")) // ends when the server has read it
		// The answer is read so slowly that it takes longer than a pong may.
		var got strings.Builder
		pongs := 0
		for {
			time.Sleep(2 * time.Second)
			first, payload, err := r.next()
			if err != nil {
				t.Fatalf("cut: %v, %v", err, conn.Err())
			}
			if first == pong {
				pongs++
				continue
			}
			if first&0xF == opPing {
				continue
			}
			got.Write(payload)
			if first&fin != 0 {
				break
			}
		}
		if got.String() != asked(x) || pongs != 1 {
			t.Errorf("got %d bytes and %d pongs", got.Len(), pongs)
		}
	})
}

func TestS20_AFloodOfPingsCostsNoMemory(t *testing.T) {
	peertest.NoLeak(t)
	r := rawDial(t, serve(t, &Server{Acceptor: peertest.Accept(echoes)}), mcp)
	r.wantOpen()
	before := heap()
	const n = 20_000
	flood := make(chan struct{})
	go func() { // ends when all is sent, or with the connection
		defer close(flood)
		b := r.frame(ping, []byte("flood"))
		for range n {
			_, _ = r.Write(b)
		}
	}()
	for range n {
		r.wantPong("flood")
	}
	peertest.Receive(t, flood, "the flood is sent")
	if grown := heap() - before; grown > 10<<20 {
		t.Errorf("%d pings cost %d KiB", n, grown>>10)
	}
	r.wantOpen()
}

// heap returns how much memory is in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
