package sse

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/internal/mux"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// maxText is how much of the body of a refusal is read.
const maxText = 64 << 10

// A StatusError is an HTTP status by which a server says no. It is
// [dragoman.ErrTooLarge] or [dragoman.ErrOverloaded] where the status means
// that.
type StatusError struct {
	Status int    // 404, say
	Text   string // the beginning of the body, if it is text

	// Challenge and AuthServer are the headers WWW-Authenticate and
	// Mcp-Auth-Server, which say how to be let in.
	Challenge, AuthServer string

	// RetryAfter is how long the server asks to wait. Zero means that it does
	// not.
	RetryAfter time.Duration

	body []byte
}

// Error implements error.
func (e *StatusError) Error() string {
	s := fmt.Sprintf("sse: the server answers with status %d %s", e.Status, http.StatusText(e.Status))
	if e.Status == http.StatusOK {
		s = "sse: the server answers, but not with an event stream"
	}
	if e.Text != "" {
		s += ": " + e.Text
	}
	return s
}

// Outcome implements protocol.Fault.
func (e *StatusError) Outcome() string { return httpx.OutcomeOf(e.Status) }

// Unwrap returns what the status means to a caller, or nil.
func (e *StatusError) Unwrap() error {
	switch e.Status {
	case http.StatusRequestEntityTooLarge:
		return dragoman.ErrTooLarge
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return dragoman.ErrOverloaded
	}
	return nil
}

// noStream tells whether the status means that there is no event stream, rather
// than that there is one for others.
func (e *StatusError) noStream() bool {
	switch e.Status {
	case http.StatusOK, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable:
		return true
	}
	return false
}

// statusError reads a response that is no success.
func statusError(resp *http.Response) *StatusError {
	e := &StatusError{
		Status:     resp.StatusCode,
		Challenge:  resp.Header.Get("WWW-Authenticate"),
		AuthServer: resp.Header.Get(protocol.HeaderAuthServer),
		RetryAfter: httpx.RetryAfter(resp.Header),
	}
	e.body, _ = io.ReadAll(io.LimitReader(resp.Body, maxText))
	if m, err := dragoman.Parse(e.body); err == nil && m.IsError() {
		e.Text = m.RPCError().Message
	} else if kind := resp.Header.Get("Content-Type"); strings.HasPrefix(kind, "text/plain") || strings.HasPrefix(kind, "application/json") {
		e.Text = strings.TrimSpace(strings.ToValidUTF8(string(e.body[:min(len(e.body), 256)]), ""))
	}
	return e
}

// outcome takes what the server says to a message that was posted.
func (l *link) outcome(resp *http.Response, m *dragoman.Message) {
	defer resp.Body.Close()
	if resp.StatusCode/100 == 2 {
		if l.sync && m != nil && m.Kind() == dragoman.Request {
			l.answer(resp, m)
			return
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxText)) // so that the connection can be used again
		return
	}
	e := statusError(resp)
	switch {
	case !l.sync && (e.Status == http.StatusNotFound || e.Status == http.StatusGone):
		l.end(fmt.Errorf("sse: the session is gone: %w", e))
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden, e.Unwrap() != nil && !e.exact():
		l.fail(m, e)
	default:
		l.refused(m, e)
	}
}

// exact tells whether the body says what became of the request, as ours do: that says
// more than the status.
func (e *StatusError) exact() bool {
	answer, err := dragoman.Parse(e.body)
	return err == nil && answer.IsError() && protocol.IsOwn(answer.RPCError())
}

// refused makes a JSON-RPC error in the body of a refusal the answer.
func (l *link) refused(m *dragoman.Message, e *StatusError) {
	answer, err := dragoman.Parse(e.body)
	if err != nil || !answer.IsError() || m == nil || m.Kind() != dragoman.Request {
		l.fail(m, e)
		return
	}
	l.deliver(arrival{data: answer.WithID(m.ID()).Bytes()})
}

// errNoAnswer says that a server took a request but did not answer it.
var errNoAnswer = errors.New("sse: no response received for request")

// answer takes the answer in the body of a response.
func (l *link) answer(resp *http.Response, m *dragoman.Message) {
	limit := l.limits.Message()
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(limit)+1))
	if err != nil {
		l.fail(m, fmt.Errorf("%w: %w", errNoAnswer, bare(err)))
		return
	}
	if len(body) > limit {
		l.fail(m, fmt.Errorf("%w: an answer of more than %d bytes", dragoman.ErrTooLarge, limit))
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
		l.deliver(arrival{data: answer.WithID(m.ID()).Bytes()})
	}
}

// fail ends the call that posted m, if it is a request. An answer that the server
// has refused is replaced by an error, so that it does not wait in vain.
func (l *link) fail(m *dragoman.Message, err error) {
	if m != nil && m.Kind() == dragoman.Request {
		l.deliver(arrival{err: &mux.BadFrame{Err: err, Call: m.ID()}})
		return
	}
	if l.ctx.Err() != nil {
		return
	}
	l.log.Warn("message not taken by the server", "error", err)
	if _, refused := errors.AsType[*StatusError](err); refused && m != nil && m.Kind() == dragoman.Response && !m.IsError() {
		instead := protocol.Failure(m, err)
		p := l.newPost(instead)
		defer p.cancel()
		l.send(p)
	}
}

// bare returns an error of net/http without the URL, which holds the session.
func bare(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
