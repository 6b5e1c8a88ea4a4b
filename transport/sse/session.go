package sse

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/wire/sse"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	eventEndpoint = "endpoint"
	eventMessage  = "message"

	// sessionParam is the parameter of the endpoint that names the session.
	sessionParam = "sessionId"

	// maxWaiting is how many messages may wait for their session to read them,
	// queueWait how long one more waits for its turn.
	maxWaiting = 16
	queueWait  = 5 * time.Second

	// largeMessage is from which size on only one message of a session waits.
	largeMessage = 256 << 10

	// maxDrain bounds how long requests may take after Shutdown, whose context
	// is what counts.
	maxDrain = 24 * time.Hour

	// endWait is how long the end of a stream may take to be written.
	endWait = time.Second

	// maxIdleBuffer is how much memory a session keeps for its next event.
	maxIdleBuffer = 64 << 10
)

// errClientGone is why a session ends that the client has ended.
var errClientGone = errors.New("sse: the client has closed the event stream")

// A session is one client's event stream and the messages that are posted to
// it. It is the stream of its conversation.
type session struct {
	server *Server
	id     string
	caller string // who may use it
	key    string // whose it is
	below  bool   // the URL of the stream ends with a slash
	conn   *jsonrpc.Conn

	in      chan []byte   // posted messages
	large   chan struct{} // has an element while in has a large message
	used    atomic.Bool   // one has been posted
	first   chan struct{} // closed when it is
	drained chan struct{} // closed by shutdown when requests in flight have been answered
	ready   chan struct{} // closed when the endpoint has been sent
	gone    chan struct{} // closed when the stream has ended
	ender   sync.Once
	reason  error // set before gone is closed

	mu    sync.Mutex  // held while something is written
	out   *sse.Writer // set before ready is closed
	buf   []byte
	frame []byte
	wrote bool // since the last tick
}

// serveStream opens a session, which lasts as long as the request.
func (s *Server) serveStream(x *httpserver.Exchange) error {
	if len(x.R.Header.Values("Accept")) > 0 && !httpserver.Accepts(x.R, sse.ContentType) {
		return httpserver.Refuse(http.StatusNotAcceptable, "the answer is %s, which Accept does not admit", sse.ContentType)
	}
	ss, err := s.open(x)
	if err != nil {
		return err
	}
	defer s.forget(ss)
	x.OnShutdown(ss.shutdown)
	if out, err := x.Events(); err == nil {
		ss.run(x.Context(), out)
	}
	_ = ss.conn.Close()
	// For the end of the response: the deadline of the last event may be over.
	_ = http.NewResponseController(x.W).SetWriteDeadline(time.Now().Add(endWait))
	s.base.Log.Debug("session ended", "reason", ss.conn.Err())
	return nil
}

// open makes a session.
func (s *Server) open(x *httpserver.Exchange) (*session, error) {
	ss := &session{
		server: s, id: httpserver.NewID(), below: endsWithSlash(x.R), caller: x.Caller.Identity(), key: x.Caller.Key(),
		in: make(chan []byte, maxWaiting), large: make(chan struct{}, 1), first: make(chan struct{}), drained: make(chan struct{}),
		ready: make(chan struct{}), gone: make(chan struct{}),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.admit(); err != nil {
		return nil, err
	}
	ss.conn = jsonrpc.New(ss, &jsonrpc.Options{Limits: s.base.Limits, Server: true, Linger: maxDrain, Logger: s.Logger})
	s.sessions[ss.id] = ss
	return ss, nil
}

func (s *Server) forget(ss *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, ss.id)
}

// find returns the session of that id if it is the caller's, or nil.
func (s *Server) find(id, caller string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ss := s.sessions[id]; ss != nil && ss.caller == caller {
		return ss
	}
	return nil
}

// endsWithSlash reports whether the URL that a client has used ends with a slash, so that what is beside
// the stream for others is a level higher for it. Whoever led the request here may have changed its URL.
func endsWithSlash(r *http.Request) bool {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	if path == "" {
		path = r.URL.Path
	}
	return strings.HasSuffix(path, "/")
}

// endpoint is where the client posts its messages, relative to the stream's URL.
func (ss *session) endpoint() string {
	path := ss.server.MessagesPath
	if path == "" {
		path = DefaultMessagesPath
		if ss.below {
			path = "../" + path
		}
	}
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	return path + separator + sessionParam + "=" + url.QueryEscape(ss.id)
}

// run keeps the stream open until the client leaves or the conversation ends.
func (ss *session) run(ctx context.Context, out *sse.Writer) {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // before the wait: it ends Accept
	ss.out = out
	if err := out.Event(&sse.Event{Name: eventEndpoint, Data: []byte(ss.endpoint())}); err != nil {
		ss.end(errClientGone)
	}
	close(ss.ready)
	tick := time.NewTicker(httpframe.Duration(ss.server.KeepAlive, sse.KeepAlive))
	defer tick.Stop()
	for first := ss.first; ; {
		select {
		case <-first:
			first = nil
			// Ends when the client is accepted, or ctx ends.
			running.Go(func() { ss.accept(ctx) })
		case <-tick.C:
			ss.keepAlive()
		case <-ctx.Done():
			ss.clientLeft()
		case <-ss.gone:
			ss.waitConn()
			return
		}
	}
}

// clientLeft ends the stream because the request has ended. If that is because a write
// failed, Write has the reason.
func (ss *session) clientLeft() {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.end(errClientGone)
}

// waitConn gives the conversation time to end with the same reason as the stream.
func (ss *session) waitConn() {
	if !ss.used.Load() {
		return
	}
	t := time.NewTimer(100 * time.Millisecond)
	defer t.Stop()
	select {
	case <-ss.conn.Done():
	case <-t.C:
	}
}

// accept finds the peer that answers the client. If there is none, each request is
// answered with the reason.
func (ss *session) accept(ctx context.Context) {
	peer, err := ss.server.Acceptor.Accept(ctx, ss.conn)
	if err != nil {
		ss.server.base.Log.Warn("client not accepted", "error", err)
		peer = dragoman.Funcs{OnCall: func(context.Context, *dragoman.Message, dragoman.Peer) (*dragoman.Message, error) {
			return nil, err
		}}
	}
	ss.conn.Start(peer)
}

// keepAlive writes a comment if nothing else has been written of late.
func (ss *session) keepAlive() {
	if !ss.mu.TryLock() {
		return // a write is in progress
	}
	defer ss.mu.Unlock()
	if ss.wrote {
		ss.wrote = false
		return
	}
	if err := ss.out.Comment("keep-alive"); err != nil {
		ss.end(writeError(err))
	}
}

// shutdown makes the conversation end when what is in flight is answered, and by ctx at
// the latest. Until then new requests are refused; cancels and answers to our questions
// count.
func (ss *session) shutdown(ctx context.Context) {
	if !ss.used.Load() {
		ss.end(errServerClosed)
		return
	}
	err := ss.conn.Finish(ctx)
	close(ss.drained)
	if err == nil {
		select {
		case <-ss.gone: // what was posted has been read
		case <-ctx.Done():
		}
	}
	ss.end(errServerClosed)
}

// end makes the stream end, for the first reason given.
func (ss *session) end(reason error) {
	ss.ender.Do(func() {
		ss.reason = reason
		close(ss.gone)
	})
}

// Read implements mux.Stream.
func (ss *session) Read() ([]byte, error) {
	select {
	case b := <-ss.in:
		return ss.taken(b), nil
	default:
	}
	select {
	case b := <-ss.in:
		return ss.taken(b), nil
	case <-ss.gone:
		return nil, ss.reason
	case <-ss.drained:
		return nil, io.EOF
	}
}

// taken returns a body that was in the queue.
func (ss *session) taken(body []byte) []byte {
	if len(body) > largeMessage {
		<-ss.large
	}
	return body
}

// Write implements mux.Stream.
func (ss *session) Write(frames []jsonrpc.Frame) error {
	select {
	case <-ss.ready: // nothing may come before the endpoint
	case <-ss.gone:
		return ss.reason
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	select {
	case <-ss.gone:
		return ss.reason
	default:
	}
	ss.buf = ss.buf[:0]
	for _, f := range frames {
		ss.frame = f.AppendTo(ss.frame[:0])
		ss.buf = sse.Append(ss.buf, &sse.Event{Name: eventMessage, Data: ss.frame})
	}
	ss.wrote = true
	err := ss.out.Raw(ss.buf)
	if cap(ss.buf) > maxIdleBuffer {
		ss.buf, ss.frame = nil, nil
	}
	if err != nil {
		ss.end(writeError(err))
		return ss.reason
	}
	return nil
}

// Close implements mux.Stream.
func (ss *session) Close() error {
	ss.end(dragoman.ErrClosed)
	select {
	case <-ss.ready:
	default:
		return nil // nothing was written, and nothing will be
	}
	if !ss.mu.TryLock() {
		ss.out.Abort()
		ss.mu.Lock()
	}
	ss.mu.Unlock()
	return nil
}

// writeError returns why the session ends when a write has failed.
func writeError(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return dragoman.ErrSlow
	}
	return errClientGone
}

// sessionParams are the names under which clients send the session. The first
// is ours; the others are those of other implementations.
var sessionParams = [...]string{sessionParam, "sessionid", "session_id"}

// serveMessage takes one message: for a session, or to be answered at once.
func (s *Server) serveMessage(x *httpserver.Exchange) error {
	id, named, err := sessionOf(x.R)
	if err != nil {
		return err
	}
	var ss *session
	switch {
	case named:
		if ss = s.find(id, x.Caller.Identity()); ss == nil {
			return noSession()
		}
	case s.NoSync:
		return httpserver.Refuse(http.StatusBadRequest, "the parameter %s is missing; GET the event stream and post to the endpoint that it names", sessionParam)
	}
	body, err := x.Body()
	if err != nil {
		return err
	}
	m, err := s.base.Limits.Parse(body)
	switch {
	case err != nil && (ss == nil || !hasID(err)):
		return unreadable(body, err)
	case m != nil && jsonrpc.LacksID(m):
		return s.refuseNoID(x, ss, m)
	case ss != nil && modern(m):
		return ss.refuseModern(x, m)
	case ss != nil:
		return ss.enqueue(x, body, m)
	}
	return s.answer(x, m)
}

func noSession() *httpserver.Refusal {
	return httpserver.Refuse(http.StatusNotFound, "there is no such session; GET the event stream to open one")
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
		return "", true, httpserver.Refuse(http.StatusBadRequest, "the parameter %s must be there once and not be empty", sessionParam)
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
	if jsonrpc.IsBatch(body) {
		return httpserver.Refuse(http.StatusBadRequest, "this transport has no batches; post each message by itself")
	}
	return httpserver.Unreadable(err)
}

// unsupported is the answer to a request of the modern era, none of whose revisions
// is defined on this transport. The revisions that it names make clients that
// negotiate fall back to initialize.
func unsupported(req *dragoman.Message) *dragoman.Message {
	e := protocol.Unsupported(req.MetaText(protocol.MetaProtocolVersion), protocol.NamesOf(protocol.Legacy))
	e.Message = "requests of this revision are not served on HTTP+SSE; begin with initialize, or use Streamable HTTP"
	return req.Fail(e)
}

// modern reports whether a request or notification, or nil, is of the modern era. The
// body says so; there are no headers for it on this transport.
func modern(m *dragoman.Message) bool {
	return m != nil && m.Kind() != dragoman.Response && protocol.IsModern(m)
}

// refuseModern accepts what is of the modern era, and answers a request on the stream.
// The peer is not asked, so that a client that only probes starts no server.
func (ss *session) refuseModern(x *httpserver.Exchange, m *dragoman.Message) error {
	if m.Kind() == dragoman.Request && ss.conn.Notify(x.R.Context(), unsupported(m)) != nil {
		return noSession()
	}
	x.Accepted()
	return nil
}

// refuseNoID refuses a request that lacks its id. It was for a session, or to be answered at once if ss is nil.
func (s *Server) refuseNoID(x *httpserver.Exchange, ss *session, m *dragoman.Message) error {
	var e *dragoman.Error
	if ss != nil {
		e = ss.conn.RefuseNoID(m)
	} else {
		e = jsonrpc.RefuseNoID(x.Context(), s.syncPeer(x.Caller.Key()), m, s.base.Log)
	}
	return &httpserver.Refusal{Status: http.StatusBadRequest, Code: e.Code, Message: e.Message}
}

// enqueue queues a body for the session: the message m, or nil if it could not be read.
// The answer comes on the stream.
func (ss *session) enqueue(x *httpserver.Exchange, body []byte, m *dragoman.Message) error {
	if ss.used.CompareAndSwap(false, true) {
		close(ss.first)
	}
	select {
	case <-ss.drained:
		return refuse(m, httpserver.Unavailable(protocol.Draining()))
	case <-ss.gone:
		return noSession()
	default:
	}
	late := time.NewTimer(queueWait)
	defer late.Stop()
	gone := x.R.Context().Done()
	if len(body) > largeMessage {
		if ok, err := place(ss, ss.large, struct{}{}, gone, late.C, m); !ok {
			return err
		}
	}
	ok, err := place(ss, ss.in, body, gone, late.C, m)
	switch {
	case ok:
		x.Accepted()
	case len(body) > largeMessage:
		<-ss.large
	}
	return err
}

// place puts something into a queue of a session. It reports false if it does not come to that, and why;
// a client that is gone is told nothing.
func place[T any](ss *session, queue chan<- T, what T, gone <-chan struct{}, late <-chan time.Time, m *dragoman.Message) (bool, error) {
	select {
	case queue <- what:
		return true, nil
	case <-ss.gone:
		return false, noSession()
	case <-gone:
		return false, nil
	case <-late:
		return false, refuse(m, httpserver.Unavailable(protocol.Overloaded("too many messages of this session are waiting; send them more slowly")))
	}
}

// refuse completes the refusal of a message, or of nil, by its id.
func refuse(m *dragoman.Message, refusal *httpserver.Refusal) error {
	if m != nil && m.Kind() == dragoman.Request {
		refusal.ID = m.ID()
	}
	return refusal
}
