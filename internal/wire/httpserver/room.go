package httpserver

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/wire/fastpost"
)

// DefaultMaxConns is how many connections a Server has open at once.
const DefaultMaxConns = 32768

const (
	// spareIdle is how long a connection may wait for a request even if others need its room.
	spareIdle = time.Second

	clearPause   = 100 * time.Millisecond // from one search for idle connections to the next
	refusalPause = time.Minute            // from one logged refusal to the next
)

// A room bounds the open connections of a Server, whoever answers on them. When nearly as
// many are open as may be, some that wait for a request are closed, so that new clients find
// room; at the bound new connections are closed.
type room struct {
	max, spare int              // connections; how many of them are kept free
	direct     *fastpost.Server // it knows which of its own are idle
	log        *slog.Logger

	open    atomic.Int64
	cleared pause
	refused pause

	mu   sync.Mutex
	idle map[net.Conn]time.Time // those of net/http without a request, and since when; guarded by mu
}

func newRoom(size int, direct *fastpost.Server, log *slog.Logger) *room {
	return &room{max: size, spare: max(1, size/16), direct: direct, log: log, idle: make(map[net.Conn]time.Time)}
}

// A pause is when something was last done, in Unix nanoseconds.
type pause struct{ atomic.Int64 }

// over reports whether that was at least d ago. Then it starts over.
func (p *pause) over(d time.Duration) bool {
	now, before := time.Now().UnixNano(), p.Load()
	return now-before >= int64(d) && p.CompareAndSwap(before, now)
}

// admit counts a connection until it is closed. It closes the connection and returns nil if
// there is no room for it.
func (r *room) admit(c net.Conn) net.Conn {
	if r.open.Add(1) <= int64(r.max) {
		return &counted{Conn: c, room: r}
	}
	r.open.Add(-1)
	_ = c.Close() // no request has been read from it
	if r.refused.over(refusalPause) {
		r.log.Warn("connection refused: too many are open and none of them is idle", "open", r.max, "client", c.RemoteAddr().String())
	}
	return nil
}

// isDueToClear reports whether idle connections are to be closed, because the room is nearly full.
func (r *room) isDueToClear() bool {
	return r.open.Load() > int64(r.max-r.spare) && r.cleared.over(clearPause)
}

// clear closes idle connections.
func (r *room) clear() {
	before := time.Now().Add(-spareIdle)
	n := r.direct.CloseIdle(r.spare, before)
	for _, c := range r.take(r.spare-n, before) {
		_ = c.Close() // or closed by its client
	}
}

// take returns up to n connections of net/http that are idle since before a time, and forgets them.
func (r *room) take(n int, before time.Time) []net.Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	var conns []net.Conn
	for c, since := range r.idle {
		if len(conns) == n {
			break
		}
		if since.Before(before) {
			delete(r.idle, c)
			conns = append(conns, c)
		}
	}
	return conns
}

// note is http.Server.ConnState.
func (r *room) note(c net.Conn, state http.ConnState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if state == http.StateNew || state == http.StateIdle {
		r.idle[c] = time.Now()
	} else {
		delete(r.idle, c)
	}
}

// A counted is a connection that has its place in a room until it is closed.
type counted struct {
	net.Conn
	room *room
	left atomic.Bool
}

// Close implements net.Conn.
func (c *counted) Close() error {
	if !c.left.Swap(true) {
		c.room.open.Add(-1)
	}
	return c.Conn.Close()
}

// CloseWrite ends our side of the connection, if it has sides.
func (c *counted) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// NetConn returns the connection below.
func (c *counted) NetConn() net.Conn { return c.Conn }
