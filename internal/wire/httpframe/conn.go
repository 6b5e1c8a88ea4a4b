package httpframe

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"time"
)

// Options say how long a connection may wait. The zero value leaves that to the server.
type Options struct {
	// Idle is how long a connection may be quiet before its first request, and
	// Header how long the head of that may take from its first byte on. net/http
	// counts the time for the first head from the start, but clients open connections
	// in advance, and lose a request that they send just when one is closed. Both are
	// set, or none is.
	Idle, Header time.Duration
}

// errAmbiguous is why a connection is not read any more. It is none of the errors of a
// network, at which net/http says nothing.
var errAmbiguous = errors.New("httpframe: the request can be read in more than one way")

// Protocols of a connection.
const (
	speaksHTTP = iota
	mayUpgrade // the last request asks for another protocol
	upgraded   // and has been granted it
)

// A conn is the connection of a client of an HTTP server.
type conn struct {
	net.Conn
	options  Options
	opened   time.Time
	protocol atomic.Int32
	begun    atomic.Bool // a byte has come
	exact    bool        // deadlines of writes are set as they are wanted, see deadline

	reads, writes deadline

	// Owned by who reads: net/http has one at a time.
	scanner scanner
	refused bool
	filler  int // bytes that are read in place of what is refused
	unread  []byte
}

// A Conn is a connection that can be given back what was read from it, for somebody else
// to read.
type Conn interface {
	net.Conn

	// Unread has the next Reads return b.
	Unread(b []byte)
}

// New returns a connection that an HTTP server can be given in place of c. It looks
// at what is read until the connection is upgraded or turns out to speak HTTP/2. If c has
// the state of a TLS connection, so has what is returned: net/http puts it into requests.
func New(c net.Conn, o *Options) Conn {
	if o == nil {
		o = &Options{}
	}
	in := &conn{Conn: c, options: *o, opened: time.Now(), filler: 4}
	if secure, ok := c.(stater); ok {
		in.exact = true
		return &secureConn{in, secure}
	}
	return in
}

// A stater is a TLS connection.
type stater interface{ ConnectionState() tls.ConnectionState }

// A secureConn is a conn over TLS.
type secureConn struct {
	*conn
	stater
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	if len(c.unread) > 0 {
		n := copy(p, c.unread)
		if c.unread = c.unread[n:]; len(c.unread) == 0 {
			c.unread = nil
		}
		return n, nil
	}
	if c.refused {
		return c.fill(p)
	}
	n, err := c.read(p)
	if n <= 0 {
		return n, err
	}
	if c.options.Idle > 0 && !c.begun.Load() && !c.begun.Swap(true) {
		_ = c.set(&c.reads, c.since(time.Now().Add(c.options.Header))) // who is gone is noticed by the next Read
	}
	if c.protocol.Load() == upgraded {
		return n, err
	}
	passed := c.scanner.scan(p[:n])
	if passed < n {
		c.refused = true
		if passed == 0 {
			return c.fill(p)
		}
		return passed, nil
	}
	if asks := c.scanner.upgrade; asks != (c.protocol.Load() == mayUpgrade) {
		c.setUpgrade(asks)
	}
	return n, err
}

// Unread implements Conn.
func (c *conn) Unread(b []byte) { c.unread = b }

// setUpgrade notes whether the last request asks for another protocol.
func (c *conn) setUpgrade(asks bool) {
	if asks {
		c.protocol.CompareAndSwap(speaksHTTP, mayUpgrade)
	} else {
		c.protocol.CompareAndSwap(mayUpgrade, speaksHTTP)
	}
}

// fill reads a few bytes that are no line, and then fails. Between two requests
// net/http closes without a word if there are less than four, and if it is still busy
// with one, an error would end that.
func (c *conn) fill(p []byte) (int, error) {
	if c.filler == 0 {
		return 0, errAmbiguous
	}
	n := min(len(p), c.filler)
	for i := range p[:n] {
		p[i] = '?'
	}
	c.filler -= n
	return n, nil
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	if c.protocol.Load() == mayUpgrade && bytes.HasPrefix(p, []byte("HTTP/1.1 101 ")) {
		c.protocol.Store(upgraded)
	}
	return c.write(p)
}

// NetConn returns the connection below.
func (c *conn) NetConn() net.Conn { return c.Conn }

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	if c.options.Idle > 0 && !c.begun.Load() {
		if now := time.Now(); t.After(now) {
			t = now.Add(c.options.Idle)
		}
	}
	return c.set(&c.reads, c.since(t))
}

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error { return c.set(&c.writes, c.since(t)) }

// CloseWrite ends our side of the connection, if it has sides.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
