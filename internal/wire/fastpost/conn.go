package fastpost

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/util/limit"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
)

// firstRoom is how much of a request a connection has room for when it is new, and when
// it is not used.
const firstRoom = 4 << 10

// maxEmpty is how many empty lines may stand between two requests, as in net/http.
const maxEmpty = 2

// States of a connection. Shutdown ends those that wait.
const (
	waiting = iota // for the first byte of a request
	busy
	stopped
)

// Ends of serving a connection.
const (
	proceed  = iota // it has not ended
	ended           // it is closed, or to be closed
	others          // its next request is for others
	hijacked        // a handler has taken it
)

// A conn is a connection whose requests are answered, one at a time, on one goroutine.
type conn struct {
	server *Server
	rwc    httpframe.Conn
	ctx    context.Context // of its requests; it never ends
	remote string
	secure *tls.ConnectionState // nil without TLS
	state  atomic.Int32
	since  atomic.Int64 // when it began to wait for a request, in Unix nanoseconds

	in      []byte // what has been read and not been answered
	taken   int64  // of the room for large requests
	empty   int    // lines that may still come before the next request
	out     []byte // what is to be written
	pending []byte // of the body of an answer whose length is not known yet
	last    pattern
	target  string // of the last request, and what it means
	url     url.URL
}

func newConn(s *Server, rwc httpframe.Conn) *conn {
	c := &conn{server: s, rwc: rwc, in: make([]byte, 0, firstRoom)}
	c.ctx = context.WithValue(context.Background(), http.ServerContextKey, s.HTTP)
	if s.ConnContext != nil {
		c.ctx = s.ConnContext(c.ctx, rwc)
	}
	c.ctx = context.WithValue(c.ctx, http.LocalAddrContextKey, rwc.LocalAddr())
	if a := rwc.RemoteAddr(); a != nil {
		c.remote = a.String()
	}
	if secure, ok := rwc.(interface{ ConnectionState() tls.ConnectionState }); ok {
		state := secure.ConnectionState()
		c.secure = &state
	}
	return c
}

// serve answers requests, and returns why it does not continue.
func (c *conn) serve() int {
	now := time.Now()
	for {
		c.since.Store(now.UnixNano())
		q, end := c.next(now)
		if end == proceed {
			end = c.answer(&q)
		}
		if end != proceed {
			return end
		}
		c.release(q.size)
		c.state.Store(waiting)
		if c.server.stopping.Load() {
			return ended
		}
		now = time.Now()
	}
}

// release makes room for the next request behind one of that size.
func (c *conn) release(size int) {
	rest := c.in[size:]
	if cap(c.in) > firstRoom && len(rest) <= firstRoom {
		c.in = make([]byte, 0, firstRoom)
		c.give()
	}
	c.in, c.empty = append(c.in[:0], rest...), maxEmpty
	if cap(c.out) > 2*firstRoom {
		c.out = nil
	}
}

// next reads a request.
func (c *conn) next(now time.Time) (q request, end int) {
	_ = c.rwc.SetReadDeadline(now.Add(c.server.Idle)) // who is gone is noticed by the next Read
	for searched, limited := 0, false; ; {
		if len(c.in) > 0 {
			if c.state.Load() != busy && !c.state.CompareAndSwap(waiting, busy) {
				return q, ended
			}
			if c.skip(); !c.mayBePost() {
				return q, others
			}
			if i := bytes.Index(c.in[searched:], endOfHead); i >= 0 {
				return c.whole(searched + i + len(endOfHead))
			}
			if len(c.in) >= MaxHead || !c.goesWell(searched) {
				return q, others
			}
			searched = max(0, len(c.in)-len(endOfHead)+1)
			if !limited {
				limited = true
				_ = c.rwc.SetReadDeadline(time.Now().Add(c.server.Header)) // as above
			}
			c.reserve(len(c.in) + 1)
		}
		if err := c.read(); err != nil {
			if len(c.in) == 0 || isTimeout(err) {
				return q, ended
			}
			return q, others // net/http may have something to say
		}
	}
}

var endOfHead = []byte("\r\n\r\n")

// skip drops empty lines, of which some clients send one behind a body.
func (c *conn) skip() {
	for c.empty > 0 && bytes.HasPrefix(c.in, endOfHead[:2]) {
		c.in = append(c.in[:0], c.in[2:]...)
		c.empty--
	}
}

// mayBePost reports whether in begins with POST, or may do so when there is more of it.
func (c *conn) mayBePost() bool {
	const post = "POST "
	n := min(len(c.in), len(post))
	return string(c.in[:n]) == post[:n] || c.empty > 0 && string(c.in) == "\r"
}

// goesWell reports whether what has come of a head may be that of a request for us. Who
// sends a line that is not hears that at once. Up to known there was no new line.
func (c *conn) goesWell(known int) bool {
	if bytes.IndexByte(c.in[known:], '\n') < 0 {
		return true
	}
	_, ok := parse(string(c.in[:bytes.LastIndexByte(c.in, '\n')+1]))
	return ok
}

// whole returns the request whose head has that length, when its body has come.
func (c *conn) whole(head int) (q request, end int) {
	q, ok := c.last.match(c.in[:head])
	if !ok {
		text := string(c.in[:head])
		if q, ok = parse(text); !ok || q.host == "" {
			return q, others
		}
		c.last.set(text, &q)
	}
	if len(c.in) >= q.size {
		return q, proceed
	}
	if !c.take(int64(q.size)) {
		return q, others
	}
	c.reserve(q.size)
	_ = c.rwc.SetReadDeadline(time.Now().Add(BodyWait)) // who is gone is noticed by the next Read
	for len(c.in) < q.size {
		if err := c.read(); err != nil {
			return q, others // net/http waits for longer, or has something to say
		}
	}
	return q, proceed
}

// take takes room for a request of that size, unless it is small. It reports whether there was
// some.
func (c *conn) take(size int64) bool {
	if size <= firstRoom || size <= c.taken {
		return true
	}
	if c.server.Room.Take(c.address(), size-c.taken) != nil {
		return false
	}
	c.taken = size
	return true
}

// give gives the room back.
func (c *conn) give() {
	if c.taken > 0 {
		c.server.Room.Release(c.address(), c.taken)
		c.taken = 0
	}
}

// address returns what the client of a connection counts as.
func (c *conn) address() string {
	host, _, err := net.SplitHostPort(c.remote)
	if err != nil {
		return c.remote // a Unix socket
	}
	return limit.Address(host)
}

// reserve makes room for so many bytes, counted from the beginning of in.
func (c *conn) reserve(size int) {
	if size > cap(c.in) {
		c.in = append(make([]byte, 0, max(size, min(2*cap(c.in), MaxRequest))), c.in...)
	}
}

// read reads at least a byte into what room there is, which is some, or returns an error.
func (c *conn) read() error {
	n, err := c.rwc.Read(c.in[len(c.in):cap(c.in)])
	if c.in = c.in[:len(c.in)+n]; n > 0 {
		return nil // the next read fails as well
	}
	return err
}

func isTimeout(err error) bool {
	timeout, ok := err.(net.Error) //nolint:errorlint // as net.Conn returns it
	return ok && timeout.Timeout()
}
