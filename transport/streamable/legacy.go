package streamable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/wire/sse"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// checkVersion checks the version header of a request in a session.
func (s *Server) checkVersion(r *http.Request) error {
	name, present, err := httpserver.Single(r, protocol.HeaderVersion)
	switch {
	case err != nil:
		return refuse(http.StatusBadRequest, protocol.CodeServer, err.Error())
	case !present || name == "":
		return nil
	case protocol.EraOf(name) == protocol.Modern && r.Method != http.MethodPost:
		return &httpserver.Refusal{Status: http.StatusMethodNotAllowed, Code: protocol.CodeServer, Allow: "POST", Message: "this revision has POST alone"}
	case protocol.ParseRevision(name) == protocol.Unknown:
		return refuse(http.StatusBadRequest, protocol.CodeServer, fmt.Sprintf("Bad Request: unsupported protocol version %q in %s", name, protocol.HeaderVersion))
	}
	return nil
}

// legacy takes a message of the legacy era.
func (s *Server) legacy(x *httpserver.Exchange, m *dragoman.Message) error {
	if m.Kind() == dragoman.Request && m.Method() == protocol.MethodInitialize {
		return s.initialize(x, m)
	}
	ss, err := s.session(x)
	if err != nil {
		return refusedSession(m, err)
	}
	defer ss.leave()
	switch m.Kind() {
	case dragoman.Request:
		return ss.request(x, m)
	case dragoman.Notification:
		if jsonrpc.LacksID(m) {
			return s.refuseNoID(x, ss.peer, m)
		}
		if err := refusedNote(ss.notify(m)); err != nil {
			return err
		}
	default:
		_ = ss.questions.Answer(m) // a response to no request is ignored
	}
	x.Accepted()
	return nil
}

// session returns the session of a request, after enter. The caller must call leave.
func (s *Server) session(x *httpserver.Exchange) (*session, error) {
	if err := s.checkVersion(x.R); err != nil {
		return nil, err
	}
	ss, err := s.find(x)
	if err != nil && s.records != nil {
		ss, err = s.adopt(x)
	}
	if err != nil {
		return nil, err
	}
	if !ss.enter() {
		ss.leave()
		return nil, sessionGone()
	}
	return ss, nil
}

// initialize opens a session. A session id in the request is ignored: it is of one that
// the client has given up. If the client is gone before it has the answer, the
// session ends: nobody else can know its id.
func (s *Server) initialize(x *httpserver.Exchange, m *dragoman.Message) error {
	if !s.opts.legacy {
		return s.unsupported(m, protocol.VersionOf(m))
	}
	clientLeft := x.R.Context()
	ss, opened := s.newSession(httpserver.NewID(), x.Caller.Identity()), false
	defer func() {
		if !opened {
			ss.end(dragoman.ErrClosed)
		}
	}()
	if err := s.reserve(ss); err != nil {
		return refusedSession(m, err)
	}
	a := s.newAnswer(x)
	peer, err := s.Sessions.Accept(ss.openingContext(x.Context()), ss)
	if err != nil {
		resp := protocol.Failure(m, err)
		a.respond(resp, initializeStatus(resp))
		return nil
	}
	ss.peer = peer
	ss.enter()
	defer ss.leave()
	x.W.Header().Set(protocol.HeaderSession, ss.id)
	a.client = requestClient{ss, a}
	a.watchQuiet()
	ctx, cancel := context.WithCancelCause(ss.ctx)
	defer cancel(nil)
	defer context.AfterFunc(clientLeft, func() { cancel(dragoman.ErrCancelled) })()
	resp, admitted := ss.call(ctx, m, a), false
	if resp != nil && !resp.IsError() && clientLeft.Err() == nil {
		ss.rev = protocol.ParseRevision(protocol.VersionOf(resp))
		ss.background.setRevision(ss.rev)
		ss.record(m, resp) // first: Shutdown, which ends what is admitted, leaves the record
		admitted = s.admit(ss)
	}
	if !admitted {
		ss.end(dragoman.ErrClosed)
		a.removeHeader(protocol.HeaderSession)
		if resp == nil || !resp.IsError() {
			resp = m.Fail(protocol.Draining())
		}
		a.respond(resp, initializeStatus(resp))
		return nil
	}
	opened = a.respond(resp, initializeStatus(resp)) && flushed(x.W)
	return nil
}

// flushed reports whether what was written has gone out, so far as that can be
// known.
func flushed(w http.ResponseWriter) bool {
	err := http.NewResponseController(w).Flush()
	return err == nil || errors.Is(err, http.ErrNotSupported)
}

// request serves one request.
func (ss *session) request(x *httpserver.Exchange, m *dragoman.Message) error {
	a := ss.newAnswer(x)
	a.ctx.parent, a.ctx.cancelledWithParent = ss.ctx, true
	defer a.ctx.close()
	if e := ss.addRequest(m, &a.ctx); e != nil {
		return refuseRequest(m, e)
	}
	a.one[0] = m
	a.watchQuiet()
	resp := ss.call(&a.ctx, m, a)
	ss.removeRequest(m)
	if resp == nil {
		a.finish(nil, 0, nil)
	} else {
		a.respond(resp, legacyStatus(resp))
	}
	return nil
}

// call asks the peer. It returns nil if the client has cancelled the request.
func (ss *session) call(ctx context.Context, m *dragoman.Message, a *postAnswer) *dragoman.Message {
	resp := jsonrpc.Serve(ctx, ss.peer, m, &a.client, ss.server.opts.logger)
	ss.recorder.Load().Learn(m, resp)
	return resp
}

// A requestClient is the client as seen from inside one of its requests.
type requestClient struct {
	session *session
	answer  *postAnswer
}

// Call asks the client on the stream of its request.
func (c *requestClient) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	return c.session.sendRequest(ctx, req, from, c.answer)
}

// Notify tells the client on the stream of its request.
func (c *requestClient) Notify(_ context.Context, note *dragoman.Message) error {
	return c.answer.tell(note)
}

// CutStream ends the connection but not the stream: the client is to come back
// for the rest.
func (c *requestClient) CutStream(retry time.Duration) { c.answer.cut(retry) }

// batch takes a body that is not one message, which is what bad says: an array of
// messages, in the one revision that has them, or nothing that can be read.
func (s *Server) batch(x *httpserver.Exchange, body []byte, bad error) error {
	parts, err := dragoman.Elements(body)
	if err != nil || !s.opts.legacy {
		return httpserver.Unreadable(bad)
	}
	if protocol.EraOf(x.R.Header.Get(protocol.HeaderVersion)) == protocol.Modern {
		return refuse(http.StatusBadRequest, protocol.CodeInvalidRequest, "Invalid request: this revision has no batches")
	}
	ss, err := s.session(x)
	if err != nil {
		return err
	}
	defer ss.leave()
	if !ss.rev.HasBatch() || len(parts) == 0 {
		return refuse(http.StatusBadRequest, protocol.CodeInvalidRequest, "Invalid request: a batch must not be empty, and the negotiated revision must have batches")
	}
	messages := make([]*dragoman.Message, len(parts))
	for i, part := range parts {
		if messages[i], err = s.opts.limits.Parse(part); err != nil {
			return refuse(http.StatusBadRequest, protocol.CodeInvalidRequest, fmt.Sprintf("message %d of the batch: %s", i, httpserver.Unreadable(err).Message))
		}
		if messages[i].Method() == protocol.MethodInitialize || protocol.IsModern(messages[i]) {
			return refuse(http.StatusBadRequest, protocol.CodeInvalidRequest, fmt.Sprintf("Invalid request: message %d must not be part of a batch", i))
		}
		if jsonrpc.LacksID(messages[i]) {
			return s.refuseNoID(x, ss.peer, messages[i])
		}
	}
	return ss.serveBatch(x, messages)
}

// serveBatch serves the messages of a batch, its requests at the same time.
func (ss *session) serveBatch(x *httpserver.Exchange, messages []*dragoman.Message) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var responses []*dragoman.Message
	var a *postAnswer
	add := func(resp *dragoman.Message) {
		mu.Lock()
		defer mu.Unlock()
		if resp != nil {
			responses = append(responses, resp)
		}
	}
	for _, m := range messages {
		switch m.Kind() {
		case dragoman.Response:
			_ = ss.questions.Answer(m) // a response to no request is ignored
		case dragoman.Notification:
			_ = ss.notify(m) // the rest of the batch has its answers all the same
		default:
			if a == nil {
				a = ss.newAnswer(x)
				a.batch = messages
				a.watchQuiet()
			}
			ctx := &callContext{parent: ss.ctx, cancelledWithParent: true}
			if e := ss.addRequest(m, ctx); e != nil {
				add(m.Fail(e))
				continue
			}
			wg.Go(func() { // ends when the peer answers
				defer ctx.close()
				resp := ss.call(ctx, m, a)
				ss.removeRequest(m)
				add(resp)
			})
		}
	}
	if a == nil {
		x.Accepted()
		return nil
	}
	wg.Wait()
	texts := make([][]byte, len(responses))
	for i, m := range responses {
		texts[i] = m.Bytes()
	}
	body := append(append([]byte("["), bytes.Join(texts, []byte(","))...), ']')
	a.finish(responses, http.StatusOK, body)
	return nil
}

// backgroundName is the name of the background stream: the one that a client opens
// by GET, for what belongs to none of its requests.
const backgroundName = "0"

// get takes a GET: of a client that opens its background stream, or resumes a stream
// that it lost.
func (s *Server) get(x *httpserver.Exchange) error {
	r := x.R
	if !httpserver.Accepts(r, sse.ContentType) {
		return refuse(http.StatusNotAcceptable, protocol.CodeServer, "Accept must list text/event-stream")
	}
	ss, err := s.session(x)
	if err != nil {
		return err
	}
	defer ss.leave()
	id, present, err := httpserver.Single(r, protocol.HeaderLastEventID)
	if err != nil {
		return refuse(http.StatusBadRequest, protocol.CodeServer, err.Error())
	}
	if !present || id == "" {
		return ss.serveBackground(x, -1)
	}
	name, n, err := parseEventID(id)
	if err != nil {
		return refuse(http.StatusBadRequest, protocol.CodeServer, err.Error())
	}
	if name == backgroundName {
		return ss.serveBackground(x, n)
	}
	es := ss.stream(name)
	if es == nil {
		if es, err = ss.reopenStream(x.Context(), name, n); err != nil {
			return err
		}
	}
	return es.connect(x.Context(), x, n, nil) // it ends with its requests, also when the session does
}

// serveBackground serves the stream of what belongs to no request. It ends with the
// session, when its caller's authentication expires, and when the server stops.
func (ss *session) serveBackground(x *httpserver.Exchange, position int64) error {
	ctx, cancel := context.WithCancel(x.Context())
	defer cancel()
	defer context.AfterFunc(ss.ctx, cancel)()
	x.OnExpired(cancel)
	return ss.background.connect(ctx, x, position, ss.server.draining.Done())
}

// delete takes a DELETE, which ends a session.
func (s *Server) delete(x *httpserver.Exchange) error {
	r := x.R
	if err := s.checkVersion(r); err != nil {
		return err
	}
	ss, err := s.find(x)
	switch {
	case err != nil && s.records != nil:
		if err := s.deleteRecorded(x); err != nil {
			return err
		}
	case err != nil:
		return err
	case !ss.end(nil):
		return sessionGone()
	}
	x.NoContent()
	return nil
}
