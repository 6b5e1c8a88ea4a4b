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
	feed   *feed
	keep   *session // keeps the stream, so that it can be resumed; may be nil
	number int      // of the stream in keep
	primes bool     // the client's revision wants an empty event first
	w      http.ResponseWriter
	r      *http.Request

	mu     sync.Mutex
	began  bool          // it is an event stream
	over   bool          // finish has been called
	served chan struct{} // closed when the event stream has been served
	timer  *time.Timer
}

func (s *Server) newAnswer(w http.ResponseWriter, r *http.Request) *answer {
	a := &answer{feed: s.newFeed(), w: w, r: r}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.timer = time.AfterFunc(s.opts.keepAlive, a.begin)
	return a
}

// begin turns the answer into an event stream, unless it is one or is over.
func (a *answer) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.began || a.over {
		return
	}
	a.began = true
	a.served = make(chan struct{})
	a.timer.Stop()
	if a.keep != nil {
		a.keep.add(a.feed, a.number)
	}
	if a.primes {
		a.feed.prime()
	}
	_, _ = a.feed.claim(context.Background(), -1) // nobody else can know it yet
	// Ends with the stream or the connection; finish waits for it.
	go func() {
		defer close(a.served)
		out, err := sse.Start(a.w, a.feed.server.opts.write)
		if err != nil {
			a.feed.leave()
			return
		}
		a.feed.serve(out, nil, a.r.Context().Done())
	}()
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
	a.begin()
	return a.feed.tell(note)
}

// ask sends a question before the response.
func (a *answer) ask(ctx context.Context, req *dragoman.Message) error {
	a.begin()
	return a.feed.ask(ctx, req)
}

// finish sends the responses, which may be none, and returns when they have
// been written or cannot be. If the answer has been no stream so far, body says
// how they look together, and status with what.
func (a *answer) finish(responses []*dragoman.Message, status int, body []byte) {
	if len(responses) == 0 {
		a.begin()
	}
	a.mu.Lock()
	a.over = true
	a.timer.Stop()
	began := a.began
	a.mu.Unlock()
	if !began {
		_ = http.NewResponseController(a.w).SetWriteDeadline(time.Now().Add(a.feed.server.opts.write))
		_ = httpx.WriteJSON(a.w, a.r, status, body) // the client is gone
		return
	}
	a.feed.end(responses)
	<-a.served
}

// cut ends the connection but not the stream, if the client's revision has that.
func (a *answer) cut(retry time.Duration) {
	if a.primes {
		a.begin()
		select {
		case a.feed.hang <- retry:
		default:
		}
	}
}

// resume serves the stream to another connection of its client, until ctx ends.
func (f *feed) resume(ctx context.Context, w http.ResponseWriter, position int64) error {
	missed, err := f.claim(ctx, position)
	if err != nil {
		return err
	}
	if out, err := sse.Start(w, f.server.opts.write); err == nil {
		f.serve(out, missed, ctx.Done())
	} else {
		f.leave() // the client is gone already
	}
	return nil
}
