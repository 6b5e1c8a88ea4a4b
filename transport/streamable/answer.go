package streamable

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/internal/sse"
)

// An answer is what becomes of one POST with requests: JSON if the responses
// are all there is to say, and an event stream as soon as something comes
// before them, or nothing comes for a while.
type answer struct {
	server *Server
	keep   *session // keeps the stream, so that it can be resumed; may be nil
	number int      // of the stream in keep
	primes bool     // the client's revision wants an empty event first
	w      http.ResponseWriter
	r      *http.Request
	ctx    callContext          // of the request, if it is one
	one    [1]*dragoman.Message // the request, of the legacy era
	batch  []*dragoman.Message  // or those that came with it
	client inside               // who is told and asked by it; of the legacy era

	silence httpx.Watched // on server.silent, until the answer begins or is over

	mu     sync.Mutex
	feed   *feed         // nil until it is an event stream
	over   bool          // finish has been called
	served chan struct{} // closed when the event stream has been served
	whole  bool          // to its end; set before
}

// newAnswer returns an answer that is finished, or abandoned before it is
// awaited.
func (s *Server) newAnswer(w http.ResponseWriter, r *http.Request) *answer {
	return &answer{server: s, w: w, r: r}
}

// await begins to count how long the answer is silent.
func (a *answer) await() { a.server.silent.Add(&a.silence, a) }

// Late makes an answer that has been silent for too long an event stream.
func (a *answer) Late() { a.begin() }

// begin turns the answer into an event stream, unless it is over, and returns
// the stream if it is one.
func (a *answer) begin() *feed {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.feed != nil || a.over {
		return a.feed
	}
	f := a.server.newFeed()
	a.feed = f
	a.served = make(chan struct{})
	a.server.silent.Remove(&a.silence)
	if a.keep != nil {
		a.keep.add(f, a.number, a.requests())
	}
	if a.primes {
		f.prime()
	}
	_, _ = f.claim(context.Background(), -1) // nobody else can know it yet
	// Ends with the stream or the connection; finish waits for it.
	go func() {
		defer close(a.served)
		out, err := sse.Start(a.w, a.server.opts.write)
		if err != nil {
			f.leave()
			return
		}
		a.whole = f.serve(out, nil, a.r.Context().Done(), nil)
	}()
	return f
}

// requests returns those that it answers.
func (a *answer) requests() []*dragoman.Message {
	if a.batch != nil {
		return a.batch
	}
	return a.one[:]
}

// prime queues an event that says where the stream begins, once.
func (f *feed) prime() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.began {
		f.began = true
		_ = f.add(fed{}) // without it the stream cannot be resumed from its start
	}
}

// tell sends a notification before the response.
func (a *answer) tell(note *dragoman.Message) error {
	f := a.begin()
	if f == nil {
		return dragoman.ErrClosed
	}
	return f.tell(note)
}

// ask sends a question before the response.
func (a *answer) ask(ctx context.Context, req *dragoman.Message) error {
	f := a.begin()
	if f == nil {
		return dragoman.ErrClosed
	}
	return f.ask(ctx, req)
}

// finish sends the responses, which may be none, and returns when they have
// been written or cannot be. If the answer has been no stream so far, body says
// how they look together, and status with what. It reports whether all has been
// written, so far as that can be known here.
func (a *answer) finish(responses []*dragoman.Message, status int, body []byte) (written bool) {
	if len(responses) == 0 {
		a.begin()
	}
	a.mu.Lock()
	a.over = true
	f := a.feed
	a.mu.Unlock()
	if f == nil {
		a.server.silent.Remove(&a.silence)
		a.server.limitWrite(a.w)
		comeBack(a.w.Header(), status)
		written = httpx.WriteJSON(a.w, a.r, status, body) == nil
	} else {
		f.end(responses)
		<-a.served
		written = a.whole
	}
	a.w, a.r = nil, nil // who keeps the context need not keep those
	return written
}

// limitWrite bounds how long the client may take to read an answer. It is a
// deadline and no watch, because net/http writes short answers when the handler
// has returned; then it lifts the deadline. A writer without deadlines has no
// slow client.
func (s *Server) limitWrite(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.opts.write))
}

// cut ends the connection but not the stream, if the client's revision has that.
func (a *answer) cut(retry time.Duration) {
	if !a.primes {
		return
	}
	if f := a.begin(); f != nil {
		select {
		case f.hang <- retry:
		default:
		}
	}
}

// resume serves the stream to another connection of its client, until ctx ends, or
// until parting is closed, if that is not nil: then the client is asked to come back.
func (f *feed) resume(ctx context.Context, w http.ResponseWriter, position int64, parting <-chan struct{}) error {
	missed, err := f.claim(ctx, position)
	if err != nil {
		return err
	}
	if out, err := sse.Start(w, f.server.opts.write); err == nil {
		f.serve(out, missed, ctx.Done(), parting)
	} else {
		f.leave() // the client is gone already
	}
	return nil
}
