package httpframe

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A deadline is that of reads or writes. net/http and its handlers set several for each
// request, nearly all of which are replaced before anybody waits for them, and setting
// one on a network connection costs a timer. So it is only noted until somebody waits.
// The connection's own may be an earlier one from then on: when that passes, the wait
// continues. Over TLS that cannot be for writes: one that was cut leaves the connection
// useless, so the connection's own is the wanted one whenever somebody writes.
//
// Times are those since the connection was opened; see [conn.since].
type deadline struct {
	wanted  atomic.Int64
	waiting atomic.Int32 // reads or writes in progress

	mu  sync.Mutex   // held while the connection's own is set
	own atomic.Int64 // the connection's own
}

const (
	never = 0  // there is no deadline
	past  = -1 // it has passed on any clock
)

// since returns a time as one since the connection was opened.
func (c *conn) since(t time.Time) int64 {
	if t.IsZero() {
		return never
	}
	if d := t.Sub(c.opened); d > 0 {
		return int64(d)
	}
	return past
}

// holds reports whether the connection's own deadline lets nobody wait for too long, or
// keep from waiting at all.
func (c *conn) holds(d *deadline) bool {
	wanted, own := d.wanted.Load(), d.own.Load()
	switch {
	case wanted == past || own == past || c.exact && d == &c.writes:
		return wanted == own
	case wanted == never:
		return true
	}
	return own != never && own <= wanted
}

// set wants another deadline.
func (c *conn) set(d *deadline, at int64) error {
	d.wanted.Store(at)
	if at != past && (d.waiting.Load() == 0 || c.holds(d)) {
		return nil
	}
	return c.impose(d)
}

// impose makes the deadline the connection's own.
func (c *conn) impose(d *deadline) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, t := d.wanted.Load(), time.Time{}
	switch at {
	case d.own.Load():
		return nil
	case never:
	case past:
		t = time.Unix(1, 0)
	default:
		t = c.opened.Add(time.Duration(at))
	}
	d.own.Store(at)
	if d == &c.reads {
		return c.Conn.SetReadDeadline(t)
	}
	return c.Conn.SetWriteDeadline(t)
}

// early reports whether an operation failed because of a deadline that is not wanted any
// more, and then makes it the one that is.
func (c *conn) early(d *deadline, err error) bool {
	timeout, ok := err.(net.Error) //nolint:errorlint // as net.Conn returns it
	return ok && timeout.Timeout() && d.wanted.Load() != d.own.Load() && c.impose(d) == nil
}

// read reads from the connection.
func (c *conn) read(p []byte) (n int, err error) {
	d := &c.reads
	d.waiting.Add(1)
	if !c.holds(d) {
		err = c.impose(d)
	}
	for err == nil {
		if n, err = c.Conn.Read(p); n == 0 && err != nil && c.early(d, err) {
			err = nil
			continue
		}
		break
	}
	d.waiting.Add(-1)
	return n, err
}

// write writes to the connection.
func (c *conn) write(p []byte) (n int, err error) {
	d := &c.writes
	d.waiting.Add(1)
	if !c.holds(d) {
		err = c.impose(d)
	}
	for err == nil {
		var m int
		m, err = c.Conn.Write(p[n:])
		n += m
		if err == nil || !c.early(d, err) {
			break
		}
		err = nil
	}
	d.waiting.Add(-1)
	return n, err
}
