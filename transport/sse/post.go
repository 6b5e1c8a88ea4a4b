package sse

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// sessionParams are the names under which clients send the session. The first
// is ours; the others are those of other implementations.
var sessionParams = [...]string{sessionParam, "sessionid", "session_id"}

// serveMessage takes one message: for a session, or to be answered at once.
func (s *Server) serveMessage(x *httpx.Exchange) error {
	id, named, err := sessionOf(x.R)
	if err != nil {
		return err
	}
	var c *session
	switch {
	case named:
		if c = s.find(id, httpx.CallerIdentity(x.R)); c == nil {
			return noSession()
		}
	case s.NoSync:
		return httpx.Refuse(http.StatusBadRequest, "the parameter %s is missing; GET the event stream and post to the endpoint that it names", sessionParam)
	}
	body, err := x.Body()
	if err != nil {
		return err
	}
	m, err := s.door.Limits.Parse(body)
	switch {
	case err != nil && (c == nil || !hasID(err)):
		return unreadable(body, err)
	case c != nil && modern(m):
		return c.refuseModern(x, m)
	case c != nil:
		return c.enqueue(x, body, m)
	}
	return s.answer(x, m)
}

func noSession() *httpx.Refusal {
	return httpx.Refuse(http.StatusNotFound, "there is no such session; GET the event stream to open one")
}

// sessionOf returns the session that the URL of a request names, and whether it
// names one at all.
func sessionOf(r *http.Request) (id string, named bool, err error) {
	if r.URL.RawQuery == "" {
		return "", false, nil
	}
	query := r.URL.Query()
	var all []string
	for _, name := range sessionParams {
		all = append(all, query[name]...)
	}
	switch all = slices.Compact(all); {
	case len(all) == 0:
		return "", false, nil
	case len(all) > 1 || all[0] == "":
		return "", true, httpx.Refuse(http.StatusBadRequest, "the parameter %s must be there once and not be empty", sessionParam)
	}
	return all[0], true, nil
}

// hasID reports whether a body that is not a message has an id all the same. A
// session says on its stream what is wrong with it, or ends the question that it was
// to answer: many clients take a status for the end of the whole session.
func hasID(err error) bool {
	p, ok := errors.AsType[*dragoman.ParseError](err)
	return ok && !p.ID.IsZero() && !p.ID.IsNull()
}

// unreadable refuses a body that is not a message, with its id where it has one.
func unreadable(body []byte, err error) error {
	if text := bytes.TrimLeft(body, " \t\r\n"); len(text) > 0 && text[0] == '[' {
		return httpx.Refuse(http.StatusBadRequest, "this transport has no batches; post each message by itself")
	}
	return httpx.Unreadable(err)
}

// unsupported is the answer to a request of the modern era, none of whose revisions
// is defined on this transport. The revisions that it names make clients that
// negotiate fall back to initialize.
func unsupported(req *dragoman.Message) *dragoman.Message {
	e := &dragoman.Error{
		Code:    protocol.CodeUnsupported,
		Message: "requests of this revision are not served on HTTP+SSE; begin with initialize, or use Streamable HTTP",
	}
	var names []string
	for _, rev := range protocol.Revisions() {
		if rev.HasSessions() {
			names = append(names, rev.String())
		}
	}
	e.Data, _ = json.Marshal(struct { // strings always encode
		Supported []string `json:"supported"`
		Requested string   `json:"requested"`
	}{names, req.MetaText(protocol.MetaProtocolVersion)})
	return req.Fail(e)
}

// modern reports whether a request or notification, or nil, is of the modern era. The
// body says so; there are no headers for it on this transport.
func modern(m *dragoman.Message) bool {
	return m != nil && m.Kind() != dragoman.Response && protocol.IsModern(m)
}

// refuseModern accepts what is of the modern era, and answers a request on the stream.
// The peer is not asked, so that a client that only probes starts no server.
func (c *session) refuseModern(x *httpx.Exchange, m *dragoman.Message) error {
	if m.Kind() == dragoman.Request && c.conn.Notify(x.R.Context(), unsupported(m)) != nil {
		return noSession()
	}
	x.Accepted()
	return nil
}

// enqueue queues a body for the session: the message m, or nil if it could not be read.
// The answer comes on the stream.
func (c *session) enqueue(x *httpx.Exchange, body []byte, m *dragoman.Message) error {
	if c.used.CompareAndSwap(false, true) {
		close(c.first)
	}
	select {
	case <-c.drained:
		return refuse(m, httpx.Unavailable(protocol.Draining()))
	case <-c.gone:
		return noSession()
	default:
	}
	t := time.NewTimer(queueWait)
	defer t.Stop()
	select {
	case c.in <- body:
		x.Accepted()
		return nil
	case <-c.gone:
		return noSession()
	case <-x.R.Context().Done():
		return nil // the client is gone
	case <-t.C:
		return refuse(m, httpx.Unavailable(protocol.Overloaded("too many messages of this session are waiting; send them more slowly")))
	}
}

// refuse completes the refusal of a message, or of nil, by its id.
func refuse(m *dragoman.Message, refusal *httpx.Refusal) error {
	if m != nil && m.Kind() == dragoman.Request {
		refusal.ID = m.ID()
	}
	return refusal
}
