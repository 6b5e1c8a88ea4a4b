package sse

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// sessionParams are the names under which clients send the session. The first
// is ours; the others are those of endpoints that somebody made up.
var sessionParams = [...]string{sessionParam, "sessionid", "session_id"}

// serveMessage takes one message: for a session, or to be answered at once.
func (s *Server) serveMessage(w http.ResponseWriter, r *http.Request) *httpx.Refusal {
	id, named, refusal := sessionOf(r)
	if refusal != nil {
		return refusal
	}
	var c *session
	switch {
	case named:
		if c = s.find(id, httpx.Owner(r)); c == nil {
			return noSession()
		}
	case s.NoSync:
		return httpx.Refuse(http.StatusBadRequest, "the parameter %s is missing; GET the event stream and post to the endpoint that it names", sessionParam)
	}
	body, err := httpx.ReadBody(w, r, s.MaxMessage, or(s.BodyTimeout, DefaultBodyTimeout))
	if err != nil {
		return refusalOf(err)
	}
	m, refusal := s.message(r, body)
	if refusal != nil {
		return refusal
	}
	if c != nil {
		return c.take(w, r, m)
	}
	return s.answer(w, r, m)
}

func noSession() *httpx.Refusal {
	return httpx.Refuse(http.StatusNotFound, "there is no such session; GET the event stream to open one")
}

// sessionOf returns the session that the URL of a request names, and whether it
// names one at all.
func sessionOf(r *http.Request) (id string, named bool, refusal *httpx.Refusal) {
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

// message reads a body. What is refused gets its id back where it has one.
func (s *Server) message(r *http.Request, body []byte) (*dragoman.Message, *httpx.Refusal) {
	m, err := s.limits().Parse(body)
	if err != nil {
		if text := bytes.TrimLeft(body, " \t\r\n"); len(text) > 0 && text[0] == '[' {
			return nil, httpx.Refuse(http.StatusBadRequest, "this transport has no batches; post each message by itself")
		}
		var p *dragoman.ParseError
		if !errors.As(err, &p) {
			return nil, httpx.Refuse(http.StatusRequestEntityTooLarge, "%v", err)
		}
		answer := p.Response()
		return nil, &httpx.Refusal{Status: http.StatusBadRequest, Code: p.Code, ID: answer.ID(), Message: answer.RPCError().Message}
	}
	header := r.Header.Get(protocol.HeaderVersion)
	if m.Kind() != dragoman.Response && protocol.IsModern(m) || protocol.EraOf(header) == protocol.Modern {
		return nil, refuse(m, httpx.Refuse(http.StatusBadRequest, "requests of this revision are not served on HTTP+SSE; use Streamable HTTP"))
	}
	return m, nil
}

// take queues a message for the session. The answer comes on its stream.
func (c *session) take(w http.ResponseWriter, r *http.Request, m *dragoman.Message) *httpx.Refusal {
	if c.spoken.CompareAndSwap(false, true) {
		close(c.first)
	}
	select {
	case <-c.drained:
		return refuse(m, draining())
	case <-c.gone:
		return noSession()
	default:
	}
	select {
	case c.in <- m.Bytes():
		w.WriteHeader(http.StatusAccepted)
		return nil
	default:
	}
	t := time.NewTimer(queueWait)
	defer t.Stop()
	select {
	case c.in <- m.Bytes():
		w.WriteHeader(http.StatusAccepted)
		return nil
	case <-c.gone:
		return noSession()
	case <-r.Context().Done():
		return nil // nobody is there to be told
	case <-t.C:
		return refuse(m, httpx.Unavailable(protocol.Overloaded("too many messages of this session are waiting; send them more slowly")))
	}
}

// refuse completes the refusal of a message by its id.
func refuse(m *dragoman.Message, refusal *httpx.Refusal) *httpx.Refusal {
	if m.Kind() == dragoman.Request {
		refusal.ID = m.ID()
	}
	return refusal
}
