package mux

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/redact"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// frame takes one frame: a message, or a batch where the revision has them. If
// it was a request, frame returns what serves it.
func (c *Conn) frame(data []byte) func() {
	m, err := c.opts.Limits.Parse(data)
	if err != nil && !c.opts.Server && !utf8.Valid(data) {
		c.counters.junk.Add(1)
		m, err = c.opts.Limits.Parse(bytes.ToValidUTF8(data, []byte("\uFFFD")))
	}
	switch {
	case err == nil:
		return c.dispatch(m, nil)
	case isArray(data) && c.Revision().HasBatch():
		c.batch(data)
	default:
		c.bad(data, err)
	}
	return nil
}

func isArray(data []byte) bool {
	data = bytes.TrimLeft(data, " \t\r\n")
	return len(data) > 0 && data[0] == '['
}

// dispatch takes one message, which may have come in a batch: by method first,
// then by id. If it was a request, dispatch returns what serves it.
func (c *Conn) dispatch(m *dragoman.Message, in *answers) func() {
	if c.opts.Logger.Enabled(c.ctx, slog.LevelDebug) { // it may change at any time
		c.opts.Logger.Debug("recv", "kind", m.Kind().String(), "method", m.Method(), "id", m.ID().String())
	}
	if m.Kind() == dragoman.Response {
		c.answer(m)
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
func (c *Conn) process(m *dragoman.Message, in *answers) func() {
	if m.Kind() == dragoman.Request {
		return c.handle(m, in)
	}
	c.notification(m)
	return nil
}

// answer gives a response to the call that it belongs to.
func (c *Conn) answer(resp *dragoman.Message) {
	if resp.IsError() && (resp.ID().IsZero() || resp.ID().IsNull()) {
		// The other side could not read what we sent, and so not its id. If
		// there is but one call, it was that.
		if k := c.calls.only(); k != nil {
			c.calls.remove(k.id)
			k.answer(resp, nil)
			return
		}
		c.counters.unknown.Add(1)
		c.opts.Logger.Warn("error without an id", "error", resp.RPCError().Message)
		return
	}
	id, _ := resp.ID().Int() // what is no number is no id of ours
	k, late := c.calls.remove(id)
	switch {
	case k != nil:
		k.answer(resp, nil)
	case late:
		c.counters.late.Add(1)
	default:
		c.counters.unknown.Add(1)
		c.opts.Logger.Debug("answer to an unknown call", "id", resp.ID().String())
	}
}

// owner returns the call that a request or log message of a server belongs to, or
// nil: the only one under way, because a pipe does not say which. A client's
// requests and log messages are no part of what we asked it.
func (c *Conn) owner() *call {
	if c.opts.Server {
		return nil
	}
	return c.calls.only()
}

// notification gives a notification to whom it belongs to.
func (c *Conn) notification(m *dragoman.Message) {
	switch m.Method() {
	case protocol.NoteProgress:
		c.progress(m)
		return
	case protocol.NoteCancelled:
		c.stop(m)
		return
	case protocol.MethodBatch:
		c.wrapped(m)
		return
	case protocol.NoteMessage:
		if k := c.owner(); k != nil && k.from != nil {
			c.tell(k, m)
			return
		}
	}
	if id, ok := number(m.Meta(protocol.MetaSubscriptionID)); ok {
		if k := c.calls.get(id); k != nil && k.listen {
			c.tell(k, k.subscription(m))
			return
		}
	}
	if c.untagged(m) || !c.in.put(m) {
		c.releaseHeld(m)
	}
}

// untagged gives a change that does not say to which listen it belongs, as servers
// of some libraries send it, to all that want to know. It tells whether there are any.
func (c *Conn) untagged(m *dragoman.Message) (any bool) {
	if m.Meta(protocol.MetaSubscriptionID) != nil {
		return false
	}
	for _, k := range c.calls.listens() {
		var wanted protocol.Interest
		if json.Unmarshal(k.req.Get("notifications"), &wanted) == nil && wanted.Wants(m.Method(), m.URI()) {
			any = true
			c.tell(k, k.subscription(m))
		}
	}
	return any
}

func (c *Conn) tell(k *call, note *dragoman.Message) {
	if !k.tell(note) {
		c.counters.dropped.Add(1)
	}
}

// progress gives the call its progress, with the caller's token.
func (c *Conn) progress(m *dragoman.Message) {
	id, ok := number(m.Get("progressToken"))
	k := c.calls.get(id)
	if !ok || k == nil {
		c.counters.unknown.Add(1)
		return
	}
	c.calls.renew(k)
	token := k.req.Meta(protocol.MetaProgressToken)
	if token == nil {
		c.counters.unknown.Add(1)
		return
	}
	own, err := m.Edit().Set("progressToken", token).Message()
	if err != nil {
		c.counters.junk.Add(1)
		return
	}
	c.tell(k, own)
}

// stop cancels what the other side asked of us; or it ends a listen of ours,
// the one request that a server may end by cancelling.
func (c *Conn) stop(m *dragoman.Message) {
	id, ok := dragoman.ParseID(m.Get("requestId"))
	if !ok || c.serve.stop(id) {
		return
	}
	n, _ := id.Int()
	if k := c.calls.get(n); k != nil && k.listen {
		c.calls.remove(n)
		k.answer(nil, dragoman.ErrCancelled)
	}
}

// bad answers or skips bytes that are no message.
func (c *Conn) bad(data []byte, err error) {
	c.counters.junk.Add(1)
	c.opts.Logger.Debug("not a message", "error", err, "bytes", len(data), "text", redact.JSON(head(data)))
	var p *dragoman.ParseError
	parsed := errors.As(err, &p)
	if parsed && p.Kind == dragoman.Response && c.fail(p.ID, err) || !c.opts.Server {
		return
	}
	if parsed {
		c.mustSend(p.Response())
		return
	}
	c.mustSend(dragoman.NewFailure(dragoman.ID{}, refusal(err)))
}

// fail ends the call with that id, if there is one, because its answer cannot
// be read.
func (c *Conn) fail(id dragoman.ID, err error) bool {
	n, _ := id.Int()
	k, _ := c.calls.remove(n)
	if k != nil {
		k.answer(nil, err)
	}
	return k != nil
}

// badFrame is bad for a frame that was not kept. If it was a request, it is
// refused; if it was the answer to a call, that call gets to know.
func (c *Conn) badFrame(bad *BadFrame) {
	if !bad.Call.IsZero() {
		c.fail(bad.Call, bad.Err)
		return
	}
	switch kind, id := Oversize(bad.Head, bad.Tail); {
	case kind == dragoman.Request:
		c.counters.junk.Add(1)
		c.mustSend(dragoman.NewFailure(id, refusal(bad.Err)))
	case kind == dragoman.Response && c.fail(id, bad.Err):
		c.counters.junk.Add(1)
	default:
		c.bad(bad.Head, bad.Err)
	}
}

// refusal is the error for a message that is refused because of err.
func refusal(err error) *dragoman.Error {
	return &dragoman.Error{Code: protocol.CodeInvalidRequest, Message: "Invalid request: " + err.Error()}
}

// mustSend queues what may not be dropped, without waiting: the goroutine that
// reads must go on. Who asks without reading the answers is cut.
func (c *Conn) mustSend(m *dragoman.Message) {
	if full, _ := c.out.offer(m); full {
		c.end(dragoman.ErrSlow)
	}
}

// head returns the beginning of text, for a log.
func head(text []byte) []byte { return text[:min(len(text), 256)] }
