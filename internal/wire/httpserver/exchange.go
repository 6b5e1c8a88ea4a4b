package httpserver

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/internal/wire/sse"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// An Exchange is a request that a Base serves, and its response. It answers
// once: by JSON, Accepted, Events, or the error that its handler returns.
type Exchange struct {
	W      http.ResponseWriter
	R      *http.Request
	Caller *dragoman.Caller // who makes the request

	base     *Base
	answered atomic.Bool // an answer has begun

	// Guarded by base.mu:
	onShutdown func(context.Context)
	onAbort    func()
	unwatch    func() // of the caller's proof; may be nil
	detached   bool
	prev, next *Exchange // among those that are open

	mu     sync.Mutex // guards the deadlines of the connection, and what follows
	over   bool       // the handler has returned: the connection may be another's
	isCut  bool
	events *sse.Writer
}

// Context returns the context of the request, with its caller. It ends when the client
// leaves.
func (x *Exchange) Context() context.Context { return dragoman.WithCaller(x.R.Context(), x.Caller) }

// Body returns the JSON text of the request. The error is a *[Refusal].
func (x *Exchange) Body() ([]byte, error) {
	return readBody(x.base.reading, x.W, x.R, x.base.Limits.Message())
}

// JSON answers with JSON text. There is no error: the client may be gone.
func (x *Exchange) JSON(status int, body []byte) {
	if x.begin() {
		switch {
		case mayRetry(status):
			setRetryAfter(x.W.Header(), errorOf(body))
		case isMistake(status):
			x.base.mistakes.Log(x.R, status, func() string {
				if e := errorOf(body); e != nil {
					return e.Message
				}
				return http.StatusText(status)
			})
		}
		_ = WriteJSON(x.W, x.R, status, body)
	}
}

// errorOf returns the error that an answer is, or nil.
func errorOf(body []byte) *dragoman.Error {
	if m, err := dragoman.Parse(body); err == nil && m.IsError() {
		return m.RPCError()
	}
	return nil
}

// Accepted answers a message that has no response.
func (x *Exchange) Accepted() {
	if x.begin() {
		x.W.WriteHeader(http.StatusAccepted)
	}
}

// NoContent answers with an empty body.
func (x *Exchange) NoContent() {
	if x.begin() {
		x.W.WriteHeader(http.StatusNoContent)
	}
}

// Events answers with an event stream. The error means that the client is gone.
func (x *Exchange) Events() (*sse.Writer, error) {
	x.answered.Store(true)
	out, err := sse.Start(x.W, x.base.write)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.events = out
	if x.isCut {
		out.Abort()
	}
	return out, err
}

// begin makes an answer the first, and bounds how long the client may take to read
// it. It is a deadline and no Timeout, because net/http writes short answers when the
// handler has returned; then it lifts the deadline. A writer without deadlines has no
// slow client.
func (x *Exchange) begin() bool {
	if x.answered.Swap(true) {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.isCut {
		_ = http.NewResponseController(x.W).SetWriteDeadline(time.Now().Add(x.base.write))
	}
	return true
}

// refuse answers with an error, unless the answer has begun.
func (x *Exchange) refuse(err error) {
	refusal, ok := errors.AsType[*Refusal](err)
	if !ok {
		refusal = &Refusal{Status: http.StatusInternalServerError, Code: protocol.CodeInternal, Message: err.Error()}
	}
	if !x.base.mistakes.Log(x.R, refusal.status(), func() string { return refusal.Message }) {
		x.base.Log.Debug("request refused", "method", redact.Clip(x.R.Method), "status", refusal.status(), "reason", redact.Clip(refusal.Message))
	}
	if x.begin() {
		refusal.Write(x.W)
	}
}

// cut makes reading from the client and writing to it fail, now and later.
func (x *Exchange) cut() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.isCut = true
	if x.over {
		return
	}
	if x.events != nil {
		x.events.Abort()
	}
	c := http.NewResponseController(x.W)
	_ = c.SetWriteDeadline(pastDeadline)
	_ = c.SetReadDeadline(pastDeadline)
}

// expiredWait is how long what is in flight may take when the proof of its caller has ended.
const expiredWait = 10 * time.Second

// OnShutdown has f called when Shutdown begins, on a goroutine of its own, and at once
// if it has begun. f should end the exchange when what is in flight in it is done, and
// at the end of its context what is not. The end of the caller's proof is such a
// beginning too, for this exchange alone. f is called once.
func (x *Exchange) OnShutdown(f func(context.Context)) {
	d := x.base
	if x.Caller.OnEnd != nil {
		var once sync.Once
		shutdown := f
		f = func(ctx context.Context) { once.Do(func() { shutdown(ctx) }) }
		x.OnExpired(func() {
			ctx, cancel := context.WithTimeout(d.aborted, expiredWait)
			// Ends with the exchange.
			go func() {
				defer cancel()
				f(ctx)
			}()
		})
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	x.onShutdown = f
	if d.stopping {
		go f(d.aborted) // ends with the exchange
	}
}

// OnExpired has f called when the proof of the caller ends, which it need not. It is for
// streams that would not end by themselves: a request that was let in is carried out. f
// must not wait for anybody. An exchange has one such f.
func (x *Exchange) OnExpired(f func()) {
	if x.Caller.OnEnd == nil {
		return
	}
	stop := x.Caller.OnEnd(f)
	x.base.mu.Lock()
	defer x.base.mu.Unlock()
	x.unwatch = stop
}

// OnAbort has f called when the exchange has had its time at Shutdown, and at once if
// it has had it. f must not wait for anybody.
func (x *Exchange) OnAbort(f func()) {
	d := x.base
	d.mu.Lock()
	x.onAbort = f
	d.mu.Unlock()
	if d.aborted.Err() != nil {
		f()
	}
}

// OnLeave has f called when the client leaves while the handler runs, and reports whether
// it will be: of some servers only the context of the request can say that. An exchange has
// one such f, which must not wait for anybody.
func (x *Exchange) OnLeave(f func()) bool {
	w, ok := x.W.(interface{ OnLeave(f func()) })
	if ok {
		w.OnLeave(f)
	}
	return ok
}

// Detach has the exchange continue when its handler has returned, as that of a connection
// which is taken from net/http does: until release is called.
func (x *Exchange) Detach() (release func()) {
	d := x.base
	x.answered.Store(true)
	d.mu.Lock()
	defer d.mu.Unlock()
	x.detached = true
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.remove(x)
	}
}

// CallContext returns the context of a call on behalf of the request. It ends with
// [dragoman.ErrCancelled] when the client leaves, and with [dragoman.ErrClosed] when
// the exchange has had its time at Shutdown.
func (x *Exchange) CallContext() (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(x.Context()))
	stop := context.AfterFunc(x.R.Context(), func() { cancel(dragoman.ErrCancelled) })
	x.OnAbort(func() { cancel(dragoman.ErrClosed) })
	return ctx, func(cause error) {
		stop()
		cancel(cause)
	}
}

// NotAllowed refuses a method.
func NotAllowed(r *http.Request, allow string) *Refusal {
	refusal := Refuse(http.StatusMethodNotAllowed, "%s is not served here; use %s", clip(r.Method), allow)
	refusal.Allow = allow
	return refusal
}

// Unreadable refuses a body that is not a message, for the error of Parse.
func Unreadable(err error) *Refusal {
	p, ok := errors.AsType[*dragoman.ParseError](err)
	if !ok {
		return Refuse(http.StatusRequestEntityTooLarge, "%v", err)
	}
	answer := p.Response()
	return &Refusal{Status: http.StatusBadRequest, Code: p.Code, ID: answer.ID(), Message: answer.RPCError().Message}
}
