package streamable

import (
	"bytes"
	"errors"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/redact"
	"github.com/dragoman-mcp/dragoman/internal/rpc"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A clientSource is where a message came from: the stream of a call that is under
// way, or one that belongs to none, if call is nil.
type clientSource struct {
	call    *clientCall
	session *clientSession
	late    bool // the stream of a call that has its answer
}

// take takes what a stream of the call brings. It returns the answer, if that
// was it, or why there will be none.
func (k *clientCall) take(data []byte) (*dragoman.Message, error) {
	return k.conn.take(data, clientSource{call: k, session: k.session})
}

// take takes one message, or a batch where the revision has them.
func (c *clientConn) take(data []byte, from clientSource) (*dragoman.Message, error) {
	m, err := c.opts.limits.Parse(data)
	if err == nil {
		return c.dispatch(m, from)
	}
	if errors.Is(err, dragoman.ErrTooLarge) {
		const ends = 256
		kind, id := c.oversize(data[:min(len(data), ends)], data[max(0, len(data)-ends):], from.session)
		if from.call == nil || !from.call.losesBy(kind, id) {
			err = nil
		}
		return nil, err
	}
	if clientIsArray(data) && from.session.batches() {
		return c.batch(data, from)
	}
	c.lost.Add(1)
	c.log.Warn("not a message", "error", err, "text", redact.JSON(data[:min(len(data), 256)]))
	p, ok := errors.AsType[*dragoman.ParseError](err)
	if ok && from.call != nil && p.Kind == dragoman.Response && p.ID == from.call.ID() {
		return nil, err
	}
	return nil, nil
}

func clientIsArray(data []byte) bool {
	data = bytes.TrimLeft(data, " \t\r\n")
	return len(data) > 0 && data[0] == '['
}

// batch takes the messages of an array. The answer, if it is among them, comes
// after the others.
func (c *clientConn) batch(data []byte, from clientSource) (resp *dragoman.Message, err error) {
	parts, bad := dragoman.Elements(data)
	if bad != nil {
		c.lost.Add(1) // what cannot be read is skipped
	}
	for _, part := range parts {
		m, err := c.opts.limits.Parse(part)
		if err != nil {
			c.lost.Add(1)
			continue
		}
		answer, err := c.dispatch(m, from)
		if err != nil {
			return nil, err
		}
		if answer != nil && resp == nil {
			resp = answer
		}
	}
	return resp, nil
}

// dispatch takes one message, by its method first, then by its id.
func (c *clientConn) dispatch(m *dragoman.Message, from clientSource) (*dragoman.Message, error) {
	switch k := from.call; m.Kind() {
	case dragoman.Response:
		return c.response(m, k), nil
	case dragoman.Request:
		if k != nil && k.modern {
			c.lost.Add(1)
			c.log.Warn("the server asks, which its revision does not allow", "method", m.Method())
			return nil, nil
		}
		c.serve(m, from)
		return nil, nil
	default:
		return nil, c.notification(m, from)
	}
}

// response returns the answer to k, and gives answers to others to them.
func (c *clientConn) response(m *dragoman.Message, k *clientCall) *dragoman.Message {
	unnamed := m.ID().IsNull() || m.ID().IsZero()
	if k != nil && (m.ID() == k.ID() || unnamed && m.IsError()) {
		return m
	}
	if unnamed || c.calls.Answer(m) != rpc.Matched {
		c.lost.Add(1) // late, or nobody's
	}
	return nil
}

// notification gives a notification to whom it belongs. The error ends the call
// on whose stream it came.
func (c *clientConn) notification(m *dragoman.Message, from clientSource) error {
	k := from.call
	switch m.Method() {
	case protocol.NoteProgress:
		c.progress(m, k)
		return nil
	case protocol.NoteCancelled:
		id, ok := dragoman.ParseID(m.Get("requestId"))
		if ok && !c.requests.Cancel(id) && k != nil && k.IsListen() && id == k.ID() {
			return dragoman.ErrCancelled
		}
		return nil
	case protocol.NoteToolsChanged:
		c.client.tools.Forget("")
	case protocol.NoteMessage:
		if from.late {
			c.lost.Add(1) // it is of the call, and must not be taken for another's
			return nil
		}
	}
	switch {
	case k == nil || k.From() == nil && !k.modern && !k.IsListen():
		c.enqueue(nil, m)
	default:
		k.tell(k.Incoming(m))
	}
	return nil
}

// progress gives a call its progress, with the caller's token: at once if it
// came on the call's own stream.
func (c *clientConn) progress(m *dragoman.Message, on *clientCall) {
	of, own := c.calls.Progress(m)
	switch {
	case of == nil:
		c.lost.Add(1)
	case of.Owner() == rpc.Owner(on):
		on.tell(own)
	default:
		c.enqueue(of.Owner().(*clientCall), own)
	}
}

// enqueue tells the local peer, or a call, in the background. When there is no room,
// the notification is dropped.
func (c *clientConn) enqueue(k *clientCall, note *dragoman.Message) {
	if !c.in.Put(note, k) {
		c.lost.Add(1)
		c.log.Debug("notification dropped: the local peer is slow to take them", "method", note.Method())
	}
}

// deliver delivers what was enqueued.
func (c *clientConn) deliver(note *dragoman.Message, k *clientCall) {
	if k != nil {
		k.tell(note)
		return
	}
	rpc.Notify(c.ctx, c.local, note, c.log)
}
