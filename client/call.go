package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
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

// A timeoutError is a limit of time that has passed. It is a
// [context.DeadlineExceeded].
type timeoutError struct {
	after time.Duration
	moved bool // there was progress before
}

func (e *timeoutError) Error() string {
	if e.moved {
		return fmt.Sprintf("no answer and no progress within %v", e.after)
	}
	return fmt.Sprintf("no answer within %v", e.after)
}

func (e *timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// A call is one request of ours under way: the caller as the server sees it, and
// a clock.
type call struct {
	client   *Client
	progress func(Progress) // may be nil
	failures int            // of the dialer, before
	reached  atomic.Bool    // a conversation has been given the request
	answered atomic.Bool    // the server itself has answered it

	limit  time.Duration // negative if there is none
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	timer  *time.Timer // nil if there is no limit; guarded by mu
	began  time.Time
	until  time.Time // zero if there is no end; guarded by mu
	asked  int       // questions without an answer; guarded by mu
	paused time.Time // since when there are any; guarded by mu
	moved  bool      // the clock was started anew; guarded by mu
}

// newCall begins a request. It must be ended.
func (c *Client) newCall(ctx context.Context, limit time.Duration, progress func(Progress)) (context.Context, *call) {
	k := &call{client: c, progress: progress, failures: c.dialer.count(), limit: limit, began: time.Now()}
	ctx, k.cancel = context.WithCancelCause(context.WithValue(ctx, callKey{}, k))
	if limit > 0 {
		if longest := c.opts.MaxTimeout; longest > 0 {
			k.until = k.began.Add(max(longest, limit))
		}
		k.timer = time.AfterFunc(limit, k.expire)
	}
	return ctx, k
}

// expire ends the call. The limit is told, and not how late the clock was.
func (k *call) expire() {
	k.mu.Lock()
	e := &timeoutError{after: k.limit, moved: k.moved}
	if !k.until.IsZero() && !time.Now().Before(k.until) {
		e = &timeoutError{after: k.until.Sub(k.began)}
	}
	k.mu.Unlock()
	k.cancel(e)
}

func (k *call) end() {
	k.mu.Lock()
	if k.timer != nil {
		k.timer.Stop()
	}
	k.asked++ // so that nothing starts it again
	k.mu.Unlock()
	k.cancel(nil)
}

// resetTimer starts the clock anew.
func (k *call) resetTimer() {
	if k.timer == nil || k.asked > 0 {
		return
	}
	next := k.limit
	if !k.until.IsZero() {
		next = min(next, time.Until(k.until))
	}
	k.moved = true
	k.timer.Reset(next)
}

// pause stops the clock while the server waits for us. The function that it
// returns starts it again.
func (k *call) pause() (resume func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.asked++; k.asked == 1 {
		k.paused = time.Now()
		if k.timer != nil {
			k.timer.Stop()
		}
	}
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.asked--; k.asked == 0 {
			if !k.until.IsZero() {
				k.until = k.until.Add(time.Since(k.paused))
			}
			k.resetTimer()
		}
	}
}

// Call answers a question of the server that belongs to the request.
func (k *call) Call(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	defer k.pause()()
	return k.client.answer(ctx, req)
}

// Notify takes what the server tells about the request.
func (k *call) Notify(_ context.Context, note *dragoman.Message) error {
	if note.Method() != protocol.NoteProgress {
		k.client.notify(note)
		return nil
	}
	k.mu.Lock()
	k.resetTimer()
	k.mu.Unlock()
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
