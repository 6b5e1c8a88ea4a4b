package jsonrpc

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// takeFrame takes one frame: a message, or a batch where the revision has them. If
// it was a request, takeFrame returns what serves it.
func (c *Conn) takeFrame(data []byte) func() {
	m, err := c.opts.Limits.Parse(data)
	if err != nil && !c.opts.Server && !utf8.Valid(data) {
		m, err = c.opts.Limits.Parse(bytes.ToValidUTF8(data, []byte("\uFFFD")))
	}
	switch {
	case err == nil:
		return c.dispatch(m, nil)
	case IsBatch(data) && c.Revision().HasBatch():
		c.batch(data)
	default:
		c.bad(data, err)
	}
	return nil
}

// dispatch takes one message, which may have come in a batch: by method first,
// then by id. If it was a request, dispatch returns what serves it.
func (c *Conn) dispatch(m *dragoman.Message, in *batchReply) func() {
	if c.opts.Logger.Enabled(c.ctx, LevelSteps) { // it may change at any time
		c.opts.Logger.Log(c.ctx, LevelSteps, "recv", "kind", m.Kind().String(), "method", m.Method(), "id", m.ID().String())
	}
	switch {
	case m.Kind() == dragoman.Response:
		c.answer(m)
		return nil
	case LacksID(m) && m.Method() != protocol.MethodBatch: // whose messages are dispatched one by one
		_ = c.RefuseNoID(m) // there is no id to answer
		return nil
	}
	switch held, full := c.barrier.hold(m, in); {
	case full:
		c.end(dragoman.ErrOverloaded)
	case !held:
		return c.process(m, in)
	}
	return nil
}

// process takes a request or notification whose turn it is.
func (c *Conn) process(m *dragoman.Message, in *batchReply) func() {
	if m.Kind() == dragoman.Request {
		return c.handle(m, in)
	}
	c.notification(m)
	return nil
}

// answer gives a response to the call that it belongs to.
func (c *Conn) answer(resp *dragoman.Message) {
	switch c.calls.Answer(resp) {
	case Matched:
	case NoID:
		c.opts.Logger.Warn("error without an id", "error", resp.RPCError().Message)
	default:
		c.opts.Logger.Debug("answer to no call in flight", "id", resp.ID().String())
	}
}

// RefuseNoID drops a request that lacks its id, and returns the error for a transport that can answer it.
func (c *Conn) RefuseNoID(m *dragoman.Message) *dragoman.Error {
	var local dragoman.Peer
	if c.started.Load() {
		local = c.local
	}
	return RefuseNoID(c.ctx, local, m, c.opts.Logger)
}

// notification gives a notification to the call or peer that it belongs to.
func (c *Conn) notification(m *dragoman.Message) {
	switch m.Method() {
	case protocol.NoteProgress:
		c.progress(m)
		return
	case protocol.NoteCancelled:
		c.cancelled(m)
		return
	case protocol.MethodBatch:
		c.unwrapBatch(m)
		return
	case protocol.NoteMessage:
		if c.opts.Server {
			break // a client's log messages are no part of what we asked it
		}
		// A pipe does not say which call it is of.
		if k := c.calls.OnlyLogger(); k != nil && k.From() != nil {
			k.Enqueue(m)
			return
		}
	}
	if list := c.calls.Listens(m); len(list) > 0 {
		for _, k := range list {
			k.Enqueue(k.Incoming(m))
		}
	} else if c.in.Put(m, struct{}{}) {
		return
	}
	c.releaseHeld(m)
}

// progress gives the call its progress, with the caller's token.
func (c *Conn) progress(m *dragoman.Message) {
	if k, own := c.calls.Progress(m); k != nil {
		k.Enqueue(own)
	}
}

// cancelled cancels what the other side asked of us; or it ends a listen of ours,
// the one request that a server may end by cancelling.
func (c *Conn) cancelled(m *dragoman.Message) {
	if id, ok := dragoman.ParseID(m.Get("requestId")); ok && !c.requests.Cancel(id) {
		c.calls.CancelListen(id)
	}
}

// bad answers or skips bytes that are no message.
func (c *Conn) bad(data []byte, err error) {
	if c.opts.Logger.Enabled(context.Background(), slog.LevelDebug) {
		c.opts.Logger.Debug("not a message", "error", err, "bytes", len(data), "text", c.shown(data))
	}
	var p *dragoman.ParseError
	parsed := errors.As(err, &p)
	if parsed && p.Kind == dragoman.Response && c.calls.Fail(p.ID, err) {
		return
	}
	if !c.opts.Server {
		if c.opts.NotMessage != nil && len(data) > 0 {
			c.opts.NotMessage(data)
		}
		return
	}
	if parsed {
		c.mustSend(p.Response())
		return
	}
	c.mustSend(dragoman.NewFailure(dragoman.ID{}, refusal(err)))
}

// badFrame is bad for a frame that was not kept. If it was a request, it is
// refused; if it was the answer to a call, the call fails.
func (c *Conn) badFrame(bad *BadFrame) {
	if !bad.Call.IsZero() {
		c.calls.Fail(bad.Call, bad.Err)
		return
	}
	switch kind, id := Oversize(bad.Head, bad.Tail); {
	case kind == dragoman.Request:
		c.mustSend(dragoman.NewFailure(id, refusal(bad.Err)))
	case kind == dragoman.Notification:
		c.opts.Logger.Debug("notification dropped", "error", bad.Err)
	case kind == dragoman.Response && c.calls.Fail(id, bad.Err):
	default:
		c.bad(bad.Head, bad.Err)
	}
}

// refusal is the error for a message that is refused because of err.
func refusal(err error) *dragoman.Error {
	return &dragoman.Error{Code: protocol.CodeInvalidRequest, Message: "Invalid request: " + err.Error()}
}

// mustSend queues what may not be dropped, without waiting: the goroutine that
// reads must continue. A client that asks without reading the answers is disconnected.
func (c *Conn) mustSend(m *dragoman.Message) {
	if full, _ := c.out.offer(m); full {
		c.end(dragoman.ErrSlow)
	}
}

// shown returns the beginning of what is no message, without secrets. More is masked than is shown, so that
// a secret that is cut is found.
func (c *Conn) shown(data []byte) string {
	text := string(data[:min(len(data), 1024)])
	if c.opts.Mask != nil {
		text = c.opts.Mask(text)
	}
	return redact.Cut(redact.Line(text), 256)
}
