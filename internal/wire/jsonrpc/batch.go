package jsonrpc

import (
	"context"
	"errors"
	"sync"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// batch takes an array of messages. The answers to its requests go out
// together, as an array, once all are there.
func (c *Conn) batch(data []byte) {
	parts, err := dragoman.Elements(data)
	if err != nil {
		c.bad(data, err)
		return
	}
	if len(parts) == 0 {
		c.bad(data, &dragoman.ParseError{Code: protocol.CodeInvalidRequest, Reason: "an empty batch"})
		return
	}
	b := &batchReply{conn: c, waiting: 1}
	for _, part := range parts {
		m, err := c.opts.Limits.Parse(part)
		switch {
		case err != nil:
			b.refuse(err)
		case m.Method() == protocol.MethodInitialize:
			b.add(m.Fail(&dragoman.Error{Code: protocol.CodeInvalidRequest, Message: "Invalid request: initialize must not be part of a batch"}))
		default:
			c.workers.do(c.dispatch(m, b))
		}
	}
	if b.last(nil) {
		// Ends when there is room; the goroutine that reads must not wait.
		go b.write()
	}
}

// unwrapBatch takes the messages that a notification with the method "batch"
// carries. Each is answered by itself.
func (c *Conn) unwrapBatch(note *dragoman.Message) {
	list := note.Get("messages")
	if list == nil {
		c.bad(note.Bytes(), &dragoman.ParseError{Code: protocol.CodeInvalidRequest, Reason: "a batch without params.messages"})
		return
	}
	parts, err := dragoman.Elements(list)
	if err != nil {
		c.bad(note.Bytes(), err)
		return
	}
	for _, part := range parts {
		m, err := c.opts.Limits.Parse(part)
		if err != nil {
			c.bad(part, err)
			continue
		}
		if m.Method() == protocol.MethodBatch {
			c.bad(part, &dragoman.ParseError{Code: protocol.CodeInvalidRequest, Reason: "a batch inside a batch"})
			continue
		}
		c.workers.do(c.dispatch(m, nil))
	}
}

// A batchReply gathers the answers to a batch.
type batchReply struct {
	conn *Conn

	mu      sync.Mutex
	parts   []*dragoman.Message
	waiting int // requests without an answer, and one for the batch itself
}

func (b *batchReply) expect() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting++
}

func (b *batchReply) add(m *dragoman.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.parts = append(b.parts, m)
}

func (b *batchReply) refuse(err error) {
	var p *dragoman.ParseError
	if errors.As(err, &p) && b.conn.opts.Server {
		b.add(p.Response())
	}
}

// last takes one answer, which may be nil, and reports whether all are there.
func (b *batchReply) last(m *dragoman.Message) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if m != nil {
		b.parts = append(b.parts, m)
	}
	b.waiting--
	return b.waiting == 0 && len(b.parts) > 0
}

// done takes one answer, which may be nil, and writes all when it was the last.
func (b *batchReply) done(m *dragoman.Message) {
	if b.last(m) {
		b.write()
	}
}

func (b *batchReply) write() { _, _ = b.conn.out.put(context.Background(), nil, array(b.parts), true) }

// An array is messages as one frame.
type array []*dragoman.Message

// AppendTo implements Frame.
func (a array) AppendTo(dst []byte) []byte {
	for i, m := range a {
		if i == 0 {
			dst = append(dst, '[')
		} else {
			dst = append(dst, ',')
		}
		dst = m.AppendTo(dst)
	}
	return append(dst, ']')
}

// Len implements Frame.
func (a array) Len() int {
	n := 1
	for _, m := range a {
		n += m.Len() + 1
	}
	return n
}
