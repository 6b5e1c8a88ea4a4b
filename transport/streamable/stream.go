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
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
	"github.com/dragoman-mcp/dragoman/internal/wire/sse"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	// maxPending is how many bytes may wait for a connection to be written, not
	// counting a single message that is larger.
	maxPending = 4 << 20

	// maxWrite is how many bytes of events are written at once, not counting a
	// single event that is larger.
	maxWrite = 64 << 10
)

// An eventStream is one event stream to a client: for the messages of one of its
// requests, or for those that belong to none. It has at most one connection at a time.
// In a legacy session the stream is logged, with ids: a connection begins with what
// the log has behind the last event that the client has seen, and continues with new
// events. A stream that is not logged has one connection, and ends with it.
//
// Notifications do not wait for the client to read: when too much waits to be written,
// they are dropped, but of progress the newest is kept if the stream is not logged.
// Questions wait for room, and answers need none.
type eventStream struct {
	server *Server
	name   string // of the stream in its session
	key    string // of the stream in the log; "" if it is not logged
	ids    bool   // events have ids
	primes bool   // the first event is a cursor alone

	// appending is held while an event is added and the log writes it. It is taken
	// before mu, which is not held while the log writes.
	appending  sync.Mutex
	after      int64 // position behind which the next event is logged, or eventlog.End
	primed     bool
	unanswered map[dragoman.ID]dragoman.ID // requests that may have no answer, as their Server is gone; see answerOrphans

	mu     sync.Mutex
	conn   *streamConn   // the connection that is served, or nil
	ended  bool          // no more events will be added
	dead   bool          // it has lost its only connection
	last   int64         // position of the last event that was logged here
	sent   int64         // position up to which events have been written to a connection
	unread int           // bytes that have not been written
	space  chan struct{} // closed when unread is less; nil while nobody waits

	unlogged bool  // the last event could not be logged
	gap      int64 // events behind an earlier position than this are not all logged
}

// A streamConn is the connection of a stream.
type streamConn struct {
	pending []event     // what was added since the connection is there; guarded by the stream's mu
	out     *sse.Writer // nil until the answer has begun; guarded by the stream's mu

	wake    chan struct{}      // holds a token when there is something new
	hangup  chan time.Duration // makes the connection end, though the stream does not
	evicted chan struct{}      // closed when another takes its place
	left    chan struct{}      // closed by leave
}

// event is a message and its position in the log, or zero if it is not logged.
type event struct {
	at       int64
	data     []byte
	progress string // the token, if it is progress
}

// setRevision sets what depends on the client's revision, before there is a
// connection.
func (es *eventStream) setRevision(rev protocol.Revision) {
	es.appending.Lock()
	defer es.appending.Unlock()
	es.ids, es.primes = rev.ResumesStreams(), rev.PrimesStreams()
}

// tell sends a notification, if there is room.
func (es *eventStream) tell(note *dragoman.Message) error {
	m := event{data: note.Bytes()}
	if note.Method() == protocol.NoteProgress {
		m.progress = string(note.Get("progressToken"))
	}
	es.appending.Lock()
	defer es.appending.Unlock()
	room, err := es.room(len(m.data))
	switch {
	case err != nil:
		return err
	case room == nil:
		es.add(m)
	case m.progress != "" && es.key == "":
		es.replaceProgress(m)
	}
	return nil
}

// ask sends a question, and waits for room.
func (es *eventStream) ask(ctx context.Context, req *dragoman.Message) error {
	for {
		es.appending.Lock()
		room, err := es.room(req.Len())
		if err == nil && room == nil {
			es.add(event{data: req.Bytes()})
		}
		es.appending.Unlock()
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
func (es *eventStream) end(last []*dragoman.Message) {
	es.appending.Lock()
	defer es.appending.Unlock()
	for _, m := range last {
		es.add(event{data: m.Bytes()})
	}
	es.mu.Lock()
	defer es.mu.Unlock()
	es.ended = true
	es.wake()
}

// prime adds the event that names the beginning of the stream, once, if the client's
// revision has that.
func (es *eventStream) prime() {
	es.appending.Lock()
	defer es.appending.Unlock()
	es.primeLocked()
}

// primeLocked is prime for who holds appending.
func (es *eventStream) primeLocked() {
	if es.primes && !es.primed {
		es.primed = true
		es.add(event{})
	}
}

// room returns a channel that is closed when there is room for so many bytes, or nil
// if there is. It fails if nobody can be told any more.
func (es *eventStream) room(n int) (<-chan struct{}, error) {
	es.mu.Lock()
	defer es.mu.Unlock()
	if es.dead || es.ended {
		return nil, dragoman.ErrClosed
	}
	if es.unread == 0 || es.unread+n <= maxPending {
		return nil, nil
	}
	if es.space == nil {
		es.space = make(chan struct{})
	}
	return es.space, nil
}

// unblock wakes those who wait for room. mu is held.
func (es *eventStream) unblock() {
	if es.space != nil {
		close(es.space)
		es.space = nil
	}
}

// replaceProgress puts newer progress in the place of the last that waits.
func (es *eventStream) replaceProgress(m event) {
	es.mu.Lock()
	defer es.mu.Unlock()
	if es.conn == nil || len(es.conn.pending) == 0 {
		return
	}
	if last := &es.conn.pending[len(es.conn.pending)-1]; last.progress == m.progress {
		es.unread += len(m.data) - len(last.data)
		last.data = m.data
	}
}

// add logs a message, if the stream is logged, and gives it to the connection, if there
// is one. appending is held.
func (es *eventStream) add(m event) {
	if len(m.data) > 0 {
		es.primeLocked()
	}
	var err error
	if es.key != "" {
		m.at, err = es.server.opts.log.Append(context.Background(), es.key, es.after, m.data)
		if es.after != eventlog.End {
			es.after++ // also if that failed: then the event is lost
		}
	}
	es.mu.Lock()
	defer es.mu.Unlock()
	switch {
	case err != nil:
		// It goes out without an id. The stream cannot be resumed behind what
		// was before it.
		if !es.unlogged {
			es.server.opts.logger.Warn("a stream cannot be resumed: its events are not logged", "error", err)
		}
		es.unlogged, m.at = true, 0
	case es.key != "":
		if es.unlogged {
			es.unlogged, es.gap = false, m.at
		}
		if es.last == 0 && es.sent == 0 {
			es.sent = m.at - 1 // others may have been logged before, by another Server
		}
		es.last = m.at
	}
	if es.conn != nil {
		es.conn.pending = append(es.conn.pending, m)
		es.wake()
	} else if m.at == 0 {
		return // nobody will have it
	}
	es.unread += len(m.data)
}

// wake makes serve look for new events. mu is held.
func (es *eventStream) wake() {
	if es.conn != nil {
		select {
		case es.conn.wake <- struct{}{}:
		default:
		}
	}
}

// disconnect ends the connection but not the stream: the client is to come back for
// the rest.
func (es *eventStream) disconnect(retry time.Duration) {
	es.mu.Lock()
	defer es.mu.Unlock()
	if es.conn != nil {
		select {
		case es.conn.hangup <- retry:
		default:
		}
	}
}

// over reports whether the stream has ended and has no connection.
func (es *eventStream) over() bool {
	es.mu.Lock()
	defer es.mu.Unlock()
	return es.ended && es.conn == nil
}

// claim gives the stream a connection. One that resumes the stream takes the place of
// another: its client would not come back if the old one still worked.
func (es *eventStream) claim(resumes bool) (*streamConn, error) {
	es.mu.Lock()
	defer es.mu.Unlock()
	for es.conn != nil {
		if !resumes || !es.evict() {
			return nil, refuse(http.StatusConflict, protocol.CodeServer, "Conflict: this stream is open already; close it first")
		}
	}
	es.conn = &streamConn{
		wake: make(chan struct{}, 1), hangup: make(chan time.Duration, 1),
		evicted: make(chan struct{}), left: make(chan struct{}),
	}
	return es.conn, nil
}

// evict ends the connection of the stream, and reports whether it could. mu is held by
// the caller, and released while evict waits.
func (es *eventStream) evict() bool {
	c := es.conn
	if c.out == nil {
		return false
	}
	select {
	case <-c.evicted:
	default:
		close(c.evicted)
	}
	es.mu.Unlock()
	defer es.mu.Lock()
	c.out.Abort()
	<-c.left // immediately: a write that is in progress fails
	return true
}

// leave ends a connection. A stream that is not logged is dead then.
func (es *eventStream) leave(c *streamConn) {
	es.mu.Lock()
	defer es.mu.Unlock()
	es.conn = nil
	close(c.left)
	if es.key == "" {
		es.dead = true
		es.unblock()
	}
}

// connect serves the stream to a connection, until the stream ends or ctx does, or
// until draining is closed, if that is not nil: then the client is asked to come back,
// if its revision has that. It begins behind position or, if that is negative, with what
// has not been written to any connection.
func (es *eventStream) connect(ctx context.Context, x *httpserver.Exchange, position int64, draining <-chan struct{}) error {
	resumes := position >= 0
	if resumes {
		if _, err := es.replay(ctx, position); err != nil {
			return err // before another connection is evicted for nothing
		}
	} else {
		es.prime()
	}
	c, missed, position, err := es.attach(ctx, position)
	if err != nil {
		return err
	}
	defer es.leave(c)
	out, err := x.Events()
	if err == nil && !resumes && es.primes && position > 0 {
		err = out.Event(&sse.Event{ID: eventID(es.name, position)})
	}
	if err == nil {
		es.serve(c, out, missed, ctx.Done(), draining)
	}
	return nil // also if the client is gone
}

// attach claims the stream for a connection, and returns what that begins with and
// behind which position. Nobody adds an event meanwhile.
func (es *eventStream) attach(ctx context.Context, position int64) (c *streamConn, missed []event, from int64, err error) {
	es.appending.Lock()
	defer es.appending.Unlock()
	resumes := position >= 0
	if c, err = es.claim(resumes); err != nil {
		return nil, nil, 0, err
	}
	es.mu.Lock()
	last := es.last
	if from = es.sent; resumes {
		from = position
	}
	es.mu.Unlock()
	if resumes || last > from {
		missed, err = es.replay(ctx, from)
	}
	switch {
	case err != nil && resumes:
		es.leave(c)
		return nil, nil, 0, err
	case err != nil:
		from = last // what could not be kept for the client is lost to it
	}
	es.mu.Lock()
	defer es.mu.Unlock()
	es.sent, es.unread = from, 0
	for _, m := range missed {
		es.unread += len(m.data)
	}
	es.unblock()
	return c, missed, from, nil
}

// replay returns what is logged behind a position.
func (es *eventStream) replay(ctx context.Context, position int64) ([]event, error) {
	logged, err := es.server.opts.log.After(ctx, es.key, position)
	es.mu.Lock()
	if es.unlogged || position < es.gap {
		err = eventlog.ErrLost
	}
	es.mu.Unlock()
	if err != nil {
		return nil, cannotReplay(err)
	}
	events := make([]event, len(logged))
	for i, data := range logged {
		events[i] = event{at: position + int64(i) + 1, data: data}
	}
	return events, nil
}

// serve writes what was missed and then new events to a connection, and reports whether
// it has written the stream to its end.
func (es *eventStream) serve(c *streamConn, out *sse.Writer, missed []event, gone, draining <-chan struct{}) bool {
	es.mu.Lock()
	c.out = out
	es.mu.Unlock()
	beat := time.NewTicker(es.server.opts.keepAlive)
	defer beat.Stop()
	for es.write(out, missed) == nil {
		var ended bool
		if missed, ended = es.take(c); len(missed) > 0 {
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
			if retry := es.server.opts.retry; retry > 0 && es.primes {
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

// take returns the first events that wait for a connection, as many as are written at
// once, and whether the stream has ended.
func (es *eventStream) take(c *streamConn) (batch []event, ended bool) {
	es.mu.Lock()
	defer es.mu.Unlock()
	n := fitting(c.pending)
	batch = slices.Clone(c.pending[:n])
	clear(c.pending[:n])
	if c.pending = c.pending[n:]; len(c.pending) == 0 {
		c.pending = nil
	}
	return batch, es.ended
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
func (es *eventStream) write(out *sse.Writer, events []event) error {
	for len(events) > 0 {
		n := fitting(events)
		if err := out.Raw(es.encode(events[:n])); err != nil {
			return err
		}
		es.written(events[:n])
		events = events[n:]
	}
	return nil
}

// encode returns events as they go over the wire.
func (es *eventStream) encode(events []event) (text []byte) {
	for _, m := range events {
		e := &sse.Event{Name: "message", Data: m.data}
		if len(m.data) == 0 {
			e.Name = "" // a cursor alone
		}
		if es.ids && m.at > 0 {
			e.ID = eventID(es.name, m.at)
		}
		text = sse.Append(text, e)
	}
	return text
}

// written records that events have been written.
func (es *eventStream) written(events []event) {
	es.mu.Lock()
	defer es.mu.Unlock()
	for _, m := range events {
		es.unread -= len(m.data)
		es.sent = max(es.sent, m.at)
	}
	es.unblock()
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
