package streamable

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
)

// A postAnswer is the answer to one POST with requests: JSON if it has nothing but
// the responses, or an event stream as soon as a message comes before them, or
// nothing comes for a while.
type postAnswer struct {
	server  *Server
	session *session // that keeps the stream, so that it can be resumed; may be nil
	number  int      // of the stream in the session
	primes  bool     // the client's revision wants an empty event first
	x       *httpserver.Exchange
	ctx     callContext          // of the request, if it is one
	one     [1]*dragoman.Message // the request, in the legacy era
	batch   []*dragoman.Message  // in its place, the messages of a batch
	client  requestClient        // the from of the request, in the legacy era

	quiet httpframe.TimeoutEntry // on server.quiet, until the answer begins or is over

	mu       sync.Mutex
	stream   *eventStream  // nil until it is an event stream
	over     bool          // finish has been called
	served   chan struct{} // closed when the event stream has been served
	complete bool          // served to its end; set before served is closed
}

// newAnswer returns an answer, for which the caller must call finish or respond once it
// has called watchQuiet.
func (s *Server) newAnswer(x *httpserver.Exchange) *postAnswer {
	return &postAnswer{server: s, x: x}
}

// watchQuiet makes the answer an event stream if nothing is sent for a while.
func (a *postAnswer) watchQuiet() { a.server.quiet.Add(&a.quiet, a) }

// Expired is called when nothing has been sent for too long, see watchQuiet.
func (a *postAnswer) Expired() { a.startStream() }

// startStream turns the answer into an event stream, unless it is over, and returns
// the stream if it is one.
func (a *postAnswer) startStream() *eventStream {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stream != nil || a.over {
		return a.stream
	}
	es := &eventStream{server: a.server, primes: a.primes}
	var evicted []string
	if a.session != nil {
		evicted = a.session.makeResumable(es, a.number, a.requests())
	}
	c, _ := es.claim(false) // nobody else can know it yet
	a.stream = es
	a.served = make(chan struct{})
	a.server.quiet.Remove(&a.quiet)
	// Ends with the stream or the connection; finish waits for it.
	go func() {
		defer close(a.served)
		defer es.leave(c)
		out, err := a.x.Events()
		if len(evicted) > 0 {
			a.session.dropStreams(evicted)
		}
		es.prime()
		if err == nil {
			a.complete = es.serve(c, out, nil, a.x.R.Context().Done(), nil)
		}
	}()
	return es
}

// requests returns those that it answers.
func (a *postAnswer) requests() []*dragoman.Message {
	if a.batch != nil {
		return a.batch
	}
	return a.one[:]
}

// tell sends a notification before the response.
func (a *postAnswer) tell(note *dragoman.Message) error {
	es := a.startStream()
	if es == nil {
		return dragoman.ErrClosed
	}
	return es.tell(note)
}

// ask sends a question before the response.
func (a *postAnswer) ask(ctx context.Context, req *dragoman.Message) error {
	es := a.startStream()
	if es == nil {
		return dragoman.ErrClosed
	}
	return es.ask(ctx, req)
}

// finish sends the responses, which may be none, and returns when they have
// been written or cannot be. If the answer is no stream so far, it is status and
// body, which has all responses. It reports whether all has been
// written, so far as a stream can know.
func (a *postAnswer) finish(responses []*dragoman.Message, status int, body []byte) (written bool) {
	if len(responses) == 0 {
		a.startStream()
	}
	a.mu.Lock()
	a.over = true
	es := a.stream
	a.mu.Unlock()
	if es == nil {
		a.server.quiet.Remove(&a.quiet)
		a.x.JSON(status, body)
		written = true
	} else {
		es.end(responses)
		<-a.served
		written = a.complete
	}
	a.x = nil // a context that somebody keeps must not keep the exchange in memory
	return written
}

// respond is finish for one response.
func (a *postAnswer) respond(resp *dragoman.Message, status int) (written bool) {
	if status == http.StatusForbidden {
		a.challenge(resp)
	}
	return a.finish([]*dragoman.Message{resp}, status, resp.Bytes())
}

// challenge sets the header that says which token a request needs, unless the headers
// have been sent.
func (a *postAnswer) challenge(resp *dragoman.Message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stream == nil {
		a.x.Challenge(resp.RPCError())
	}
}

// removeHeader removes a header, unless the headers have been sent.
func (a *postAnswer) removeHeader(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stream == nil {
		a.x.W.Header().Del(name)
	}
}

// cut ends the connection but not the stream, if the client's revision has that.
func (a *postAnswer) cut(retry time.Duration) {
	if !a.primes {
		return
	}
	if es := a.startStream(); es != nil {
		es.disconnect(retry)
	}
}
