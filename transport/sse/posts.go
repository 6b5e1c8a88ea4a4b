package sse

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/backoff"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/internal/mux"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Messages of each kind have a queue and places of their own. A server may answer a
// POST only when it is done with the message, and to be done it may need an answer or
// a cancel of ours; so no kind waits for another. Order is kept where the protocol
// needs it:
//
//   - requests and notifications behind a message of the handshake wait until the
//     POST of that is over;
//   - a cancel follows its request, and an answer the reports and cancels before it;
//   - reports go one after the other, and so do other notifications.
//
// To follow means to be posted when the other is written and the server has taken it,
// or has had the time to: it may not say so before it is done.
const (
	requests = iota
	answers
	cancels
	reports // progress and log messages, which belong to a question
	notes   // all other notifications
	kinds
)

// maxPosts is how many requests, how many answers and how many cancels may be on
// their way to the server at once.
const maxPosts = 16

const (
	// maxNotes and maxNoteBytes are how much of each kind may wait.
	maxNotes     = 1024
	maxNoteBytes = 4 << 20

	// headStart is the time that a message which is written has before another that
	// follows it: the two go over different connections.
	headStart = 100 * time.Millisecond

	// placeTime is how long a request has a place that the server has read and not
	// answered the POST of: it may do that when it has the result.
	placeTime = 5 * time.Second

	// flushWait is how long Close waits for what was told and answered before it.
	flushWait = 2 * time.Second
)

// A post is a message that is to be posted.
type post struct {
	kind   int
	frame  mux.Frame
	m      *dragoman.Message // what frame is, or nil if it is an array of answers
	behind []*post           // what it follows
	begun  bool              // guarded by link.mu
	placed bool              // it has one of the places of its kind; guarded by link.mu

	ctx    context.Context // of the POST
	cancel context.CancelFunc
	sent   chan struct{} // closed when the message is written
	write  sync.Once     // closes sent
	done   chan struct{} // closed when the POST is over
}

// A queue holds the posts of one kind that wait. link.mu guards it.
type queue struct {
	waiting  []*post
	n, bytes int // of those, and of those that wait for the handshake
	under    int // POSTs under way
}

// count counts a post that waits, or no longer does.
func (q *queue) count(p *post, n int) {
	q.n += n
	q.bytes += n * p.frame.Len()
}

// full reports whether there is no room for p. Who makes a request holds it in memory
// anyway, so that requests are bounded by number alone.
func (q *queue) full(p *post) bool {
	return q.n >= maxNotes || p.kind != requests && q.bytes > 0 && q.bytes+p.frame.Len() > maxNoteBytes
}

func (l *link) newPost(f mux.Frame) *post {
	p := &post{kind: answers, frame: f, m: mux.MessageOf(f), sent: make(chan struct{}), done: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(l.ctx)
	if p.m == nil || p.m.Kind() == dragoman.Response {
		return p
	}
	switch p.m.Method() {
	case protocol.NoteCancelled:
		p.kind = cancels
	case protocol.NoteProgress, protocol.NoteMessage:
		p.kind = reports
	default:
		p.kind = notes
	}
	if p.m.Kind() == dragoman.Request {
		p.kind = requests
	}
	return p
}

// opens reports whether requests and notifications behind p wait for it.
func (p *post) opens() bool {
	return p.m != nil && (p.m.Method() == protocol.MethodInitialize || p.m.Method() == protocol.NoteInitialized)
}

func (p *post) written() { p.write.Do(func() { close(p.sent) }) }

// Write implements mux.Stream. It waits for room among the answers alone; what
// becomes of each message is between it and its call.
func (l *link) Write(frames []mux.Frame) error {
	for _, f := range frames {
		p := l.newPost(f)
		if p.kind == answers {
			l.await(l.ctx, func() bool { return !l.queues[answers].full(p) })
		}
		if l.ctx.Err() != nil {
			return context.Cause(l.ctx)
		}
		if l.enqueue(p) {
			continue
		}
		p.cancel()
		if p.kind == requests {
			l.fail(p.m, fmt.Errorf("%w: the server does not take what it is sent", dragoman.ErrOverloaded))
			continue
		}
		l.log.Warn("notification dropped: the server does not take what it is sent", "method", p.m.Method())
	}
	return nil
}

// enqueue queues a post. It reports false if there is no room.
func (l *link) enqueue(p *post) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := &l.queues[p.kind]
	if p.kind != answers && q.full(p) { // an answer has waited for room
		return false
	}
	switch p.kind {
	case requests:
		l.asked[p.m.ID().Key()] = p
	case answers:
		p.behind = slices.Clone(l.stopping)
		if l.told != nil {
			p.behind = append(p.behind, l.told)
		}
	case reports:
		l.told = p
	case cancels:
		id, _ := dragoman.ParseID(p.m.Get("requestId"))
		if req := l.asked[id.Key()]; req != nil {
			if l.withdraw(req) {
				p.cancel() // there is nothing to cancel
				return true
			}
			p.behind = []*post{req}
		}
		l.stopping = append(l.stopping, p)
	}
	q.count(p, 1)
	l.admit(p)
	return true
}

// withdraw takes back a request that has not left. It reports whether that was so.
// l.mu is locked.
func (l *link) withdraw(p *post) bool {
	if p.begun || p.opens() {
		return false
	}
	q := &l.queues[p.kind]
	q.count(p, -1)
	q.waiting, l.held = without(q.waiting, p), without(l.held, p)
	delete(l.asked, p.m.ID().Key())
	p.cancel()
	return true
}

func without(list []*post, p *post) []*post {
	return slices.DeleteFunc(list, func(other *post) bool { return other == p })
}

// admit lets a post take its turn, unless it has to wait for the handshake. l.mu is
// locked.
func (l *link) admit(p *post) {
	if l.opening && (p.kind == requests || p.kind == notes) {
		l.held = append(l.held, p)
		return
	}
	l.opening = l.opening || p.opens()
	q := &l.queues[p.kind]
	q.waiting = append(q.waiting, p)
	l.next(p.kind)
}

// next begins the posts of a kind for which there are places. l.mu is locked.
func (l *link) next(kind int) {
	places := maxPosts
	switch {
	case kind == reports || kind == notes:
		places = 1
	case kind == requests && l.sync:
		places = mux.DefaultMaxCalls // each lasts until its answer
	}
	q := &l.queues[kind]
	for len(q.waiting) > 0 && q.under < places && !l.closed {
		p := q.waiting[0]
		q.waiting[0] = nil
		q.waiting = q.waiting[1:]
		q.count(p, -1)
		q.under++
		p.begun, p.placed = true, true
		l.running.Add(1)
		go l.run(p) // ends when the POST is over, or with the link
	}
}

// run posts a message when its turn has come, and lets others have theirs.
func (l *link) run(p *post) {
	defer l.running.Done()
	l.follow(p)
	l.send(p)
	if p.kind == cancels {
		for _, req := range p.behind {
			req.cancel() // nobody waits for what the server says to it
		}
	}
	p.cancel()
	p.written()
	close(p.done)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leave(p)
	switch {
	case p.kind == requests:
		delete(l.asked, p.m.ID().Key())
	case p.kind == cancels:
		l.stopping = without(l.stopping, p)
	case l.told == p:
		l.told = nil
	}
	if p.opens() {
		held := l.held
		l.opening, l.held = false, nil
		for _, h := range held {
			l.admit(h)
		}
	}
	if l.change != nil {
		close(l.change)
		l.change = nil
	}
}

// leave gives the place of a post to another. l.mu is locked.
func (l *link) leave(p *post) {
	if p.placed {
		p.placed = false
		l.queues[p.kind].under--
		l.next(p.kind)
	}
}

// follow waits for what p follows.
func (l *link) follow(p *post) {
	if len(p.behind) == 0 {
		return
	}
	for _, other := range p.behind {
		select {
		case <-other.sent:
		case <-l.ctx.Done():
			return
		}
	}
	t := time.NewTimer(headStart)
	defer t.Stop()
	for _, other := range p.behind {
		select {
		case <-other.done:
		case <-t.C:
			return
		case <-l.ctx.Done():
			return
		}
	}
}

// send posts a message and takes what the server says to it.
func (l *link) send(p *post) {
	ctx, cancel := context.WithCancelCause(p.ctx)
	defer cancel(nil)
	if p.kind != requests || !l.sync { // else it lasts until the answer
		defer l.limit(p, cancel)()
	}
	// A RoundTripper that does not heed this makes those that follow wait for the end.
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(info httptrace.WroteRequestInfo) {
		if info.Err == nil {
			p.written()
		}
	}})
	resp, err := l.post(ctx, p.frame, p.kind == answers)
	switch {
	case err != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		l.fail(p.m, fmt.Errorf("sse: the server did not take the message within %v: %w", l.timeout, context.DeadlineExceeded))
	case err != nil:
		l.fail(p.m, httpx.Lost(fmt.Errorf("sse: cannot post the message: %w", err)))
	default:
		l.outcome(resp, p.m)
	}
}

// limit ends a POST that takes too long. A request that the server has read may take
// as long as its call does, because the POST may be answered when that is done; it only
// loses its place.
func (l *link) limit(p *post, cancel context.CancelCauseFunc) (stop func()) {
	look := func(late bool) {
		if p.kind == requests {
			select {
			case <-p.sent:
				l.mu.Lock()
				defer l.mu.Unlock()
				l.leave(p)
				return
			default:
			}
		}
		if late {
			cancel(context.DeadlineExceeded)
		}
	}
	place := time.AfterFunc(placeTime, func() { look(false) })
	late := time.AfterFunc(l.timeout, func() { look(true) })
	return func() {
		place.Stop()
		late.Stop()
	}
}

// await returns when ok does, which is asked whenever a POST is over, or when ctx
// ends. ok is called with l.mu locked.
func (l *link) await(ctx context.Context, ok func() bool) {
	for {
		l.mu.Lock()
		if ok() {
			l.mu.Unlock()
			return
		}
		if l.change == nil {
			l.change = make(chan struct{})
		}
		change := l.change
		l.mu.Unlock()
		select {
		case <-change:
		case <-ctx.Done():
			return
		}
	}
}

// flush waits until all has been posted that nobody waits for, for a while.
func (l *link) flush() {
	ctx, cancel := context.WithTimeout(l.ctx, flushWait)
	defer cancel()
	l.await(ctx, func() bool {
		for kind := range l.queues {
			if q := &l.queues[kind]; kind != requests && q.n+q.under > 0 {
				return false
			}
		}
		return true
	})
}

// An answer to a question of the server is posted again if the link breaks before
// the server has taken it: so often, and all within the time of one POST. A server
// that had it already ignores the second, because nobody waits for it any more.
const maxRepeats = 5

var betweenRepeats = backoff.Backoff{Min: 250 * time.Millisecond, Max: 4 * time.Second}

// post posts a frame.
func (l *link) post(ctx context.Context, f mux.Frame, answer bool) (*http.Response, error) {
	text := f.AppendTo(nil)
	for n := 0; ; n++ {
		resp, err := l.postOnce(ctx, text)
		if err == nil || !answer || n == maxRepeats || backoff.Sleep(ctx, betweenRepeats.Wait(n+1)) != nil {
			return resp, err
		}
	}
}

func (l *link) postOnce(ctx context.Context, text []byte) (*http.Response, error) {
	return l.http.Do(ctx, http.MethodPost, l.endpoint, text, func(h http.Header) {
		if l.sync {
			h.Set("Accept", "application/json")
		}
	})
}
