package streamable

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/eventlog"
	"github.com/dragoman-mcp/dragoman/internal/sse"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	sseContentType  = sse.ContentType
	sseKeepAlive    = sse.KeepAlive
	sseWriteTimeout = sse.WriteTimeout

	// maxFed is how many bytes may wait for a client to read them, not counting
	// a single message that is larger.
	maxFed = 4 << 20
)

// A feed is one event stream to a client: what belongs to one of its requests,
// or what belongs to none. Its messages wait in a queue until whoever serves
// the connection has written them. In a legacy session they are logged as well,
// under ids, so that a client that loses the connection can have them again on
// another one.
//
// Nobody who speaks waits for the client to read: when there is no room,
// progress keeps the newest and other notifications are dropped; questions wait
// for room, and answers need none.
type feed struct {
	server *Server
	name   string // of the stream in its session
	key    string // of the stream in the log; "" if it is not logged
	ids    bool   // events have ids

	mu    sync.Mutex
	queue []fed
	bytes int           // of queue
	room  chan struct{} // closed when there is room again; nil while nobody waits
	open  bool          // a connection is served
	ended bool          // nothing more will be said
	dead  bool          // nobody can read it any more
	began bool          // it has been primed

	broken bool  // the last message could not be logged
	gap    int64 // what is behind an earlier position is not all logged

	orphaned map[dragoman.ID]dragoman.ID // requests that its Server left without an answer, perhaps

	cut  func()        // ends the connection that is served; nil before it is
	left chan struct{} // closed when that has ended

	// Both are nil as long as there was no connection.
	wake chan struct{}      // holds a token when there is something new
	hang chan time.Duration // makes the connection end, though the stream does not
}

// fed is a message and its position in the log.
type fed struct {
	at       int64
	data     []byte
	progress string // the token, if it is progress
}

func (s *Server) newFeed() *feed {
	return &feed{server: s}
}

// tell queues a notification, if there is room.
func (f *feed) tell(note *dragoman.Message) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead || f.ended {
		return dragoman.ErrClosed
	}
	m := fed{data: note.Bytes()}
	if note.Method() == protocol.NoteProgress {
		m.progress = string(note.Get("progressToken"))
	}
	if f.bytes == 0 || f.bytes+len(m.data) <= maxFed {
		return f.add(m)
	}
	if last := &f.queue[len(f.queue)-1]; m.progress != "" && last.progress == m.progress && f.key == "" {
		f.bytes += len(m.data) - len(last.data)
		last.data = m.data
	}
	return nil
}

// ask queues a question, and waits for room.
func (f *feed) ask(ctx context.Context, req *dragoman.Message) error {
	for {
		f.mu.Lock()
		if f.dead || f.ended {
			f.mu.Unlock()
			return dragoman.ErrClosed
		}
		if f.bytes == 0 || f.bytes+req.Len() <= maxFed {
			err := f.add(fed{data: req.Bytes()})
			f.mu.Unlock()
			return err
		}
		if f.room == nil {
			f.room = make(chan struct{})
		}
		room := f.room
		f.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// end queues the last messages and ends the stream.
func (f *feed) end(last []*dragoman.Message) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range last {
		if err := f.add(fed{data: m.Bytes()}); err != nil {
			f.server.opts.logger.Warn("answer not logged", "error", err)
		}
	}
	f.ended = true
	f.signal()
}

// add queues a message. mu is held.
func (f *feed) add(m fed) error {
	if f.key != "" {
		f.log(&m)
	}
	f.queue = append(f.queue, m)
	f.bytes += len(m.data)
	f.signal()
	return nil
}

// log gives a message its position in the log. One that cannot be logged goes out
// without: then the stream cannot be resumed behind what was before it. mu is held.
func (f *feed) log(m *fed) {
	at, err := f.server.opts.log.Append(context.Background(), f.key, m.data)
	if err != nil {
		if !f.broken {
			f.server.opts.logger.Warn("a stream cannot be resumed: its events are not logged", "error", err)
		}
		f.broken = true
		return
	}
	if m.at = at; f.broken {
		f.broken, f.gap = false, at
	}
}

func (f *feed) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// next returns what waits longest, and whether the stream is at its end.
func (f *feed) next() (m fed, ok, ended bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.queue) > 0 {
		return f.queue[0], true, false
	}
	return m, false, f.ended
}

// written notes that the first of the queue has been written.
func (f *feed) written() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pop()
}

// pop takes the first off the queue. mu is held.
func (f *feed) pop() {
	f.bytes -= len(f.queue[0].data)
	f.queue[0] = fed{}
	if f.queue = f.queue[1:]; len(f.queue) == 0 {
		f.queue = nil
	}
	f.unblock()
}

// over reports whether nothing more will be said and nobody is being told.
func (f *feed) over() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended && !f.open
}

// unblock lets those go on who wait for room. mu is held.
func (f *feed) unblock() {
	if f.room != nil {
		close(f.room)
		f.room = nil
	}
}

// claim makes this the one connection of the stream, and returns what its
// client has missed behind position, which is negative if it has missed nothing.
func (f *feed) claim(ctx context.Context, position int64) (missed []fed, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if position >= 0 {
		_, err := f.server.opts.log.After(ctx, f.key, position)
		if f.broken || position < f.gap {
			err = eventlog.ErrLost
		}
		if err != nil {
			return nil, lost(err) // before anybody is sent away for nothing
		}
	}
	for f.open {
		if position < 0 || !f.evict() {
			return nil, refuse(http.StatusConflict, protocol.CodeServer, "Conflict: this stream is open already; close it first")
		}
	}
	for len(f.queue) > 0 && f.queue[0].at <= position {
		f.pop() // it was written, though the connection was not there to say so
	}
	if position >= 0 {
		events, err := f.server.opts.log.After(ctx, f.key, position)
		if err != nil {
			return nil, lost(err)
		}
		for i, data := range events {
			at := position + int64(i) + 1
			if len(f.queue) > 0 && at >= f.queue[0].at {
				break // that and what follows is still to be written anyway
			}
			missed = append(missed, fed{at: at, data: data})
		}
	}
	if f.open = true; f.wake == nil {
		f.wake, f.hang = make(chan struct{}, 1), make(chan time.Duration, 1)
	}
	return missed, nil
}

// evict ends the connection that is served, in favour of one on which the
// client resumes the stream: it would not if the old one still worked. mu is
// held, but not meanwhile.
func (f *feed) evict() bool {
	cut, left := f.cut, f.left
	if cut == nil {
		return false
	}
	f.mu.Unlock()
	defer f.mu.Lock()
	cut()
	<-left // at once: a write that is under way fails
	return true
}

// leave gives the connection up. A stream that is not logged dies with it.
func (f *feed) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open = false
	if f.left != nil {
		close(f.left)
		f.cut, f.left = nil, nil
	}
	if f.key == "" {
		f.dead = true
		f.queue, f.bytes = nil, 0
		f.unblock()
	}
}

// serve writes the stream to a connection that has been claimed, until the
// stream ends or the client is gone, or is asked to come back later. What has not
// been written then waits for another connection. It reports whether the stream
// has been written to its end.
func (f *feed) serve(out *sse.Writer, missed []fed, gone, parting <-chan struct{}) bool {
	defer f.leave()
	evicted := make(chan struct{})
	f.mu.Lock()
	f.left = make(chan struct{})
	f.cut = sync.OnceFunc(func() {
		close(evicted)
		out.Cut()
	})
	f.mu.Unlock()
	var err error
	for _, m := range missed {
		if err == nil {
			err = f.write(out, m)
		}
	}
	beat := time.NewTicker(f.server.opts.keepAlive)
	defer beat.Stop()
	for err == nil {
		m, ok, ended := f.next()
		switch {
		case ended:
			return true
		case ok:
			if err = f.write(out, m); err == nil {
				f.written()
			}
			continue
		}
		select {
		case <-f.wake:
		case <-beat.C:
			err = out.Comment("keep-alive")
		case retry := <-f.hang:
			if err = out.Event(&sse.Event{Retry: int(retry.Milliseconds())}); err == nil && out.Hangup() {
				return false
			}
		case <-parting:
			if retry := f.server.opts.retry; retry > 0 {
				_ = out.Event(&sse.Event{Retry: int(retry.Milliseconds())}) // or the client is gone
			}
			return false
		case <-evicted:
			return false
		case <-gone:
			return false
		}
	}
	return false
}

func (f *feed) write(out *sse.Writer, m fed) error {
	e := &sse.Event{Name: "message", Data: m.data}
	if len(m.data) == 0 {
		e.Name = "" // a cursor alone
	}
	if f.ids && m.at > 0 {
		e.ID = eventID(f.name, m.at)
	}
	return out.Event(e)
}

// lost says that events cannot be replayed.
func lost(err error) error {
	return refuse(http.StatusBadRequest, protocol.CodeServer, "events behind Last-Event-ID cannot be replayed: "+err.Error()+
		"; open a stream without Last-Event-ID and fetch what you need anew")
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
