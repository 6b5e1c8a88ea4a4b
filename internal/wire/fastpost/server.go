// Package fastpost serves the HTTP/1.1 requests that most MCP clients send nearly all the
// time, without net/http: small POSTs that have arrived as a whole. Package httpserver puts it
// before net/http, which needs more processor time for such a request than all of Dragoman (a
// goroutine, a dozen deadlines, two buffers); a bridged call takes a third less with it.
//
//	connection ─▶ a small POST? ─┬─ yes ─▶ handler ─▶ response ─▶ the next request
//	                             └─ no ──▶ net/http, for the rest of the connection
//
// A connection whose next request is anything else is passed on, with that request: another
// method or version, a body that is long, chunked or slow, Expect, Upgrade, Connection: close,
// a header that net/http would refuse. So all that is rare or strange has one reader,
// net/http, and httpframe below has already refused requests of doubtful length.
// DRAGOMAN_FASTPATH=off passes on everything.
//
// A handler must not be able to tell the difference; FuzzLikeNetHTTP compares both. Two are
// intended: a client that disconnects is noticed [LeaveAfter] after the request began, because
// watching takes a goroutine, and there are no informational responses. Handlers may change
// the header map of a request but not write into its values: a connection keeps its last head,
// and copies what was parsed if the next one differs only in Content-Length.
//
// Limits, beyond which net/http reads the request:
//
//	head; fields; whole request    8 KiB; 100; 64 KiB
//	the rest of a body             100 ms
//	a head that is kept            2 KiB per connection
//	bytes of requests over 4 KiB   a sixteenth of limits.memory, of one address half of that
package fastpost

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/util/limit"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
)

const (
	// MaxHead is the largest head that is not passed on, in bytes.
	MaxHead = 8 << 10

	// MaxFields is how many header fields a request may have that is not passed on. net/http
	// has a limit of its own since Go 1.27.
	MaxFields = 100

	// MaxRequest is the largest request that is not passed on, in bytes.
	MaxRequest = 64 << 10

	// BodyWait is how long the rest of a body may take to come. Then the connection is
	// passed on.
	BodyWait = 100 * time.Millisecond

	// LeaveAfter is how long a request is in flight before it is watched whether its
	// client leaves. That takes a goroutine, which most requests are too short for.
	LeaveAfter = 50 * time.Millisecond
)

// A Server answers requests. Its fields must not change once it serves.
type Server struct {
	Handler http.Handler

	// HTTP is the server to which connections are passed on. Handlers find it in the contexts
	// of requests under http.ServerContextKey, as they do in net/http.
	HTTP *http.Server

	// ConnContext, if not nil, returns the context of the requests of a connection.
	ConnContext func(context.Context, net.Conn) context.Context

	// Header is how long the head of a request may take from its first byte on, Idle how
	// long a connection may be unused.
	Header, Idle time.Duration

	// Room, if not nil, bounds what connections hold of requests over 4 KiB, of all
	// clients and of each address. For which there is no room, net/http reads.
	Room *limit.Bytes

	Log *slog.Logger

	stopping atomic.Bool
	leaving  *httpframe.Timeouts // of requests that are not watched yet

	mu    sync.Mutex
	conns map[*conn]struct{} // guarded by mu
	empty chan struct{}      // closed when there are none and stopping is set; guarded by mu
}

// ServeConn answers the requests of a connection until it ends, which it then has, or the
// next is for others: then it reports true, and the connection is as if that had not been
// read.
func (s *Server) ServeConn(rwc httpframe.Conn) (passOn bool) {
	c := newConn(s, rwc)
	if !s.add(c) {
		_ = rwc.Close() // nobody has used it
		return false
	}
	defer s.remove(c)
	defer c.give()
	end := ended // a handler may end its goroutine
	defer func() {
		if end == ended {
			_ = rwc.Close() // or closed by the client
		}
	}()
	if end = c.serve(); end != others {
		return false
	}
	_ = rwc.SetDeadline(time.Time{}) // who is gone is noticed by the next Read
	rwc.Unread(c.in)
	return true
}

// add notes a connection. It reports false if no more are served.
func (s *Server) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping.Load() {
		return false
	}
	if s.conns == nil {
		s.conns, s.leaving = make(map[*conn]struct{}), httpframe.NewTimeouts(LeaveAfter)
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *Server) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if len(s.conns) == 0 && s.empty != nil {
		close(s.empty)
		s.empty = nil
	}
}

// Shutdown ends connections that are not used, and the others after the request under
// way. It returns when there are none, or the error of ctx when that ends before.
func (s *Server) Shutdown(ctx context.Context) error {
	empty := s.stop(func(c *conn) bool { return c.state.CompareAndSwap(waiting, stopped) })
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends all connections.
func (s *Server) Close() error {
	s.stop(func(*conn) bool { return true })
	return nil
}

// CloseIdle closes up to n connections that have waited for a request since before a time, and
// returns how many.
func (s *Server) CloseIdle(n int, before time.Time) int {
	conns := s.takeIdle(n, before.UnixNano())
	for _, c := range conns {
		_ = c.rwc.Close() // serve notices
	}
	return len(conns)
}

// takeIdle returns up to n connections that wait for a request, which they do not accept any more.
func (s *Server) takeIdle(n int, before int64) []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	var conns []*conn
	for c := range s.conns {
		if len(conns) == n {
			break
		}
		if c.since.Load() < before && c.state.CompareAndSwap(waiting, stopped) {
			conns = append(conns, c)
		}
	}
	return conns
}

// stop takes no more connections, ends some of those that there are, and returns what is
// closed when there are none.
func (s *Server) stop(which func(*conn) bool) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping.Store(true)
	for c := range s.conns {
		if which(c) {
			_ = c.rwc.Close() // serve notices
		}
	}
	if s.empty == nil {
		s.empty = make(chan struct{})
		if len(s.conns) == 0 {
			close(s.empty)
		}
	}
	return s.empty
}
