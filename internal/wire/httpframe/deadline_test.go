package httpframe_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/memnet"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
)

// transcript has somebody read from, or write to, a connection while somebody else sets
// deadlines and the other side does its part now and then. It returns what came of each
// operation, and when. No two of them do something at the same time.
func transcript(t *testing.T, seed uint64, writes bool, wrap func(net.Conn) net.Conn) (log []string) {
	t.Helper()
	const (
		unit = time.Second
		head = "POST / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n" // what follows is its body
	)
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(seed, 0))
		here, there := net.Pipe()
		go func() { _, _ = io.WriteString(there, head) }() // ends when it is read
		c := wrap(here)
		if n, err := io.ReadFull(c, make([]byte, len(head))); err != nil {
			t.Fatal(n, err)
		}
		begin := time.Now()
		done := make(chan struct{})
		go func() { // ends with the connection
			defer close(done)
			set, operate := c.SetReadDeadline, c.Read
			if writes {
				set, operate = c.SetWriteDeadline, c.Write
			}
			go func() { // ends after a hundred deadlines
				for range 100 {
					time.Sleep(time.Duration(1+random.IntN(3)) * unit)
					switch random.IntN(4) {
					case 0:
						_ = set(time.Time{})
					case 1:
						_ = set(time.Unix(1, 0))
					default:
						_ = set(time.Now().Add(time.Duration(random.IntN(6))*unit + unit/4))
					}
				}
				time.Sleep(unit)
				_ = c.SetDeadline(time.Time{})
				time.Sleep(10 * unit)
				_ = here.Close()
			}()
			p := make([]byte, 5)
			for {
				n, err := operate(p)
				log = append(log, fmt.Sprintf("%v: %d %v", time.Since(begin), n, err))
				switch {
				case errors.Is(err, os.ErrDeadlineExceeded):
					time.Sleep(unit * 618 / 1999)
				case err != nil:
					return
				}
			}
		}()
		other := rand.New(rand.NewPCG(seed, 1))
		time.Sleep(unit / 2)
		for err := error(nil); err == nil; {
			time.Sleep(time.Duration(1+other.IntN(5)) * unit)
			p := make([]byte, 1+other.IntN(8))
			if writes {
				_, err = there.Read(p)
			} else {
				_, err = there.Write(p)
			}
		}
		<-done
		_ = there.Close()
	})
	return log
}

func TestDeadlinesAreKeptAsByAnyConnection(t *testing.T) {
	for _, writes := range []bool{false, true} {
		for seed := range uint64(100) {
			want := transcript(t, seed, writes, func(c net.Conn) net.Conn { return c })
			got := transcript(t, seed, writes, func(c net.Conn) net.Conn { return httpframe.New(c, nil) })
			same := 0
			for same < min(len(got), len(want)) && got[same] == want[same] {
				same++
			}
			if same < max(len(got), len(want)) {
				t.Fatalf("writes: %v, seed %d: got, from operation %d on,\n%s\nwant\n%s", writes, seed, same,
					strings.Join(got[same:], "\n"), strings.Join(want[same:], "\n"))
			}
		}
	}
}

// A counted connection counts the deadlines that are set.
type counted struct {
	net.Conn
	set *atomic.Int64
}

func (c counted) SetReadDeadline(t time.Time) error {
	c.set.Add(1)
	return c.Conn.SetReadDeadline(t)
}

func (c counted) SetWriteDeadline(t time.Time) error {
	c.set.Add(1)
	return c.Conn.SetWriteDeadline(t)
}

// wrapped is a listener that puts connections into others.
type wrapped struct {
	net.Listener
	wrap func(net.Conn) net.Conn
}

func (l wrapped) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		c = l.wrap(c)
	}
	return c, err
}

// busy is a server whose handler sets deadlines as ours do.
func busy() *http.Server {
	return &http.Server{
		ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(30 * time.Second))
			_, _ = io.WriteString(w, "hello")
		}),
	}
}

// ask sends a request and reads its answer.
func ask(t testing.TB, c net.Conn, in *bufio.Reader) {
	t.Helper()
	if _, err := io.WriteString(c, good); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
}

func TestDeadlinesAreSetOnlyIfSomebodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen()
		var set atomic.Int64
		web := busy()
		done := make(chan struct{})
		go func() { // ends with Close
			defer close(done)
			_ = web.Serve(wrapped{l, func(c net.Conn) net.Conn { return httpframe.New(counted{c, &set}, nil) }})
		}()
		c, err := l.DialContext(t.Context(), "tcp", "")
		if err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(c)
		ask(t, c, in)
		synctest.Wait()
		before := set.Load()
		for range 100 {
			ask(t, c, in)
			synctest.Wait()
		}
		// One ends the wait for a client that leaves, the other is that for the next
		// request.
		if n := set.Load() - before; n > 200 {
			t.Errorf("%d deadlines were set for 100 requests", n)
		}
		_ = c.Close()
		_ = web.Close()
		<-done
	})
}

// BenchmarkServer is what a request costs whose server and handler set deadlines.
func BenchmarkServer(b *testing.B) {
	for name, wrap := range map[string]func(net.Conn) net.Conn{
		"bare":   func(c net.Conn) net.Conn { return c },
		"strict": func(c net.Conn) net.Conn { return httpframe.New(c, nil) },
	} {
		b.Run(name, func(b *testing.B) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			web := busy()
			done := make(chan struct{})
			go func() { // ends with Close
				defer close(done)
				_ = web.Serve(wrapped{l, wrap})
			}()
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			in := bufio.NewReader(c)
			b.ReportAllocs()
			for b.Loop() {
				ask(b, c, in)
			}
			_ = c.Close()
			_ = web.Close()
			<-done
		})
	}
}
