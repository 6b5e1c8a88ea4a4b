package toolhttp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/sse"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	// A stream that has brought its answer is read on, so that its connection
	// can be used again, but only so far and so long.
	drainBytes = 64 << 10
	drainTime  = 100 * time.Millisecond

	// maxErrorBody is how much of the body of an HTTP error is read.
	maxErrorBody = 64 << 10
)

// errTimeout is why a call ends that takes longer than the client's Timeout.
var errTimeout = errors.New("toolhttp: no answer in time")

// An exchange is one HTTP request and its answer.
type exchange struct {
	conn   *conn
	caller context.Context
	ctx    context.Context // the caller's; ends with the conversation and at the timeout too
	cancel context.CancelCauseFunc
	unhook func() bool
	timer  *time.Timer // nil if there is no timeout
	req    *dragoman.Message
	resp   *http.Response
}

func (c *conn) exchange(caller context.Context, req *dragoman.Message) *exchange {
	x := &exchange{conn: c, caller: caller, req: req}
	x.ctx, x.cancel = context.WithCancelCause(caller)
	x.unhook = context.AfterFunc(c.ctx, func() { x.cancel(dragoman.ErrClosed) })
	timeout := cmp.Or(c.client.Timeout, DefaultTimeout)
	if timeout > 0 {
		x.timer = time.AfterFunc(timeout, func() { x.cancel(errTimeout) })
	}
	return x
}

// end gives up what has not been read.
func (x *exchange) end() {
	if x.timer != nil {
		x.timer.Stop()
	}
	x.unhook()
	x.cancel(nil)
	if x.resp != nil {
		_ = x.resp.Body.Close()
	}
}

// do sends the request.
func (x *exchange) do(method, accept string, body []byte) error {
	c := x.conn.client
	var r io.Reader
	if body != nil {
		r = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(x.ctx, method, c.URL, r)
	if err != nil {
		return err
	}
	for name, values := range c.Header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	if body != nil {
		req.Header.Set("Content-Type", jsonType)
	}
	req.Header.Set("Accept", accept)
	x.resp, err = c.http.Do(req) //nolint:bodyclose // end closes it
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
	e := fault(err)
	x.conn.client.log.Debug("a call has no answer", "tool", x.req.Name(), "reason", e.Message)
	return x.req.Fail(e), nil
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
	if x.mediaType() == sse.ContentType {
		return x.events(from)
	}
	body, err := x.body()
	if err != nil {
		return nil, err
	}
	m, err := x.parse(body)
	if err != nil {
		return nil, err
	}
	return received(m)
}

// received checks an answer. Results that are not complete pass as they are.
func received(m *dragoman.Message) (*dragoman.Message, error) {
	switch {
	case m.IsError():
		return toolError(m), nil
	case unfinished(m) != "":
		return m, nil
	}
	fit, err := protocol.ToolResponse(m)
	if err != nil {
		return nil, &faultError{protocol.CodeLost, "the server's answer is no tool response: " + plain(err), protocol.OutcomeUnknown, 0}
	}
	return fit, nil
}

// refused reads an answer that is no success: its body is the answer if that is
// a JSON-RPC error.
func (x *exchange) refused() (*dragoman.Message, error) {
	// What could be read of it is worth something.
	body, _ := io.ReadAll(io.LimitReader(x.resp.Body, maxErrorBody))
	if m, err := x.conn.client.limits.Parse(body); err == nil && m.IsError() && x.isOurs(m) {
		return toolError(m), nil
	}
	return nil, httpFault(x.resp, body)
}

// isOurs tells whether a response is the answer to this request. An error may
// not know whose it is.
func (x *exchange) isOurs(m *dragoman.Message) bool {
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
	case !x.isOurs(m):
		return nil, unreadableAnswer("its id is that of another request")
	}
	return m, nil
}

// mediaType returns what the answer's body is, without parameters.
func (x *exchange) mediaType() string {
	kind, _, err := mime.ParseMediaType(x.resp.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return kind
}

// body returns the whole body, up to the limit of a message.
func (x *exchange) body() ([]byte, error) {
	limit := x.conn.client.limits.Message()
	var b bytes.Buffer
	if n := x.resp.ContentLength; n > 0 && n <= int64(limit) {
		b.Grow(int(min(n+bytes.MinRead, 1<<20)))
	}
	if _, err := b.ReadFrom(io.LimitReader(x.resp.Body, int64(limit)+1)); err != nil {
		return nil, err
	}
	if b.Len() > limit {
		return nil, dragoman.ErrTooLarge
	}
	return b.Bytes(), nil
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
	body, err := x.body()
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
