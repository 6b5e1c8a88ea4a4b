package sse

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/internal/mux"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// maxRest is how much of the body of a response is read and dropped, so that its
// connection can be used again.
const maxRest = 64 << 10

// noStream reports whether a status means that there is no event stream, rather than
// that there is one for others.
func noStream(status int) bool {
	switch status {
	case http.StatusOK, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable:
		return true
	}
	return false
}

// outcome takes what the server says to a message that was posted.
func (l *clientStream) outcome(resp *http.Response, m *dragoman.Message) {
	defer resp.Body.Close()
	if resp.StatusCode/100 == 2 {
		if l.sync && m != nil && m.Kind() == dragoman.Request {
			l.answer(resp, m)
			return
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxRest))
		return
	}
	e := httpx.ReadStatus(resp)
	switch {
	case !l.sync && (e.Status == http.StatusNotFound || e.Status == http.StatusGone):
		gone := fmt.Errorf("sse: the session is gone: %w", e)
		if m != nil && m.Kind() == dragoman.Request {
			l.fail(m, dragoman.Closed(gone)) // it was refused; the outcome of others is unknown
		}
		l.end(httpx.LostOnTheWay(gone))
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden, e.Unwrap() != nil && !hasOwnError(e):
		l.fail(m, e)
	default:
		l.refused(m, e)
	}
}

// hasOwnError reports whether the body says what became of the request, as ours do: that
// says more than the status.
func hasOwnError(e *protocol.StatusError) bool {
	answer := e.Response(dragoman.Limits{})
	return answer != nil && protocol.IsOwn(answer.RPCError())
}

// refused makes a JSON-RPC error in the body of a refusal the answer.
func (l *clientStream) refused(m *dragoman.Message, e *protocol.StatusError) {
	answer := e.Response(dragoman.Limits{})
	if answer == nil || m == nil || m.Kind() != dragoman.Request {
		l.fail(m, e)
		return
	}
	l.deliver(incoming{data: answer.WithID(m.ID()).Bytes()})
}

// errNoAnswer says that a server took a request but did not answer it.
var errNoAnswer = errors.New("sse: no response received for request")

// answer takes the answer in the body of a response.
func (l *clientStream) answer(resp *http.Response, m *dragoman.Message) {
	limit := l.limits.Message()
	body, err := httpx.ReadAll(resp, limit)
	if errors.Is(err, dragoman.ErrTooLarge) {
		l.fail(m, fmt.Errorf("%w: an answer of more than %d bytes", err, limit))
		return
	}
	if err != nil {
		l.fail(m, fmt.Errorf("%w: %w", errNoAnswer, err))
		return
	}
	answer, err := l.limits.Parse(body)
	switch {
	case len(body) == 0:
		l.fail(m, errNoAnswer)
	case err != nil:
		l.fail(m, fmt.Errorf("%w: %w", errNoAnswer, err))
	case answer.Kind() != dragoman.Response || answer.ID().Key() != m.ID().Key() && !answer.IsError():
		l.fail(m, fmt.Errorf("%w: the body is another message", errNoAnswer))
	default:
		l.deliver(incoming{data: answer.WithID(m.ID()).Bytes()})
	}
}

// fail ends the call that posted m, if it is a request. An answer that the server
// has refused is replaced by an error, so that the server need not wait.
func (l *clientStream) fail(m *dragoman.Message, err error) {
	if m != nil && m.Kind() == dragoman.Request {
		l.deliver(incoming{err: &mux.BadFrame{Err: err, Call: m.ID()}})
		return
	}
	if l.ctx.Err() != nil {
		return
	}
	l.log.Warn("message not taken by the server", "error", err)
	if _, refused := errors.AsType[*protocol.StatusError](err); refused && m != nil && m.Kind() == dragoman.Response && !m.IsError() {
		instead := protocol.Failure(m, err)
		p := l.newPost(instead)
		defer p.cancel()
		l.send(p)
	}
}
