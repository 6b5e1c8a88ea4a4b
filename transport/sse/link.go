package sse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/internal/mux"
	"github.com/dragoman-mcp/dragoman/internal/sse"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	// maxPosts is how many messages may be on their way to the server at once.
	maxPosts = 16

	// endless is how many times the limit an event may have before it counts
	// as one that will not end.
	endless = 8

	// envelope is what an event may have besides its data.
	envelope = 4 << 10
)

// A link is the client's end of a conversation: it reads the event stream and
// posts what is written. Requests and answers may be on their way at once;
// notifications keep their place among all.
type link struct {
	http    *http.Client
	own     *http.Transport // to be closed with the link, or nil
	header  http.Header
	limits  dragoman.Limits
	timeout time.Duration // for one POST
	variant bool          // the variant without sessions is allowed
	log     *slog.Logger

	endpoint *url.URL // set by connect
	sync     bool     // answers come in the response; set by connect

	ctx     context.Context // ends with the link
	cancel  context.CancelCauseFunc
	first   chan *sse.Event // the first event
	arrived chan arrival
	slots   chan struct{} // one for each post under way

	mu      sync.Mutex
	closed  bool
	asked   map[dragoman.ID]context.CancelFunc // requests of the variant under way
	running sync.WaitGroup                     // of pump and posts
	posts   sync.WaitGroup
}

// An arrival is what Read returns.
type arrival struct {
	data []byte
	err  error
}

func newLink(c *Client) *link {
	l := &link{
		header: c.Header.Clone(), limits: dragoman.Limits{MaxMessage: c.MaxMessage},
		timeout: or(c.PostTimeout, DefaultPostTimeout), variant: c.Sync, log: c.Logger,
		first: make(chan *sse.Event, 1), arrived: make(chan arrival), slots: make(chan struct{}, maxPosts),
		asked: make(map[dragoman.ID]context.CancelFunc),
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	l.http, l.own = c.httpClient()
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	return l
}

// dress gives a request the configured headers.
func (l *link) dress(req *http.Request) {
	for name, values := range l.header {
		req.Header[name] = values
	}
	if host := l.header.Get("Host"); host != "" {
		req.Host = host
	}
}

// pump takes events until the stream ends, and the link with it.
func (l *link) pump(body io.ReadCloser) {
	defer l.running.Done()
	defer body.Close()
	limit := l.limits.Message()
	r := sse.NewReader(body, limit+envelope)
	for {
		e, err := r.Next()
		var bad *mux.BadFrame
		switch {
		case errors.Is(err, dragoman.ErrTooLarge):
			bad = &mux.BadFrame{Err: err}
			if bad.Head, bad.Tail, err = r.Skip(endless * limit); err == nil {
				l.deliver(arrival{err: bad})
				continue
			}
		case err == nil && e.Name == eventEndpoint:
			l.note(e)
			continue
		case err == nil:
			if (e.Name == "" || e.Name == eventMessage) && len(e.Data) > 0 {
				l.note(e)
				l.deliver(l.check(e.Data))
			}
			continue
		case errors.Is(err, io.EOF):
			err = fmt.Errorf("sse: the server has ended the event stream: %w", err)
		default:
			err = fmt.Errorf("sse: the event stream broke: %w", err)
		}
		l.end(err)
		return
	}
}

// note keeps the first event for connect.
func (l *link) note(e *sse.Event) {
	select {
	case l.first <- e:
	default:
	}
}

// check refuses a message over the limit.
func (l *link) check(data []byte) arrival {
	const ends = 256
	if limit := l.limits.Message(); len(data) > limit {
		return arrival{err: &mux.BadFrame{
			Err:  fmt.Errorf("%w: %d bytes", dragoman.ErrTooLarge, len(data)),
			Head: data[:min(len(data), ends)], Tail: data[max(0, len(data)-ends):],
		}}
	}
	return arrival{data: data}
}

// deliver hands something to Read.
func (l *link) deliver(a arrival) {
	select {
	case l.arrived <- a:
	case <-l.ctx.Done():
	}
}

// end makes the link end, for the first reason given.
func (l *link) end(reason error) { l.cancel(reason) }

// Read implements mux.Stream.
func (l *link) Read() ([]byte, error) {
	select {
	case a := <-l.arrived:
		return a.data, a.err
	case <-l.ctx.Done():
		return nil, context.Cause(l.ctx)
	}
}

// Write implements mux.Stream. It returns when all but the last few messages
// have been accepted; what becomes of each is between it and its call.
func (l *link) Write(frames []mux.Frame) error {
	for _, f := range frames {
		m := mux.MessageOf(f)
		if m != nil && m.Kind() == dragoman.Notification {
			if !l.sync {
				l.posts.Wait() // what came before it arrives before it
			}
			l.send(f, m)
			continue
		}
		if !l.sync {
			select {
			case l.slots <- struct{}{}:
			case <-l.ctx.Done():
				return context.Cause(l.ctx)
			}
		}
		if !l.start(func() { l.send(f, m) }) {
			break
		}
	}
	if l.ctx.Err() != nil {
		return context.Cause(l.ctx)
	}
	return nil
}

// start runs f on a goroutine of its own, which ends with the link.
func (l *link) start(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.running.Add(1)
	l.posts.Add(1)
	go func() {
		defer l.running.Done()
		defer l.posts.Done()
		f()
		if !l.sync {
			<-l.slots
		}
	}()
	return true
}

// Close implements mux.Stream. It waits for all that is under way.
func (l *link) Close() error {
	l.end(dragoman.ErrClosed)
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.running.Wait()
	if l.own != nil {
		l.own.CloseIdleConnections()
	}
	return nil
}

// send posts a frame, which is m unless it is an array of answers, and takes what
// the server says to it.
func (l *link) send(f mux.Frame, m *dragoman.Message) {
	ctx, cancel := l.during(m)
	defer cancel()
	resp, err := l.post(ctx, f, m)
	switch {
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		l.fail(m, fmt.Errorf("sse: the server did not take the message within %v: %w", l.timeout, context.DeadlineExceeded))
	case err != nil:
		l.fail(m, httpx.Lost(fmt.Errorf("sse: cannot post the message: %w", bare(err))))
	default:
		l.outcome(resp, m)
	}
	if l.sync && m != nil && m.Method() == protocol.NoteCancelled {
		l.abandon(m)
	}
}

// during returns the context of the POST of m. It has a timeout, unless it lasts
// until the answer.
func (l *link) during(m *dragoman.Message) (context.Context, context.CancelFunc) {
	if !l.sync || m == nil || m.Kind() != dragoman.Request {
		return context.WithTimeout(l.ctx, l.timeout)
	}
	ctx, cancel := context.WithCancel(l.ctx)
	id := m.ID().Key()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked[id] = cancel
	return ctx, func() {
		cancel()
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.asked, id)
	}
}

// abandon ends the POST of a request that was cancelled.
func (l *link) abandon(note *dragoman.Message) {
	id, ok := dragoman.ParseID(note.Get("requestId"))
	l.mu.Lock()
	defer l.mu.Unlock()
	if cancel := l.asked[id.Key()]; ok && cancel != nil {
		cancel()
	}
}
