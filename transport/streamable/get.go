package streamable

import (
	"context"
	"net/http"

	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// backgroundName is the name of the stream that a client opens by GET: of what
// belongs to none of its requests.
const backgroundName = "0"

// get takes a GET: a client that wants to hear, or one that lost a stream.
func (s *Server) get(x *httpx.Exchange) error {
	r := x.R
	if !httpx.Accepts(r, sseContentType) {
		return refuse(http.StatusNotAcceptable, protocol.CodeServer, "Accept must list text/event-stream")
	}
	v, err := s.session(x)
	if err != nil {
		return err
	}
	defer v.leave()
	id, present, err := httpx.Single(r, protocol.HeaderLastEventID)
	if err != nil {
		return refuse(http.StatusBadRequest, protocol.CodeServer, err.Error())
	}
	if !present || id == "" {
		return v.serveBackground(x, -1)
	}
	name, n, err := parseEventID(id)
	if err != nil {
		return refuse(http.StatusBadRequest, protocol.CodeServer, err.Error())
	}
	if name == backgroundName {
		return v.serveBackground(x, n)
	}
	f := v.stream(name)
	if f == nil {
		if f, err = v.reopenStream(x.Context(), name, n); err != nil {
			return err
		}
	}
	return f.connect(x.Context(), x, n, nil) // it ends with its requests, also when the session does
}

// serveBackground serves the stream of what belongs to no request, which has no end:
// it ends with the session, and when the server stops.
func (v *session) serveBackground(x *httpx.Exchange, position int64) error {
	ctx, cancel := context.WithCancel(x.Context())
	defer cancel()
	defer context.AfterFunc(v.ctx, cancel)()
	return v.background.connect(ctx, x, position, v.server.drain.Done())
}

// delete takes a DELETE, which ends a session.
func (s *Server) delete(x *httpx.Exchange) error {
	r := x.R
	if err := s.checkVersion(r); err != nil {
		return err
	}
	v, err := s.find(x)
	switch {
	case err != nil && s.records != nil:
		if err := s.deleteRecorded(x); err != nil {
			return err
		}
	case err != nil:
		return err
	case !v.end(nil):
		return sessionGone()
	default:
		s.predecessors(v.id, v.owner, func(o *session) bool { o.end(nil); return false })
	}
	x.NoContent()
	return nil
}

func sessionGone() error {
	return refuse(http.StatusNotFound, codeSessionGone, "Session not found; send initialize to begin another")
}
