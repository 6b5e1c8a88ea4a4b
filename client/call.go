package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// CallOptions are about one request.
type CallOptions struct {
	// Timeout takes the place of Options.Timeout and Options.ToolTimeouts.
	// Negative means no limit.
	Timeout time.Duration

	// OnProgress is told how far the server is, in order. It should not take
	// long.
	OnProgress func(Progress)
}

// A Progress is how far a request is. Total is zero if that is not known.
type Progress struct {
	Progress float64 `json:"progress"`
	Total    float64 `json:"total"`
	Message  string  `json:"message"`
}

// callKey is under which a context has its call.
type callKey struct{}

// A call is one request of the client in flight: the caller as the server sees it, and
// a clock.
type call struct {
	client   *Client
	progress func(Progress) // may be nil
	failures int            // of the dialer, before
	reached  atomic.Bool    // a conversation has been given the request
	answered atomic.Bool    // the server itself has answered it

	clock  *jsonrpc.CallClock // nil if there is no limit
	cancel context.CancelCauseFunc
}

// newCall begins a request. It must be ended.
func (c *Client) newCall(ctx context.Context, limit time.Duration, progress func(Progress)) (context.Context, *call) {
	k := &call{client: c, progress: progress, failures: c.dialer.count()}
	ctx, k.cancel = context.WithCancelCause(context.WithValue(ctx, callKey{}, k))
	if limit > 0 {
		k.clock = jsonrpc.NewCallClock(limit, c.opts.MaxTimeout, func(e *dragoman.TimeoutError) { k.cancel(e) })
	}
	return ctx, k
}

func (k *call) end() {
	k.clock.Stop()
	k.cancel(nil)
}

// Call answers a question of the server that belongs to the request.
func (k *call) Call(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	defer k.clock.Pause()()
	return k.client.answer(ctx, req)
}

// Notify takes what the server tells about the request.
func (k *call) Notify(_ context.Context, note *dragoman.Message) error {
	if note.Method() != protocol.NoteProgress {
		k.client.notify(note)
		return nil
	}
	k.clock.Renew()
	if k.progress == nil {
		k.client.notify(note)
		return nil
	}
	var p Progress
	if err := json.Unmarshal(note.Params(), &p); err != nil {
		k.client.opts.Logger.Debug("progress that cannot be read", "error", err)
		return nil
	}
	k.progress(p)
	return nil
}

// Request makes any request and returns its result. In the modern era the
// envelope is added, and input that the server asks for is given by the
// handlers. params is JSON text or a value to encode, an object either way, and
// may be nil.
func (c *Client) Request(ctx context.Context, method string, params any) (json.RawMessage, error) {
	resp, err := c.do(ctx, method, params, nil)
	if err != nil {
		return nil, err
	}
	return resp.Result(), nil
}

// request makes a request, which is not sent yet.
func (c *Client) request(method string, params any) (*dragoman.Message, error) {
	if params == nil {
		params = struct{}{}
	}
	req, err := dragoman.NewRequest(c.newID(), method, params)
	if err != nil {
		return nil, fmt.Errorf("client: the params of %s cannot be encoded: %w", method, err)
	}
	if c.reportsProgress(method) && req.Meta(protocol.MetaProgressToken) == nil {
		// Progress is asked for even if nobody looks at it: it extends the time.
		token, _ := req.ID().MarshalJSON() // of a number
		if req, err = req.Edit().SetMeta(protocol.MetaProgressToken, token).Message(); err != nil {
			return nil, fmt.Errorf("client: the params of %s are not an object: %w", method, err)
		}
	}
	return req, nil
}

// do makes a request and sends it. The response is a result.
func (c *Client) do(ctx context.Context, method string, params any, o *CallOptions) (*dragoman.Message, error) {
	req, err := c.request(method, params)
	if err != nil {
		return nil, err
	}
	return c.finishCall(ctx, req, o)
}

// finishCall sends a request. The response is a result.
func (c *Client) finishCall(ctx context.Context, req *dragoman.Message, o *CallOptions) (*dragoman.Message, error) {
	if o == nil {
		o = new(CallOptions)
	}
	inner, k := c.newCall(ctx, c.limit(req, o), o.OnProgress)
	defer k.end()
	resp, err := c.side.ask(inner, req, k)
	if err == nil && resp == nil {
		err = errors.New("no answer")
	}
	if err == nil && !resp.IsError() {
		return resp, nil
	}
	return nil, c.fault(ctx, inner, k, req.Method(), resp, err)
}

// reportsProgress reports whether a request may take long enough for progress.
func (c *Client) reportsProgress(method string) bool {
	switch method {
	case protocol.MethodCallTool, protocol.MethodReadResource, protocol.MethodGetPrompt:
		return true
	}
	return false
}

// limit returns how long a request may take.
func (c *Client) limit(req *dragoman.Message, o *CallOptions) time.Duration {
	if o.Timeout != 0 {
		return o.Timeout
	}
	if req.Method() == protocol.MethodCallTool {
		if limit, ok := c.opts.ToolTimeouts[req.Name()]; ok && limit != 0 {
			return limit
		}
	}
	return c.opts.Timeout
}
