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
	"github.com/dragoman-mcp/dragoman/internal/util/retry"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpclient"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Messages of each kind have a queue and slots of their own. A server may answer a
// POST only when it is done with the message, and to be done it may need an answer or
// a cancel of ours; so no kind waits for another, until so many answers wait that
// there is no room: none may be lost, so what comes behind waits too. Order is kept
// where the protocol needs it:
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

	// orderDelay is the time that a message which is written has before another that
	// follows it: the two go over different connections.
	orderDelay = 100 * time.Millisecond

	// answerDelay is orderDelay before an answer, which follows progress, log messages and
	// cancels: a server is soon done with these, but its machine may be busy.
	answerDelay = time.Second

	// slotTime is how long a request keeps its slot after the server has read it and
	// not answered the POST: it may do that when it has the result.
	slotTime = 5 * time.Second

	// flushWait is how long Close waits for notifications and answers to be posted.
	flushWait = 2 * time.Second
)

// A post is a message that is to be posted.
type post struct {
	kind    int
	frame   jsonrpc.Frame
	m       *dragoman.Message // what frame is, or nil if it is an array of answers
	after   []*post           // what it follows
	started bool              // guarded by clientStream.mu
	hasSlot bool              // it has one of the slots of its kind; guarded by clientStream.mu

	ctx    context.Context // of the POST
	cancel context.CancelFunc
	sent   chan struct{} // closed when the message is written
	write  sync.Once     // closes sent
	done   chan struct{} // closed when the POST is over
}

// A backlog holds the posts of one kind that wait. clientStream.mu guards it.
type backlog struct {
	waiting  []*post
	n, bytes int // of those, and of those that wait for the handshake
	inFlight int // POSTs in progress
}

// count counts a post that waits, or no longer does.
func (b *backlog) count(p *post, n int) {
	b.n += n
	b.bytes += n * p.frame.Len()
}

// full reports whether there is no room for p. The caller of a request holds it in memory
// anyway, so that requests are bounded by number alone.
func (b *backlog) full(p *post) bool {
	return b.n >= maxNotes || p.kind != requests && b.bytes > 0 && b.bytes+p.frame.Len() > maxNoteBytes
}

func (cs *clientStream) newPost(f jsonrpc.Frame) *post {
	p := &post{kind: answers, frame: f, m: jsonrpc.MessageOf(f), sent: make(chan struct{}), done: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(cs.ctx)
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

// isHandshake reports whether requests and notifications behind p wait for it.
func (p *post) isHandshake() bool {
	return p.m != nil && (p.m.Method() == protocol.MethodInitialize || p.m.Method() == protocol.NoteInitialized)
}

func (p *post) written() { p.write.Do(func() { close(p.sent) }) }

// Write implements mux.Stream. It waits for room among the answers alone; what
// becomes of each message is between it and its call.
func (cs *clientStream) Write(frames []jsonrpc.Frame) error {
	for _, f := range frames {
		p := cs.newPost(f)
		if p.kind == answers {
			cs.await(cs.ctx, func() bool { return !cs.queues[answers].full(p) })
		}
		if cs.ctx.Err() != nil {
			return context.Cause(cs.ctx)
		}
		if cs.enqueue(p) {
			continue
		}
		p.cancel()
		if p.kind == requests {
			cs.fail(p.m, fmt.Errorf("%w: the server does not take what it is sent", dragoman.ErrOverloaded))
			continue
		}
		cs.log.Warn("notification dropped: the server does not take what it is sent", "method", p.m.Method())
	}
	return nil
}

// enqueue queues a post. It reports false if there is no room.
func (cs *clientStream) enqueue(p *post) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	q := &cs.queues[p.kind]
	if p.kind != answers && q.full(p) { // an answer has waited for room
		return false
	}
	switch p.kind {
	case requests:
		cs.requests[p.m.ID().Key()] = p
	case answers:
		p.after = slices.Clone(cs.cancels)
		if cs.lastReport != nil {
			p.after = append(p.after, cs.lastReport)
		}
	case reports:
		cs.lastReport = p
	case cancels:
		id, _ := dragoman.ParseID(p.m.Get("requestId"))
		if req := cs.requests[id.Key()]; req != nil {
			if cs.unqueue(req) {
				p.cancel() // there is nothing to cancel
				return true
			}
			p.after = []*post{req}
		}
		cs.cancels = append(cs.cancels, p)
	}
	q.count(p, 1)
	cs.schedule(p)
	return true
}

// unqueue removes a request that has not been sent. It reports whether that was so.
// cs.mu is locked.
func (cs *clientStream) unqueue(p *post) bool {
	if p.started || p.isHandshake() {
		return false
	}
	q := &cs.queues[p.kind]
	q.count(p, -1)
	q.waiting, cs.afterHandshake = without(q.waiting, p), without(cs.afterHandshake, p)
	delete(cs.requests, p.m.ID().Key())
	p.cancel()
	return true
}

func without(list []*post, p *post) []*post {
	return slices.DeleteFunc(list, func(other *post) bool { return other == p })
}

// schedule queues a post to be sent, unless it has to wait for the handshake. cs.mu is
// locked.
func (cs *clientStream) schedule(p *post) {
	if cs.handshaking && (p.kind == requests || p.kind == notes) {
		cs.afterHandshake = append(cs.afterHandshake, p)
		return
	}
	cs.handshaking = cs.handshaking || p.isHandshake()
	q := &cs.queues[p.kind]
	q.waiting = append(q.waiting, p)
	cs.next(p.kind)
}

// next begins the posts of a kind for which there are slots. cs.mu is locked.
func (cs *clientStream) next(kind int) {
	slots := maxPosts
	switch {
	case kind == reports || kind == notes:
		slots = 1
	case kind == requests && cs.sync:
		slots = jsonrpc.DefaultMaxCalls // each lasts until its answer
	}
	q := &cs.queues[kind]
	for len(q.waiting) > 0 && q.inFlight < slots && !cs.closed {
		p := q.waiting[0]
		q.waiting[0] = nil
		q.waiting = q.waiting[1:]
		q.count(p, -1)
		q.inFlight++
		p.started, p.hasSlot = true, true
		cs.running.Add(1)
		go cs.run(p) // ends when the POST is over, or with the stream
	}
}

// run posts a message, and starts those that waited for it.
func (cs *clientStream) run(p *post) {
	defer cs.running.Done()
	cs.waitForEarlier(p)
	cs.send(p)
	if p.kind == cancels {
		for _, req := range p.after {
			req.cancel() // its response is not needed any more
		}
	}
	p.cancel()
	p.written()
	close(p.done)
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.releaseSlot(p)
	switch {
	case p.kind == requests:
		delete(cs.requests, p.m.ID().Key())
	case p.kind == cancels:
		cs.cancels = without(cs.cancels, p)
	case cs.lastReport == p:
		cs.lastReport = nil
	}
	if p.isHandshake() {
		held := cs.afterHandshake
		cs.handshaking, cs.afterHandshake = false, nil
		for _, h := range held {
			cs.schedule(h)
		}
	}
	if cs.postDone != nil {
		close(cs.postDone)
		cs.postDone = nil
	}
}

// releaseSlot gives the slot of a post to another. cs.mu is locked.
func (cs *clientStream) releaseSlot(p *post) {
	if p.hasSlot {
		p.hasSlot = false
		cs.queues[p.kind].inFlight--
		cs.next(p.kind)
	}
}

// waitForEarlier waits for what p follows.
func (cs *clientStream) waitForEarlier(p *post) {
	if len(p.after) == 0 {
		return
	}
	for _, other := range p.after {
		select {
		case <-other.sent:
		case <-cs.ctx.Done():
			return
		}
	}
	delay := orderDelay
	if p.kind == answers {
		delay = answerDelay
	}
	t := time.NewTimer(delay)
	defer t.Stop()
	for _, other := range p.after {
		select {
		case <-other.done:
		case <-t.C:
			return
		case <-cs.ctx.Done():
			return
		}
	}
}

// send posts a message and takes what the server says to it.
func (cs *clientStream) send(p *post) {
	ctx, cancel := context.WithCancelCause(p.ctx)
	defer cancel(nil)
	if p.kind != requests || !cs.sync { // else it lasts until the answer
		defer cs.limit(p, cancel)()
	}
	// A RoundTripper that does not heed this makes those that follow wait for the end.
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(info httptrace.WroteRequestInfo) {
		if info.Err == nil {
			p.written()
		}
	}})
	resp, err := cs.post(ctx, p.frame, p.kind == answers)
	switch {
	case err != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		cs.fail(p.m, fmt.Errorf("sse: the server did not take the message within %v: %w", cs.timeout, context.DeadlineExceeded))
	case err != nil:
		cs.fail(p.m, httpclient.NoResponse(fmt.Errorf("sse: cannot post the message: %w", err)))
	default:
		cs.outcome(resp, p.m)
	}
}

// limit ends a POST that takes too long. A request that the server has read may take
// as long as its call does, because the POST may be answered when that is done; it only
// loses its slot.
func (cs *clientStream) limit(p *post, cancel context.CancelCauseFunc) (stop func()) {
	checkSlot := func(late bool) {
		if p.kind == requests {
			select {
			case <-p.sent:
				cs.mu.Lock()
				defer cs.mu.Unlock()
				cs.releaseSlot(p)
				return
			default:
			}
		}
		if late {
			cancel(context.DeadlineExceeded)
		}
	}
	slot := time.AfterFunc(slotTime, func() { checkSlot(false) })
	late := time.AfterFunc(cs.timeout, func() { checkSlot(true) })
	return func() {
		slot.Stop()
		late.Stop()
	}
}

// await returns when ok does, which is asked whenever a POST is over, or when ctx
// ends. ok is called with cs.mu locked.
func (cs *clientStream) await(ctx context.Context, ok func() bool) {
	for {
		cs.mu.Lock()
		if ok() {
			cs.mu.Unlock()
			return
		}
		if cs.postDone == nil {
			cs.postDone = make(chan struct{})
		}
		change := cs.postDone
		cs.mu.Unlock()
		select {
		case <-change:
		case <-ctx.Done():
			return
		}
	}
}

// flush waits until all but requests have been posted, up to flushWait.
func (cs *clientStream) flush() {
	ctx, cancel := context.WithTimeout(cs.ctx, flushWait)
	defer cancel()
	cs.await(ctx, func() bool {
		for kind := range cs.queues {
			if q := &cs.queues[kind]; kind != requests && q.n+q.inFlight > 0 {
				return false
			}
		}
		return true
	})
}

// An answer to a question of the server is posted again if the connection breaks
// before the server has taken it: at most maxRetries times, all within the time of one
// POST. A server that had it already ignores the second.
const maxRetries = 5

var retryBackoff = retry.Backoff{Min: 250 * time.Millisecond, Max: 4 * time.Second}

// post posts a frame.
func (cs *clientStream) post(ctx context.Context, f jsonrpc.Frame, answer bool) (*http.Response, error) {
	text := f.AppendTo(nil)
	for n := 0; ; n++ {
		resp, err := cs.postOnce(ctx, text)
		if err == nil || !answer || n == maxRetries || retry.Sleep(ctx, retryBackoff.Wait(n+1)) != nil {
			return resp, err
		}
	}
}

func (cs *clientStream) postOnce(ctx context.Context, text []byte) (*http.Response, error) {
	return cs.http.Do(ctx, http.MethodPost, cs.endpoint, text, func(h http.Header) {
		if cs.sync {
			h.Set("Accept", "application/json")
		}
	})
}
