package streamable

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/rpc"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A clientCall is one request of ours under way.
type clientCall struct {
	rpc.Call
	conn   *clientConn
	modern bool

	ctx    context.Context // the caller's; ends also when the table has something for the call
	cancel context.CancelCauseFunc

	// owned by the caller's goroutine
	status  int            // of the last HTTP answer
	session *clientSession // what it was sent in
	opened  *clientSession // what the answer to initialize opened

	cancelSent chan struct{} // closed when the server has been told of a cancel, if it is
	mark       uint64        // that notification; set before cancelSent is closed
	answered   bool          // that is why the call is over; likewise
}

// begin enters a call into the table.
func (c *clientConn) begin(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*clientCall, error) {
	if req.Len() > c.opts.limits.Message() {
		return nil, dragoman.ErrTooLarge
	}
	k := &clientCall{conn: c, modern: protocol.IsModern(req), cancelSent: make(chan struct{})}
	k.ctx, k.cancel = context.WithCancelCause(ctx)
	if err := c.calls.Begin(&k.Call, req, from, k); err != nil {
		k.cancel(nil)
		return nil, err
	}
	return k, nil
}

// Ended implements rpc.Owner: the answer came on another stream, the call took too
// long, or the conversation is over. When that is because the server refuses its
// session, this call may be refused for it too, which is worth a moment: then it was
// not carried out.
func (k *clientCall) Ended(err error) {
	if errors.Is(err, ErrSessionGone) {
		time.AfterFunc(clientGoneWait, func() { k.cancel(err) })
		return
	}
	if late, ok := errors.AsType[*rpc.TimeoutError](err); ok {
		err = &TimeoutError{After: late.Took}
	}
	if err == nil {
		err = errClientAnswered
	}
	k.cancel(err)
}

// finish takes the call out of the table and makes sure that from is not used
// any more. It returns what the caller gets to know of err.
func (k *clientCall) finish(err error) error {
	_, ended := k.Remove()
	if err != nil && ended == nil && k.ctx.Err() != nil {
		err = context.Cause(k.ctx)
		if k.WasSent() && !k.modern && protocol.Cancellable(k.Request()) {
			k.mark, _ = k.conn.send(k.CancelNote(err.Error()), k.session) // nobody is left to be told
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
	resp, err := k.once(nil)
	if err == nil && resp.IsError() && resp.RPCError().Code == protocol.CodeLost {
		err = c.check(k)
	}
	return resp, err
}

// once sends the request and returns the answer.
func (k *clientCall) once(header http.Header) (*dragoman.Message, error) {
	k.Sent()
	x, err := k.conn.post(k.ctx, k.AppendTo(nil), k.session, header)
	if err != nil {
		return nil, err
	}
	k.status = x.resp.StatusCode
	if k.status < 200 || k.status > 299 {
		defer x.close()
		return k.refused(x)
	}
	resp, err := k.answer(x)
	if err == nil && k.Request().Method() == protocol.MethodInitialize && !k.modern {
		err = k.learn(x, resp)
	}
	return resp, err
}

// tell tells the caller, unless its call is over.
func (k *clientCall) tell(note *dragoman.Message) { k.Notify(k.ctx, note, k.conn.log) }

// cancelAll tells the server that nobody waits for any call of the session any more.
// Not every server takes the end of a session for that. What a server makes of the
// calls then does not count: they end because the conversation does.
func (c *clientConn) cancelAll() {
	open, s := c.calls.Refuse(dragoman.ErrClosed), c.session()
	if s == nil {
		return
	}
	for _, k := range open {
		if req := k.Request(); !protocol.IsModern(req) && protocol.Cancellable(req) {
			_, _ = c.send(k.CancelNote("the session ends"), s) // nobody is left to be told
		}
	}
}
