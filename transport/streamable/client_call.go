package streamable

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpclient"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A clientCall is one request of the client in flight.
type clientCall struct {
	jsonrpc.Call
	conn   *clientConn
	modern bool

	ctx    context.Context // the caller's; ends also when Ended is called
	cancel context.CancelCauseFunc

	// owned by the caller's goroutine
	status  int            // of the last HTTP answer
	session *clientSession // what it was sent in
	opened  *clientSession // what the answer to initialize opened

	cancelSent chan struct{} // closed by finish, when a cancel that is needed has been queued
	mark       uint64        // of that cancel in the queue; set before cancelSent is closed
	answered   bool          // the call has its answer; set before cancelSent is closed
}

// begin enters a call into the table.
func (c *clientConn) begin(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*clientCall, error) {
	if req.Len() > c.opts.limits.Message() {
		return nil, dragoman.ErrTooLarge
	}
	k := &clientCall{conn: c, modern: protocol.IsModern(req), cancelSent: make(chan struct{})}
	k.ctx, k.cancel = context.WithCancelCause(ctx)
	if err := c.calls.BeginOwned(&k.Call, k, req, from); err != nil {
		k.cancel(nil)
		if errors.Is(err, ErrSessionGone) {
			err = refusedError{err} // the server would have refused it
		}
		return nil, err
	}
	return k, nil
}

var errAnsweredElsewhere = errors.New("streamable: answered on another stream")

// Ended implements rpc.Owner: the answer came on another stream, the call took too
// long, or the conversation is over. If that is because the server has ended the
// session, the call continues for goneWait: the server may refuse it too, and then it is
// known that it was not carried out.
func (k *clientCall) Ended(err error) {
	if errors.Is(err, ErrSessionGone) {
		time.AfterFunc(goneWait, func() { k.cancel(err) })
		return
	}
	if err == nil {
		err = errAnsweredElsewhere
	}
	k.cancel(err)
}

// finish takes the call out of the table and makes sure that from is not used any
// more. It returns the error for the caller, which may be another one than err.
func (k *clientCall) finish(err error) error {
	_, ended := k.Remove()
	if err != nil && ended == nil && k.ctx.Err() != nil {
		err = context.Cause(k.ctx)
		if k.WasSent() && !k.modern && protocol.Cancellable(k.Request()) {
			k.mark, _ = k.conn.send(k.CancelNote(err.Error())) // nobody is left to be told
		}
	}
	k.answered = err == nil
	close(k.cancelSent)
	if refused := (refusedError{}); err != nil && ended != nil && !errors.As(err, &refused) {
		err = ended
	}
	k.cancel(nil)
	k.Finish()
	return err
}

// run makes the call.
func (k *clientCall) run() (*dragoman.Message, error) {
	c := k.conn
	if k.modern {
		return k.runModern()
	}
	if k.Request().Method() != protocol.MethodInitialize {
		k.session = c.session()
	}
	resp, err := k.roundTrip(nil)
	if err == nil && resp.IsError() && resp.RPCError().Code == protocol.CodeLost {
		err = c.checkSession(k)
	}
	return resp, err
}

// roundTrip sends the request and returns the answer.
func (k *clientCall) roundTrip(header http.Header) (*dragoman.Message, error) {
	k.Sent()
	x, err := k.conn.post(k.ctx, k.AppendTo(nil), k.session, header)
	if err != nil {
		return nil, err
	}
	k.status = x.resp.StatusCode
	if k.status < 200 || k.status > 299 {
		defer x.close()
		return k.readRefusal(x)
	}
	resp, err := k.readResponse(x)
	if err == nil && k.Request().Method() == protocol.MethodInitialize && !k.modern {
		err = k.readSession(x, resp)
	}
	return resp, err
}

// tell tells the caller, unless its call is over.
func (k *clientCall) tell(note *dragoman.Message) { k.Notify(k.ctx, note, k.conn.log) }

// cancelAll cancels all calls of the session at the server, because not every server
// does so when the session ends. The calls end with the conversation, whatever the
// server answers.
func (c *clientConn) cancelAll() {
	open := c.calls.Refuse(dragoman.ErrClosed)
	if c.session() == nil {
		return
	}
	for _, k := range open {
		if req := k.Request(); !protocol.IsModern(req) && protocol.Cancellable(req) {
			_, _ = c.send(k.CancelNote("the session ends")) // nobody is left to be told
		}
	}
}

// readResponse reads the answer from a response with a status of success.
func (k *clientCall) readResponse(x *httpCall) (*dragoman.Message, error) {
	if x.isStream() {
		return k.readStream(x)
	}
	body, err := httpclient.ReadAll(x.resp, k.conn.opts.limits.Message())
	x.close()
	switch {
	case errors.Is(err, dragoman.ErrTooLarge):
		return nil, err
	case err != nil:
		return nil, k.noResponse(err)
	case len(body) == 0 && k.status != http.StatusOK:
		return k.await()
	case len(body) == 0: // 200 says that this is the answer
		return nil, k.noResponse(errEmptyAnswer)
	}
	resp, err := k.take(body)
	if resp == nil && err == nil {
		err = k.noResponse(errors.New("the server's answer is " + httpclient.Describe(x.resp.Header, body)))
	}
	return resp, err
}

// readRefusal reads a response with a status of failure. Its body is the answer if that
// is a JSON-RPC error.
func (k *clientCall) readRefusal(x *httpCall) (*dragoman.Message, error) {
	refusal := httpclient.ReadStatus(x.resp)
	resp := refusal.Response(k.conn.opts.limits)
	if resp != nil && refusal.WantsAuth() {
		refusal.RPC = resp.RPCError()
		return nil, refusal
	}
	ours := resp != nil && resp.ID() == k.ID()
	if (!ours || resp.RPCError().Code == codeSessionGone) && k.conn.endIfSessionGone(refusal.Status, k.session) {
		return nil, refusedError{k.conn.endReason()}
	}
	if ours || resp != nil && (resp.ID().IsNull() || resp.ID().IsZero()) {
		return resp, nil
	}
	if isUnknownMethod(refusal, k.Request().Method()) {
		return k.Request().Fail(&dragoman.Error{
			Code:    protocol.CodeMethodNotFound,
			Message: "method not found: " + k.Request().Method() + "; the server does not know it",
		}), nil
	}
	return nil, refusal
}

// isUnknownMethod reports whether a refusal says that the server has no such method. The
// Go SDK says that in plain text.
func isUnknownMethod(e *protocol.StatusError, method string) bool {
	return e.Status == http.StatusBadRequest && strings.Contains(string(e.Body), strconv.Quote(method)+" unsupported")
}

// noResponse returns the error of a call that has no answer. Whether the request was
// carried out is not known.
func (k *clientCall) noResponse(reason error) error {
	return httpclient.UnknownOutcome(fmt.Errorf("%w: %s: %w", ErrNoResponse, k.Request().Method(), reason))
}

var errEmptyAnswer = errors.New("the server's answer is empty")

// await waits for an answer that comes on the session's own stream, as a status
// like 202 promises. If the server has none, it never will.
func (k *clientCall) await() (*dragoman.Message, error) {
	if done := k.conn.backgroundDone(k.session); done != nil {
		select {
		case <-k.ctx.Done():
			return nil, context.Cause(k.ctx)
		case <-done:
		}
	}
	return nil, k.noResponse(errEmptyAnswer)
}

// oversize returns the kind and the id of a message that is too large, as far as its
// head and tail say. A question is refused.
func (c *clientConn) oversize(head, tail []byte) (dragoman.Kind, dragoman.ID) {
	kind, id := jsonrpc.Oversize(head, tail)
	if kind == dragoman.Request {
		c.postRefusal(dragoman.NewFailure(id, &dragoman.Error{
			Code: protocol.CodeInvalidRequest, Message: "Invalid request: " + dragoman.ErrTooLarge.Error(),
		}))
	}
	return kind, id
}

// maxServerSessionID bounds the session id that a server gives us, in bytes: it goes
// back to the server in a header.
const maxServerSessionID = 1024

// readSession takes the session out of the answer to initialize.
func (k *clientCall) readSession(x *httpCall, resp *dragoman.Message) error {
	if resp.IsError() {
		return nil
	}
	var result struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	if err := resp.Decode(&result); err != nil {
		return fmt.Errorf("streamable: the answer to initialize cannot be read: %w", err)
	}
	id := x.resp.Header.Get(protocol.HeaderSession)
	if len(id) > maxServerSessionID {
		return fmt.Errorf("streamable: the server's session id has %d characters, more than %d", len(id), maxServerSessionID)
	}
	for i := range len(id) {
		if id[i] < 0x21 || id[i] > 0x7e {
			return errors.New("streamable: the server's session id has characters other than visible ASCII")
		}
	}
	k.opened = &clientSession{id: id, version: result.ProtocolVersion, revision: protocol.ParseRevision(result.ProtocolVersion)}
	return nil
}
