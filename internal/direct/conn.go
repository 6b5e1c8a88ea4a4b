package direct

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/strict"
)

// firstRoom is how much of a request a connection has room for when it is new, and when
// it is not used.
const firstRoom = 4 << 10

// States of a connection. Shutdown ends those that wait.
const (
	waiting = iota // for the first byte of a request
	busy
	stopped
)

// Ends of serving a connection.
const (
	goOn     = iota // it has not ended
	ended           // it is closed, or to be closed
	others          // its next request is for others
	hijacked        // a handler has taken it
)

// A conn is a connection whose requests are answered, one at a time, on one goroutine.
type conn struct {
	server *Server
	rwc    strict.Conn
	ctx    context.Context // of its requests; it never ends
	remote string
	secure *tls.ConnectionState // nil without TLS
	used   bool                 // a request has been answered, and no empty line has come behind it
	state  atomic.Int32

	in      []byte // what has been read and not been answered
	out     []byte // what is to be written
	pending []byte // of the body of an answer whose length is not known yet
	target  string // of the last request, and what it means
	url     url.URL
}

func newConn(s *Server, rwc strict.Conn) *conn {
	c := &conn{server: s, rwc: rwc, in: make([]byte, 0, firstRoom)}
	c.ctx = context.WithValue(context.Background(), http.LocalAddrContextKey, rwc.LocalAddr())
	if s.ConnContext != nil {
		c.ctx = s.ConnContext(c.ctx, rwc)
	}
	if a := rwc.RemoteAddr(); a != nil {
		c.remote = a.String()
	}
	if secure, ok := rwc.(interface{ ConnectionState() tls.ConnectionState }); ok {
		state := secure.ConnectionState()
		c.secure = &state
	}
	return c
}

// serve answers requests, and returns why it does not go on.
func (c *conn) serve() int {
	now := time.Now()
	for {
		q, end := c.next(now)
		if end == goOn {
			end = c.answer(&q)
		}
		if end != goOn {
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
	}
	c.in, c.used = append(c.in[:0], rest...), true
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
			if searched = max(0, len(c.in)-len(endOfHead)+1); len(c.in) >= MaxHead {
				return q, others
			}
			if !limited {
				limited = true
				_ = c.rwc.SetReadDeadline(time.Now().Add(c.server.Header)) // as above
			}
			c.reserve(len(c.in) + 1)
		}
		if err := c.read(); err != nil {
			switch {
			case len(c.in) == 0:
				return q, ended
			case isTimeout(err):
				c.tooSlow()
				return q, ended
			}
			return q, others // net/http may have something to say
		}
	}
}

var endOfHead = []byte("\r\n\r\n")

// skip drops an empty line, of which some clients send one behind a body.
func (c *conn) skip() {
	if c.used && len(c.in) > 1 && string(c.in[:2]) == "\r\n" {
		c.in = append(c.in[:0], c.in[2:]...)
		c.used = false
	}
}

// mayBePost reports whether in begins with POST, or may do so when there is more of it.
func (c *conn) mayBePost() bool {
	const post = "POST "
	n := min(len(c.in), len(post))
	return string(c.in[:n]) == post[:n] || c.used && string(c.in) == "\r"
}

// tooSlow tells a client that the time for its head is over, as net/http does.
func (c *conn) tooSlow() {
	_ = c.rwc.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = io.WriteString(c.rwc, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request") // it may be gone
}

// whole returns the request whose head has that length, when its body has come.
func (c *conn) whole(head int) (q request, end int) {
	q, ok := parse(string(c.in[:head]))
	if !ok {
		return q, others
	}
	if len(c.in) >= q.size {
		return q, goOn
	}
	c.reserve(q.size)
	_ = c.rwc.SetReadDeadline(time.Now().Add(BodyWait)) // who is gone is noticed by the next Read
	for len(c.in) < q.size {
		if err := c.read(); err != nil {
			return q, others // net/http waits for longer, or has something to say
		}
	}
	return q, goOn
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
