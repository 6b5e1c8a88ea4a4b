package mux

import (
	"context"
	"errors"
	"fmt"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// send queues the request of a call, see put. It fails if the call ends while it
// waits for room.
func (c *Conn) send(ctx context.Context, k *call) (mark uint64, err error) {
	out, err := k.upstream()
	if err != nil {
		return 0, err
	}
	roused := false
	for stop := k.ready; ; roused = true {
		mark, err = c.out.put(ctx, stop, out, false)
		if !errors.Is(err, errRoused) {
			break
		}
		k.mu.Lock()
		over, failure := k.over, k.err
		k.mu.Unlock()
		if errors.Is(failure, context.DeadlineExceeded) {
			// Nothing of it has left, so it may be sent again.
			return 0, fmt.Errorf("%w: the other side does not read what it is sent", dragoman.ErrOverloaded)
		}
		if failure != nil {
			return 0, failure
		}
		if over {
			stop = nil // it is sent even if it has an answer already
		}
	}
	if roused {
		k.wake() // what has come is still to be taken
	}
	return mark, err
}

// errRoused says that put was stopped.
var errRoused = errors.New("mux: stopped waiting for room")

// An outgoing request is one with another id. It is a Frame, and so need not be
// a message of its own.
type outgoing struct {
	req  *dragoman.Message
	id   dragoman.ID
	call *call
}

// MessageOf returns the message that a frame is, or nil if it is several in one.
func MessageOf(f Frame) *dragoman.Message {
	switch f := f.(type) {
	case *dragoman.Message:
		return f
	case outgoing:
		return f.req.WithID(f.id)
	}
	return nil
}

// Len implements Frame.
func (o outgoing) Len() int { return o.req.Len() - len(o.req.ID().String()) + len(o.id.String()) }

// AppendTo implements Frame.
func (o outgoing) AppendTo(dst []byte) []byte { return o.req.AppendWithID(dst, o.id) }

// upstream returns the request as it goes out: with our id, and our token in
// place of the caller's.
func (k *call) upstream() (Frame, error) {
	id, out := dragoman.IntID(k.id), k.req
	if out.Meta(protocol.MetaProgressToken) != nil {
		var err error
		if out, err = out.Edit().SetMeta(protocol.MetaProgressToken, []byte(id.String())).Message(); err != nil {
			return nil, err
		}
	}
	return outgoing{out, id, k}, nil
}
