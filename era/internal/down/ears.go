package down

import (
	"context"
	"sync"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/adapt"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// An ear is a client as seen from inside its request. It hears nothing once the
// request has its answer.
type ear struct {
	from dragoman.Peer // may be nil

	mu   sync.Mutex
	over bool           // guarded by mu
	busy sync.WaitGroup // who is telling it something; none is added once over is set
}

func (e *ear) tell(ctx context.Context, note *dragoman.Message) error {
	e.mu.Lock()
	if e.over || e.from == nil || note == nil {
		e.mu.Unlock()
		return nil
	}
	e.busy.Add(1)
	e.mu.Unlock()
	defer e.busy.Done()
	return e.from.Notify(ctx, note)
}

// hush makes it hear nothing more, and waits for what it is being told.
func (e *ear) hush() {
	e.mu.Lock()
	e.over = true
	e.mu.Unlock()
	e.busy.Wait()
}

// inside is the caller as a server sees it that is not to ask it anything.
type inside struct {
	session *session
	route   adapt.Route
	level   int // of log messages that are wanted, or -1
	ear     ear
}

// Call takes a question.
func (in *inside) Call(ctx context.Context, q *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	return aside{in.session}.Call(ctx, q, nil)
}

// Notify takes what belongs to the request.
func (in *inside) Notify(ctx context.Context, note *dragoman.Message) error {
	switch note.Method() {
	case protocol.NoteMessage:
		in.log(ctx, note)
		return nil
	case protocol.NoteProgress:
	default:
		if in.session.took(note) {
			return nil
		}
	}
	return in.ear.tell(ctx, in.route.Note(note))
}

// log implements logger.
func (in *inside) log(ctx context.Context, note *dragoman.Message) {
	if loud(note, in.level) {
		_ = in.ear.tell(ctx, in.route.Note(note)) // who cannot be told still gets the answer
	}
}

// aside is the caller of a request that wants nothing on the way.
type aside struct{ *session }

// Call takes a question. Where the conversation says that it belongs to this
// request, there is nobody to ask.
func (a aside) Call(ctx context.Context, q *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if a.isReady() && !a.correlates {
		return a.session.Call(ctx, q, from)
	}
	return unasked(q), nil
}

// Notify takes what belongs to the request, or is said to.
func (a aside) Notify(ctx context.Context, note *dragoman.Message) error {
	if a.isReady() && a.correlates && note.Method() == protocol.NoteMessage {
		return nil // of this request, which does not want it
	}
	return a.session.Notify(ctx, note)
}

// Call implements dragoman.Peer: it takes a question that is not said to belong to
// a call. If there is but one call that the server may ask in, it is that one's.
func (v *session) Call(ctx context.Context, q *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	if c := v.asker(); c != nil {
		return c.Call(ctx, q, nil)
	}
	return unasked(q), nil
}

// Notify implements dragoman.Peer: it takes what is not said to belong to a call.
func (v *session) Notify(ctx context.Context, note *dragoman.Message) error {
	if note.Method() == protocol.NoteMessage {
		// A conversation that does not correlate has given a log message to the
		// only call under way, if there was one. What is left may be of a call
		// that is over, and must not reach the next one's client.
		if l := v.logger(); l != nil && v.isReady() && v.correlates {
			l.log(ctx, note)
		}
		return nil
	}
	v.took(note)
	return nil
}

// took takes a notification that never belongs to a call, and tells whether it
// is one.
func (v *session) took(note *dragoman.Message) bool {
	switch note.Method() {
	case protocol.NoteToolsChanged:
		v.tools.forget()
		v.changed(note)
	case protocol.NotePromptsChanged, protocol.NoteResourcesChanged, protocol.NoteResourceUpdated:
		v.changed(note)
	case protocol.NoteElicitationComplete, protocol.NoteTaskStatus:
		// The modern era has neither.
	default:
		return false
	}
	return true
}

// unasked answers a question for which there is nobody to ask.
func unasked(q *dragoman.Message) *dragoman.Message {
	var result string
	switch q.Method() {
	case protocol.MethodPing:
		result = `{}`
	case protocol.MethodListRoots:
		result = `{"roots":[]}`
	default:
		return q.Fail(invalid("%s belongs to no call of the client under way, so there is nobody to ask", q.Method()))
	}
	resp, err := q.Reply([]byte(result))
	if err != nil {
		return q.Fail(failure(protocol.CodeInternal, nil, "%v", err))
	}
	return resp
}

// asker returns the only call that the server may ask in, or nil.
func (v *session) asker() *call {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.calls) == 1 {
		for c := range v.calls {
			return c
		}
	}
	return nil
}

// setAsking notes whether the server may ask in a call.
func (v *session) setAsking(c *call, may bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if may {
		v.calls[c] = struct{}{}
	} else {
		delete(v.calls, c)
	}
}
