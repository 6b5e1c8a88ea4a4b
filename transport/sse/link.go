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

	// envelope is what an event may have besides its data.
	envelope = 4 << 10
)

// A link is the client's end of a conversation: it reads the event stream and
// posts what is written.
type link struct {
	http    *httpx.Client // released with the link
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

	mu      sync.Mutex // guards what follows
	closed  bool
	queues  [kinds]queue
	opening bool          // a message of the handshake is not posted yet
	held    []*post       // what waits for that
	change  chan struct{} // closed when a POST is over; nil while nobody waits

	// What waits or is under way, and others may have to follow:
	asked    map[dragoman.ID]*post // requests
	stopping []*post               // cancels
	told     *post                 // the last of the reports, or nil

	running sync.WaitGroup // of pump and posts
	release sync.Once      // of http
}

// An arrival is what Read returns.
type arrival struct {
	data []byte
	err  error
}

func newLink(c *Client, client *httpx.Client) *link {
	l := &link{
		http: client, limits: dragoman.Limits{MaxMessage: c.MaxMessage},
		timeout: cmp.Or(c.PostTimeout, DefaultPostTimeout), variant: c.Sync, log: httpx.Logger(c.Logger),
		first: make(chan *sse.Event, 1), arrived: make(chan arrival),
		asked: make(map[dragoman.ID]*post),
	}
	client.Acquire()
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	return l
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
			if bad.Head, bad.Tail, err = r.Skip(endlessFactor * limit); err == nil {
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

// Close implements mux.Stream. It waits for all that is under way.
func (l *link) Close() error {
	l.flush()
	l.end(dragoman.ErrClosed)
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.running.Wait()
	l.release.Do(l.http.Release)
	return nil
}
