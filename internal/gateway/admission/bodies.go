package admission

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/upstream"
	"github.com/dragoman-mcp/dragoman/internal/util/limit"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	// freeBody is up to which size messages are not counted: nearly all are smaller.
	freeBody = 4 << 10

	// bodyStep is by how much the room of a body of unknown length grows.
	bodyStep = 64 << 10
)

// Transports whose requests are counted by their bodies, as they are called in a Caller.
const (
	HTTP = "http"
	Call = "call"
)

// rooms are the parts of limits.memory that messages of clients may take while they are
// read and in flight. The rest is for copies of them, and for everything else. All are nil if there is
// no limit.
type rooms struct {
	bodies   *limit.Bytes // of requests over HTTP
	small    *limit.Bytes // of those, what has at most largeBody: answers and cancels still come in when bodies is full
	messages *limit.Bytes // requests on sockets and streams
	conns    *limit.Bytes // what direct has read before a handler is called
}

func newRooms(memory uint64) rooms {
	part := func(of uint64) *limit.Bytes { return limit.NewBytes(int64(memory / of)) } // #nosec G115 -- at most a sixteenth and so on
	return rooms{bodies: part(4), small: part(8), messages: part(4), conns: part(16)}
}

// Conns returns the room of what connections of HTTP/1.1 read before a handler is called,
// nil if there is no limit.
func (e *Admission) Conns() *limit.Bytes { return e.rooms.conns }

// noRoom returns why there is no room for a message, for the error of a Bytes.
func noRoom(room *limit.Bytes, err error) *dragoman.Error {
	switch {
	case errors.Is(err, limit.ErrShare):
		return upstream.TooMany(protocol.LimitCaller, fmt.Sprintf("too many bytes of requests in flight: one caller may have %d (limits.memory)", room.Share()))
	case errors.Is(err, limit.ErrLarge):
		return upstream.TooMany(protocol.LimitCaller, fmt.Sprintf("the request is too large for limits.memory, which leaves %d bytes for one caller; raise it", room.Share()))
	}
	return shortOfMemory()
}

// A countedBody is the body of a request, for which there is room before it is read.
type countedBody struct {
	io.ReadCloser
	key  string // of the caller
	room *limit.Bytes
	size int64 // -1 if it is unknown

	mu    sync.Mutex
	taken int64 // of the room; guarded by mu
	read  int64 // guarded by mu
	over  bool  // guarded by mu
}

// Admit returns a request whose body is counted when it is read, until release, which is nil if it need
// not be. So are messages on a socket that it opens. The request of net/http stays as it is: what becomes of the rest of a body depends on its type.
func (e *Admission) Admit(r *http.Request) (counted *http.Request, release func()) {
	if e.rooms.messages != nil && len(r.Header["Upgrade"]) > 0 {
		return r.WithContext(limit.WithRoom(r.Context(), e.rooms.messages, keyOf(r))), nil
	}
	if e.rooms.bodies == nil || r.Method != http.MethodPost || r.ContentLength >= 0 && r.ContentLength <= freeBody {
		return r, nil
	}
	b := &countedBody{ReadCloser: r.Body, key: keyOf(r), room: e.rooms.bodies, size: r.ContentLength}
	if b.size > 0 && b.size <= largeBody {
		b.room = e.rooms.small
	}
	with := *r
	with.Body = b
	return &with, b.release
}

// keyOf returns what the caller of a request counts as.
func keyOf(r *http.Request) string {
	c := dragoman.CallerOf(r.Context())
	if c.Header == nil {
		c, _ = httpserver.ByAddress(r) // never fails
	}
	return limitKey(c)
}

// Len returns how much of the body has come without being read, as far as that is known.
func (b *countedBody) Len() int {
	if come, ok := b.ReadCloser.(interface{ Len() int }); ok {
		return come.Len()
	}
	return 0
}

// Read implements io.Reader. The error is a refusal if there is no room.
func (b *countedBody) Read(p []byte) (int, error) {
	p, err := b.reserve(p)
	if err != nil {
		return 0, err
	}
	n, err := b.ReadCloser.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.read += int64(n)
	return n, err
}

// reserve takes room for what is read next, and returns as much of p as there is room for.
func (b *countedBody) reserve(p []byte) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	want := int64(0)
	switch {
	case b.over:
		return nil, context.Canceled
	case b.size >= 0 && b.taken == 0:
		want = b.size
	case b.size < 0 && b.read >= freeBody+b.taken:
		want = bodyStep
	}
	if want > 0 {
		if err := b.room.Take(b.key, want); err != nil {
			if errors.Is(err, limit.ErrLarge) {
				return nil, httpserver.Refuse(http.StatusRequestEntityTooLarge, "%s", noRoom(b.room, err).Message)
			}
			return nil, httpserver.Unavailable(noRoom(b.room, err))
		}
		b.taken += want
	}
	if b.size < 0 {
		p = p[:min(int64(len(p)), freeBody+b.taken-b.read)]
	}
	return p, nil
}

// release gives the room back. The body is not read any more.
func (b *countedBody) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.room.Release(b.key, b.taken)
	b.taken, b.over = 0, true
}

// carried returns how many bytes of a request are counted while it is in flight: those of large ones on
// sockets and streams. Requests over HTTP are counted by their bodies.
func (m *rooms) carried(transport string, req *dragoman.Message) int64 {
	n := int64(req.Len())
	if n <= freeBody || m.messages == nil || transport == HTTP || transport == Call {
		return 0
	}
	return n
}
