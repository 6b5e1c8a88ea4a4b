package sse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/internal/mux"
	"github.com/dragoman-mcp/dragoman/internal/sse"
)

const (
	// endlessFactor is how many times the limit an event may have before it counts
	// as one that will not end.
	endlessFactor = 8

	// eventOverhead is what an event may have besides its data.
	eventOverhead = 4 << 10
)

// A clientStream is the mux.Stream of a client: it reads the event stream and posts
// what is written.
type clientStream struct {
	http      *httpx.Client // released by Close
	limits    dragoman.Limits
	timeout   time.Duration // for one POST
	allowSync bool          // the variant without sessions is allowed
	log       *slog.Logger

	endpoint *url.URL // set by connect
	sync     bool     // answers come in the response; set by connect

	ctx      context.Context // ends with the stream
	cancel   context.CancelCauseFunc
	first    chan *sse.Event // the first event
	incoming chan incoming

	mu             sync.Mutex // guards what follows
	closed         bool
	queues         [kinds]queue
	handshaking    bool          // a message of the handshake is not posted yet
	afterHandshake []*post       // posts that wait for that
	postDone       chan struct{} // closed when a POST is over; nil if no goroutine waits

	// What waits or is under way, and others may have to follow:
	requests   map[dragoman.ID]*post // requests
	cancels    []*post               // cancels
	lastReport *post                 // the last of the reports, or nil

	running sync.WaitGroup // of readEvents and posts
	release sync.Once      // of http
}

// An incoming is what Read returns.
type incoming struct {
	data []byte
	err  error
}

func newClientStream(c *Client, client *httpx.Client) *clientStream {
	l := &clientStream{
		http: client, limits: dragoman.Limits{MaxMessage: c.MaxMessage},
		timeout: cmp.Or(c.PostTimeout, DefaultPostTimeout), allowSync: c.Sync, log: httpx.Logger(c.Logger),
		first: make(chan *sse.Event, 1), incoming: make(chan incoming),
		requests: make(map[dragoman.ID]*post),
	}
	client.Acquire()
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	return l
}

// readEvents reads events until the stream ends, and ends the conversation.
func (l *clientStream) readEvents(body io.ReadCloser) {
	defer l.running.Done()
	defer body.Close()
	limit := l.limits.Message()
	r := sse.NewReader(body, limit+eventOverhead)
	for {
		e, err := r.Next()
		var bad *mux.BadFrame
		switch {
		case errors.Is(err, dragoman.ErrTooLarge):
			bad = &mux.BadFrame{Err: err}
			if bad.Head, bad.Tail, err = r.Skip(endlessFactor * limit); err == nil {
				l.deliver(incoming{err: bad})
				continue
			}
		case err == nil && e.Name == eventEndpoint:
			l.keepFirst(e)
			continue
		case err == nil:
			if (e.Name == "" || e.Name == eventMessage) && len(e.Data) > 0 {
				l.keepFirst(e)
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

// keepFirst keeps the first event for connect.
func (l *clientStream) keepFirst(e *sse.Event) {
	select {
	case l.first <- e:
	default:
	}
}

// check refuses a message over the limit.
func (l *clientStream) check(data []byte) incoming {
	const ends = 256
	if limit := l.limits.Message(); len(data) > limit {
		return incoming{err: &mux.BadFrame{
			Err:  fmt.Errorf("%w: %d bytes", dragoman.ErrTooLarge, len(data)),
			Head: data[:min(len(data), ends)], Tail: data[max(0, len(data)-ends):],
		}}
	}
	return incoming{data: data}
}

// deliver hands something to Read.
func (l *clientStream) deliver(a incoming) {
	select {
	case l.incoming <- a:
	case <-l.ctx.Done():
	}
}

// end ends the stream, for the first reason given.
func (l *clientStream) end(reason error) { l.cancel(reason) }

// Read implements mux.Stream.
func (l *clientStream) Read() ([]byte, error) {
	select {
	case a := <-l.incoming:
		return a.data, a.err
	case <-l.ctx.Done():
		return nil, context.Cause(l.ctx)
	}
}

// Close implements mux.Stream. It waits for all that is under way.
func (l *clientStream) Close() error {
	l.flush()
	l.end(dragoman.ErrClosed)
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.running.Wait()
	l.release.Do(l.http.Release)
	return nil
}
