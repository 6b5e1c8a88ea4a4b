package streamable

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/eventlog"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/internal/sse"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	sseContentType = sse.ContentType
	sseKeepAlive   = sse.KeepAlive

	// maxPending is how many bytes may wait for a connection to be written, not
	// counting a single message that is larger.
	maxPending = 4 << 20

	// maxWrite is how many bytes of events are written at once, not counting a
	// single event that is larger.
	maxWrite = 64 << 10
)

// An eventStream is one event stream to a client: what belongs to one of its
// requests, or what belongs to none. At most one connection of the client is
// served at a time. In a legacy session the stream is logged, under ids: a
// connection begins with what the log has behind the last event that the client
// has seen, and goes on with what is said from then on. A stream that is not
// logged has one connection, and ends with it.
//
// Nobody who speaks waits for the client to read: when too much waits to be
// written, notifications are dropped, but of progress the newest is kept if the stream
// is not logged; questions wait for room, and answers need none.
type eventStream struct {
	server *Server
	name   string // of the stream in its session
	key    string // of the stream in the log; "" if it is not logged
	ids    bool   // events have ids
	primes bool   // the first event is a cursor alone

	// appending is held by who adds an event, also while the log writes it, and
	// taken before mu, which is never held meanwhile.
	appending  sync.Mutex
	primed     bool
	unanswered map[dragoman.ID]dragoman.ID // requests that its Server left without an answer, perhaps

	mu     sync.Mutex
	conn   *streamConn   // the connection that is served, or nil
	ended  bool          // nothing more will be said
	dead   bool          // nobody can read it any more
	last   int64         // position of what was logged last, here
	sent   int64         // position up to which it has been written to a connection
	unread int           // bytes that have not
	space  chan struct{} // closed when they are fewer; nil while nobody waits

	unlogged bool  // the last event could not be logged
	gap      int64 // what is behind an earlier position is not all logged
}

// A streamConn is the connection of a stream.
type streamConn struct {
	pending []event     // what was said since the connection is there; guarded by the stream's mu
	out     *sse.Writer // nil until the answer has begun; guarded by the stream's mu

	wake    chan struct{}      // holds a token when there is something new
	hangup  chan time.Duration // makes the connection end, though the stream does not
	evicted chan struct{}      // closed when another takes its place
	left    chan struct{}      // closed when it has ended
}

// event is a message and its position in the log, or zero if it is not logged.
type event struct {
	at       int64
	data     []byte
	progress string // the token, if it is progress
}

// setRevision sets what depends on the client's revision, before there is a
// connection.
func (f *eventStream) setRevision(rev protocol.Revision) {
	f.appending.Lock()
	defer f.appending.Unlock()
	f.ids, f.primes = rev.ResumesStreams(), rev.PrimesStreams()
}

// tell sends a notification, if there is room.
func (f *eventStream) tell(note *dragoman.Message) error {
	m := event{data: note.Bytes()}
	if note.Method() == protocol.NoteProgress {
		m.progress = string(note.Get("progressToken"))
	}
	f.appending.Lock()
	defer f.appending.Unlock()
	room, err := f.room(len(m.data))
	switch {
	case err != nil:
		return err
	case room == nil:
		f.add(m)
	case m.progress != "" && f.key == "":
		f.replaceProgress(m)
	}
	return nil
}

// ask sends a question, and waits for room.
func (f *eventStream) ask(ctx context.Context, req *dragoman.Message) error {
	for {
		f.appending.Lock()
		room, err := f.room(req.Len())
		if err == nil && room == nil {
			f.add(event{data: req.Bytes()})
		}
		f.appending.Unlock()
		if err != nil || room == nil {
			return err
		}
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// end sends the last messages and ends the stream.
func (f *eventStream) end(last []*dragoman.Message) {
	f.appending.Lock()
	defer f.appending.Unlock()
	for _, m := range last {
		f.add(event{data: m.Bytes()})
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	f.wake()
}

// prime says where the stream begins, if the client's revision has that and it has
// not been said.
func (f *eventStream) prime() {
	f.appending.Lock()
	defer f.appending.Unlock()
	f.primeLocked()
}

// primeLocked is prime for who holds appending.
func (f *eventStream) primeLocked() {
	if f.primes && !f.primed {
		f.primed = true
		f.add(event{})
	}
}

// room returns a channel that is closed when there is room for so many bytes, or nil
// if there is. It fails if nobody can be told any more.
func (f *eventStream) room(n int) (<-chan struct{}, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead || f.ended {
		return nil, dragoman.ErrClosed
	}
	if f.unread == 0 || f.unread+n <= maxPending {
		return nil, nil
	}
	if f.space == nil {
		f.space = make(chan struct{})
	}
	return f.space, nil
}

// unblock lets those go on who wait for room. mu is held.
func (f *eventStream) unblock() {
	if f.space != nil {
		close(f.space)
		f.space = nil
	}
}

// replaceProgress puts newer progress in the place of the last that waits.
func (f *eventStream) replaceProgress(m event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.conn == nil || len(f.conn.pending) == 0 {
		return
	}
	if last := &f.conn.pending[len(f.conn.pending)-1]; last.progress == m.progress {
		f.unread += len(m.data) - len(last.data)
		last.data = m.data
	}
}

// add logs a message, if the stream is, and gives it to the connection, if there is
// one. appending is held.
func (f *eventStream) add(m event) {
	if len(m.data) > 0 {
		f.primeLocked()
	}
	var err error
	if f.key != "" {
		m.at, err = f.server.opts.log.Append(context.Background(), f.key, m.data)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err != nil:
		// It goes out without an id. The stream cannot be resumed behind what
		// was before it.
		if !f.unlogged {
			f.server.opts.logger.Warn("a stream cannot be resumed: its events are not logged", "error", err)
		}
		f.unlogged, m.at = true, 0
	case f.key != "":
		if f.unlogged {
			f.unlogged, f.gap = false, m.at
		}
		if f.last == 0 && f.sent == 0 {
			f.sent = m.at - 1 // others may have been logged before, by another Server
		}
		f.last = m.at
	}
	if f.conn != nil {
		f.conn.pending = append(f.conn.pending, m)
		f.wake()
	} else if m.at == 0 {
		return // nobody will have it
	}
	f.unread += len(m.data)
}

// wake has the connection look what is new. mu is held.
func (f *eventStream) wake() {
	if f.conn != nil {
		select {
		case f.conn.wake <- struct{}{}:
		default:
		}
	}
}

// disconnect ends the connection but not the stream: the client is to come back for
// the rest.
func (f *eventStream) disconnect(retry time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.conn != nil {
		select {
		case f.conn.hangup <- retry:
		default:
		}
	}
}

// over reports whether nothing more will be said and nobody is being told.
func (f *eventStream) over() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended && f.conn == nil
}

// claim makes a connection the one that is served. One that resumes the stream takes
// the place of another: its client would not come if the old one still worked.
func (f *eventStream) claim(resumes bool) (*streamConn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.conn != nil {
		if !resumes || !f.evict() {
			return nil, refuse(http.StatusConflict, protocol.CodeServer, "Conflict: this stream is open already; close it first")
		}
	}
	f.conn = &streamConn{
		wake: make(chan struct{}, 1), hangup: make(chan time.Duration, 1),
		evicted: make(chan struct{}), left: make(chan struct{}),
	}
	return f.conn, nil
}

// evict ends the connection that is served, and reports whether it could. mu is held,
// but not meanwhile.
func (f *eventStream) evict() bool {
	c := f.conn
	if c.out == nil {
		return false
	}
	select {
	case <-c.evicted:
	default:
		close(c.evicted)
	}
	f.mu.Unlock()
	defer f.mu.Lock()
	c.out.Abort()
	<-c.left // at once: a write that is under way fails
	return true
}

// leave gives the connection up. A stream that is not logged dies with it.
func (f *eventStream) leave(c *streamConn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conn = nil
	close(c.left)
	if f.key == "" {
		f.dead = true
		f.unblock()
	}
}

// connect serves the stream to a connection, until the stream ends or ctx does, or
// until draining is closed, if that is not nil: then the client is asked to come back,
// if its revision has that.
// It begins behind position or, if that is negative, with what has not been written
// to any connection.
func (f *eventStream) connect(ctx context.Context, x *httpx.Exchange, position int64, draining <-chan struct{}) error {
	resumes := position >= 0
	if resumes {
		if _, err := f.replay(ctx, position); err != nil {
			return err // before another is sent away for nothing
		}
	} else {
		f.prime()
	}
	c, missed, position, err := f.attach(ctx, position)
	if err != nil {
		return err
	}
	defer f.leave(c)
	out, err := x.Events()
	if err == nil && !resumes && f.primes && position > 0 {
		err = out.Event(&sse.Event{ID: eventID(f.name, position)})
	}
	if err == nil {
		f.serve(c, out, missed, ctx.Done(), draining)
	}
	return nil // or the client is gone already
}

// attach claims the stream for a connection, and returns what that begins with and
// behind which position. Nobody adds an event meanwhile.
func (f *eventStream) attach(ctx context.Context, position int64) (c *streamConn, missed []event, from int64, err error) {
	f.appending.Lock()
	defer f.appending.Unlock()
	resumes := position >= 0
	if c, err = f.claim(resumes); err != nil {
		return nil, nil, 0, err
	}
	f.mu.Lock()
	last := f.last
	if from = f.sent; resumes {
		from = position
	}
	f.mu.Unlock()
	if resumes || last > from {
		missed, err = f.replay(ctx, from)
	}
	switch {
	case err != nil && resumes:
		f.leave(c)
		return nil, nil, 0, err
	case err != nil:
		from = last // what could not be kept for the client is lost to it
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent, f.unread = from, 0
	for _, m := range missed {
		f.unread += len(m.data)
	}
	f.unblock()
	return c, missed, from, nil
}

// replay returns what is logged behind a position.
func (f *eventStream) replay(ctx context.Context, position int64) ([]event, error) {
	logged, err := f.server.opts.log.After(ctx, f.key, position)
	f.mu.Lock()
	if f.unlogged || position < f.gap {
		err = eventlog.ErrLost
	}
	f.mu.Unlock()
	if err != nil {
		return nil, cannotReplay(err)
	}
	events := make([]event, len(logged))
	for i, data := range logged {
		events[i] = event{at: position + int64(i) + 1, data: data}
	}
	return events, nil
}

// serve writes what was missed and then what is said to a connection, and reports
// whether it has been written to the end of the stream.
func (f *eventStream) serve(c *streamConn, out *sse.Writer, missed []event, gone, draining <-chan struct{}) bool {
	f.mu.Lock()
	c.out = out
	f.mu.Unlock()
	beat := time.NewTicker(f.server.opts.keepAlive)
	defer beat.Stop()
	for f.write(out, missed) == nil {
		var ended bool
		if missed, ended = f.take(c); len(missed) > 0 {
			continue
		}
		if ended {
			return true
		}
		select {
		case <-c.wake:
		case <-beat.C:
			if out.Comment("keep-alive") != nil {
				return false
			}
		case retry := <-c.hangup:
			if out.Event(&sse.Event{Retry: int(retry.Milliseconds())}) != nil || out.CloseConn() {
				return false
			}
		case <-draining:
			if retry := f.server.opts.retry; retry > 0 && f.primes {
				_ = out.Event(&sse.Event{Retry: int(retry.Milliseconds())}) // or the client is gone
			}
			return false
		case <-c.evicted:
			return false
		case <-gone:
			return false
		}
	}
	return false
}

// take returns what waits longest for a connection, and whether the stream is at its
// end.
func (f *eventStream) take(c *streamConn) (batch []event, ended bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := fitting(c.pending)
	batch = slices.Clone(c.pending[:n])
	clear(c.pending[:n])
	if c.pending = c.pending[n:]; len(c.pending) == 0 {
		c.pending = nil
	}
	return batch, f.ended
}

// fitting returns how many of the first events are written at once.
func fitting(events []event) (n int) {
	for size := 0; n < len(events); n++ {
		if size += len(events[n].data); n > 0 && size > maxWrite {
			break
		}
	}
	return n
}

// write writes events, several at once if they are short.
func (f *eventStream) write(out *sse.Writer, events []event) error {
	for len(events) > 0 {
		n := fitting(events)
		if err := out.Raw(f.encode(events[:n])); err != nil {
			return err
		}
		f.written(events[:n])
		events = events[n:]
	}
	return nil
}

// encode returns events as they go over the wire.
func (f *eventStream) encode(events []event) (text []byte) {
	for _, m := range events {
		e := &sse.Event{Name: "message", Data: m.data}
		if len(m.data) == 0 {
			e.Name = "" // a cursor alone
		}
		if f.ids && m.at > 0 {
			e.ID = eventID(f.name, m.at)
		}
		text = sse.Append(text, e)
	}
	return text
}

// written notes that events have been written.
func (f *eventStream) written(events []event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range events {
		f.unread -= len(m.data)
		f.sent = max(f.sent, m.at)
	}
	f.unblock()
}

func eventID(stream string, n int64) string { return stream + "_" + strconv.FormatInt(n, 10) }

// parseEventID takes an event id apart.
func parseEventID(id string) (stream string, n int64, err error) {
	stream, number, ok := strings.Cut(id, "_")
	if n, err = strconv.ParseInt(number, 10, 64); !ok || stream == "" || err != nil || n < 0 {
		return "", 0, errors.New("Last-Event-ID is none of this server's")
	}
	return stream, n, nil
}
