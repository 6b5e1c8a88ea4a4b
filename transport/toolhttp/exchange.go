package toolhttp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpclient"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
	"github.com/dragoman-mcp/dragoman/internal/wire/sse"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	// A stream that has brought its answer is read on, so that its connection
	// can be used again, but only so far and so long.
	drainBytes = 64 << 10
	drainTime  = 100 * time.Millisecond
)

// errNoAnswer says that a stream ended early.
var errNoAnswer = httpclient.UnknownOutcome(errors.New("no response received for request: the stream ended before its complete or error event"))

func unreadableAnswer(why string) error {
	return httpclient.UnknownOutcome(errors.New("the server's answer cannot be read: " + why))
}

// An exchange is one HTTP request and its answer.
type exchange struct {
	conn   *conn
	caller context.Context
	ctx    context.Context // the caller's; ends with the conversation and at the timeout too
	cancel context.CancelCauseFunc
	stop   func() bool
	timer  *time.Timer // nil if there is no timeout
	req    *dragoman.Message
	resp   *http.Response
}

func (c *conn) exchange(caller context.Context, req *dragoman.Message) *exchange {
	x := &exchange{conn: c, caller: caller, req: req}
	x.ctx, x.cancel = context.WithCancelCause(caller)
	x.stop = context.AfterFunc(c.ctx, func() { x.cancel(dragoman.ErrClosed) })
	timeout := cmp.Or(c.client.Timeout, DefaultTimeout)
	if timeout > 0 {
		x.timer = time.AfterFunc(timeout, func() { x.cancel(context.DeadlineExceeded) })
	}
	return x
}

// end gives up what has not been read.
func (x *exchange) end() {
	if x.timer != nil {
		x.timer.Stop()
	}
	x.stop()
	x.cancel(nil)
	if x.resp != nil {
		_ = x.resp.Body.Close()
	}
}

// do sends the request.
func (x *exchange) do(method, accept string, body []byte) (err error) {
	c := x.conn.client.http
	x.resp, err = c.Do(x.ctx, method, c.URL, body, func(h http.Header) { h.Set("Accept", accept) }) //nolint:bodyclose // end closes it
	return err
}

// failed turns the end of an exchange without an answer into what its caller
// gets: a Go error if the caller or the conversation ended it, else an error
// response.
func (x *exchange) failed(err error) (*dragoman.Message, error) {
	if x.caller.Err() != nil {
		return nil, context.Cause(x.caller)
	}
	if x.ctx.Err() != nil {
		err = context.Cause(x.ctx)
	}
	if errors.Is(err, dragoman.ErrClosed) {
		return nil, err
	}
	err = lostError(err)
	x.conn.client.log.Debug("a call has no answer", "tool", x.req.Name(), "reason", err)
	return protocol.Failure(x.req, err), nil
}

// lostError says what it means to a call that its exchange ended with an error.
func lostError(err error) error {
	_, explained := errors.AsType[*httpclient.ConnError](err)
	if _, ok := errors.AsType[protocol.Fault](err); ok && !explained || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if errors.Is(err, dragoman.ErrTooLarge) {
		return fmt.Errorf("the server's answer is larger than the limit: %w", err)
	}
	if p, ok := errors.AsType[*dragoman.ParseError](err); ok {
		return unreadableAnswer(fmt.Sprintf("%s at byte %d", p.Reason, p.Offset))
	}
	if err = httpclient.NoResponse(err); protocol.NotSent(err) {
		return fmt.Errorf("the server cannot be reached: %w", err)
	}
	return fmt.Errorf("no response received for request: %w", err)
}

// callTool makes one tool call.
func (c *conn) callTool(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if req.Len() > c.client.limits.Message() {
		return nil, dragoman.ErrTooLarge
	}
	x := c.exchange(ctx, req)
	defer x.end()
	accept := jsonType
	if c.client.Stream {
		accept = sse.ContentType + ", " + jsonType + ";q=0.9"
	}
	if err := x.do(http.MethodPost, accept, req.Bytes()); err != nil {
		return x.failed(err)
	}
	resp, err := x.answer(from)
	if err != nil {
		return x.failed(err)
	}
	if resp.ID() != req.ID() {
		resp = resp.WithID(req.ID())
	}
	return resp, nil
}

// answer reads the answer to a tool call.
func (x *exchange) answer(from dragoman.Peer) (*dragoman.Message, error) {
	if x.resp.StatusCode < 200 || x.resp.StatusCode > 299 {
		return x.refused()
	}
	if httpframe.MediaType(x.resp.Header) == sse.ContentType {
		return x.events(from)
	}
	body, err := httpclient.ReadAll(x.resp, x.conn.client.limits.Message())
	if err != nil {
		return nil, err
	}
	m, err := x.parse(body)
	if err != nil {
		return nil, err
	}
	return checkAnswer(m)
}

// checkAnswer checks an answer. Results that are not complete pass as they are.
func checkAnswer(m *dragoman.Message) (*dragoman.Message, error) {
	switch {
	case m.IsError():
		return toolError(m), nil
	case notFinal(m) != "":
		return m, nil
	}
	fit, err := protocol.ToolResponse(m)
	if err != nil {
		return nil, httpclient.UnknownOutcome(errors.New("the server's answer is no tool response: " + reasonText(err)))
	}
	return fit, nil
}

// refused reads an answer that is no success: its body is the answer if that is
// a JSON-RPC error.
func (x *exchange) refused() (*dragoman.Message, error) {
	e := httpclient.ReadStatus(x.resp)
	if m := e.Response(x.conn.client.limits); m != nil && x.isAnswer(m) {
		return toolError(m), nil
	}
	return nil, e
}

// isAnswer reports whether a response is the answer to this request. An error may
// not know whose it is.
func (x *exchange) isAnswer(m *dragoman.Message) bool {
	id := m.ID()
	return id.Key() == x.req.ID().Key() || m.IsError() && (id.IsNull() || id.IsZero())
}

// parse reads the response to this request.
func (x *exchange) parse(text []byte) (*dragoman.Message, error) {
	m, err := x.conn.client.limits.Parse(text)
	switch {
	case err != nil:
		return nil, err
	case m.Kind() != dragoman.Response:
		return nil, unreadableAnswer("it is a " + m.Kind().String())
	case !x.isAnswer(m):
		return nil, unreadableAnswer("its id is that of another request")
	}
	return m, nil
}

// listTools asks for the tools. They come on one page.
func (c *conn) listTools(ctx context.Context, req *dragoman.Message) (*dragoman.Message, error) {
	if req.Get("cursor") != nil {
		return req.Fail(&dragoman.Error{
			Code: protocol.CodeInvalidParams, Message: "Invalid params: the list has one page; leave out the cursor",
		}), nil
	}
	x := c.exchange(ctx, req)
	defer x.end()
	if err := x.do(http.MethodGet, jsonType, nil); err != nil {
		return x.failed(err)
	}
	if x.resp.StatusCode != http.StatusOK {
		resp, err := x.refused()
		if err != nil {
			return x.failed(err)
		}
		return resp.WithID(req.ID()), nil
	}
	body, err := httpclient.ReadAll(x.resp, x.conn.client.limits.Message())
	if err != nil {
		return x.failed(err)
	}
	resp, err := toolsOf(req, body)
	if err != nil {
		return x.failed(err)
	}
	return resp, nil
}

// toolsOf makes the response to tools/list of what the server says.
func toolsOf(req *dragoman.Message, body []byte) (*dragoman.Message, error) {
	if !json.Valid(body) {
		return nil, unreadableAnswer("it is not JSON")
	}
	resp, err := req.Reply(body)
	if err != nil {
		return nil, err
	}
	if tools := resp.Get("tools"); tools == nil || tools[0] != '[' {
		return nil, unreadableAnswer("it has no tools")
	}
	if !protocol.IsModern(req) || resp.Get("resultType") != nil {
		return resp, nil
	}
	return resp.Edit().
		Set("resultType", []byte(`"`+protocol.ResultComplete+`"`)).
		Set("ttlMs", []byte("0")).
		Set("cacheScope", []byte(`"private"`)).
		Message()
}
