package ws

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/memnet"
)

// announce writes the header of a frame of so many bytes, and nothing behind it.
func (r *raw) announce(first byte, length uint64) {
	r.Helper()
	header := binary.BigEndian.AppendUint64([]byte{first, 127}, length)
	if r.masks {
		header[1] |= 0x80
		header = append(header, 1, 2, 3, 4)
	}
	r.write(header)
}

// Frames that are too large by what their headers say, with a limit of 1 MiB.
var tooLarge = []struct {
	name string
	send func(r *raw)
}{
	{"one frame", func(r *raw) { r.announce(text, 1<<40) }},
	{"one byte too many", func(r *raw) { r.announce(text, 1<<20+1) }},
	{"byte by byte", func(r *raw) {
		for _, b := range r.frame(text, make([]byte, 1<<20+1))[:10] {
			r.write([]byte{b})
		}
	}},
	{"behind a message", func(r *raw) {
		r.write(r.frame(text, []byte(`{"jsonrpc":"2.0","method":"notifications/x"}`)))
		r.announce(text, 1<<40)
	}},
	{"in one write with a message", func(r *raw) {
		r.write(append(r.frame(text, []byte(`{"jsonrpc":"2.0","method":"notifications/x"}`)), r.frame(text, make([]byte, 2<<20))[:10]...))
	}},
	{"sum of fragments", func(r *raw) {
		r.write(r.frame(opText, []byte(strings.Repeat(" ", 600<<10))))
		r.write(r.frame(ping, nil))
		r.announce(fin, 600<<10)
	}},
	{"fragment", func(r *raw) { r.write(r.frame(opText, []byte("{"))); r.announce(0, 1<<40) }},
	{"compressed", func(r *raw) { r.announce(text|rsv1, 2<<20) }},
	{"binary", func(r *raw) { r.announce(binmsg, 1<<40) }},
}

func TestS20_ServerRefusesAFrameByItsHeader(t *testing.T) {
	for _, row := range tooLarge {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				acceptor, conns := given(echoes)
				l := inMemory(t, &Server{Acceptor: acceptor, MaxMessage: 1 << 20, Compression: true}, &http.Server{})
				r := rawIn(t, l, mcp, offersDeflate)
				conn := <-conns
				begin := time.Now()
				go row.send(r) // ends when the server has read it
				r.wantClose(1009)
				<-conn.Done()
				if took := time.Since(begin); took != 0 || !errors.Is(conn.Err(), dragoman.ErrTooLarge) {
					t.Errorf("the conversation ended after %v with %v", took, conn.Err())
				}
			})
		})
	}
}

func TestClientRefusesAFrameByItsHeader(t *testing.T) {
	for _, row := range tooLarge {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := memnet.Listen()
				web := &http.Client{Transport: &http.Transport{DialContext: l.DialContext}}
				r, conn := rawServeOn(t, l, &Client{URL: "ws://localhost/", HTTP: web, MaxMessage: 1 << 20}, nil)
				_ = r.SetDeadline(time.Time{})
				begin := time.Now()
				go row.send(r) // ends when the client has read it
				r.wantClose(1009)
				<-conn.Done()
				if took := time.Since(begin); took != 0 || !errors.Is(conn.Err(), dragoman.ErrTooLarge) {
					t.Errorf("the conversation ended after %v with %v", took, conn.Err())
				}
			})
		})
	}
}

func TestFrameThatComesWithTheHandshakeIsRefusedByItsHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		acceptor, _ := given(echoes)
		l := inMemory(t, &Server{Acceptor: acceptor, MaxMessage: 1000}, &http.Server{})
		conn, err := l.DialContext(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		r := &raw{TB: t, masks: true}
		early := &together{Conn: conn, more: r.frame(text, make([]byte, 1001))[:8]}
		r = rawOver(t, early, mcp)
		r.wantClose(1009)
	})
}

// A together connection adds to what is written first.
type together struct {
	net.Conn
	more []byte
}

func (c *together) Write(p []byte) (int, error) {
	_, err := c.Conn.Write(append(bytes.Clone(p), c.more...))
	c.more = nil
	return len(p), err
}

func TestFrameHeadersAreReadWhereverTheyAreSplit(t *testing.T) {
	r := raw{masks: true}
	var all []byte
	for _, n := range []int{0, 1, 125, 126, 127, 1000, 65535, 65536, 100_000} {
		all = append(all, r.frame(text, make([]byte, n))...)
		all = append(all, r.frame(opText, make([]byte, n/2))...)
		all = append(all, r.frame(ping, make([]byte, 100))...)
		all = append(all, r.frame(fin, make([]byte, n-n/2))...)
		all = append(all, (&raw{}).frame(text, make([]byte, n))...)
	}
	end := r.frame(text, make([]byte, 100_001))
	for _, size := range []int{1, 2, 3, 7, 1000, 4096, len(all)} {
		f := frames{limit: 100_000}
		for rest := all; len(rest) > 0; {
			n := min(size, len(rest))
			if passed := f.check(rest[:n]); passed != n {
				t.Fatalf("in pieces of %d: refused %d bytes before the end", size, len(rest)-passed)
			}
			rest = rest[n:]
		}
		if passed := f.check(end); passed != 0 {
			t.Errorf("in pieces of %d: %d bytes pass of a frame that is too large", size, passed)
		}
	}
}
