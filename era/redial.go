package era

import (
	"context"
	"fmt"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// get returns a conversation with the server that is not over.
func (v *straight) get(ctx context.Context) (dragoman.Conn, error) {
	if conn, ok := v.conn.peek(); ok {
		if conn.Err() == nil {
			return conn, nil
		}
		v.conn.forget(func(c dragoman.Conn) bool { return c == conn })
	}
	return v.conn.get(ctx, v.server, v.open)
}

// open opens a conversation and takes up on it where the one before ended.
func (v *straight) open(ctx context.Context) (dragoman.Conn, error) {
	conn, err := v.server.dial(ctx, (*hearer)(v))
	if err != nil {
		return nil, err
	}
	if err := v.takeUp(ctx, conn); err != nil || v.over() {
		v.server.discard(conn)
		if err == nil {
			err = dragoman.ErrClosed
		}
		return nil, err
	}
	select {
	case <-v.opened: // over by now
	default:
	}
	v.opened <- conn // there is room: nobody else opens one meanwhile
	return conn, nil
}

// attend closes the conversation with the server when the client has gone. When
// it is lost before, and the client has subscribed to something, it is opened
// anew, a few times: such a client may wait for news without asking for anything.
func (v *straight) attend() {
	var (
		lost   <-chan struct{}
		began  time.Time
		losses int
	)
	for {
		select {
		case <-v.client.Done():
		case <-v.server.ctx.Done():
		case conn := <-v.opened:
			lost, began = conn.Done(), time.Now()
			continue
		case <-lost:
			lost = nil
			if time.Since(began) > steady {
				losses = 0
			}
			losses = v.reopen(losses)
			continue
		}
		if conn, ok := v.conn.last(); ok {
			_ = conn.Close()
		}
		return
	}
}

// reopen opens a conversation that the client needs, after so many losses in a
// row. It returns how many there have been.
func (v *straight) reopen(losses int) int {
	for losses < maxLosses && v.subscribes() {
		losses++
		if !v.server.pause(v.client.Done(), losses) {
			break
		}
		if _, err := v.get(v.server.ctx); err == nil {
			break
		}
	}
	return losses
}

func (v *straight) subscribes() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.subscribed) > 0
}

// takeUp repeats what the server knew, if it knew anything.
func (v *straight) takeUp(ctx context.Context, conn dragoman.Conn) error {
	v.mu.Lock()
	hello, ready, route := v.hello, v.ready, v.route
	again := make([]*dragoman.Message, 0, len(v.subscribed)+1)
	if v.level != nil {
		again = append(again, v.level)
	}
	for _, req := range v.subscribed {
		again = append(again, req)
	}
	v.mu.Unlock()
	if hello == nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, orDefault(v.server.DialTimeout, DefaultDialTimeout), errDial)
	defer cancel()
	resp, err := conn.Call(ctx, hello, nil)
	switch {
	case err != nil:
		return err
	case resp.IsError():
		return resp.RPCError()
	case text(resp.Get("protocolVersion")) != route.Server.String():
		return fmt.Errorf("era: the server has come back with another revision, %q", text(resp.Get("protocolVersion")))
	}
	if ready != nil {
		if err := conn.Notify(ctx, ready); err != nil {
			return err
		}
	}
	for _, req := range again {
		if _, err := conn.Call(ctx, req.WithID(v.server.repeatID()), nil); err != nil {
			return err
		}
	}
	v.announce(ctx, again)
	return nil
}

// repeatID is the id of something that we send once more. No two are under way
// with one.
func (s *Server) repeatID() dragoman.ID {
	return dragoman.StringID(fmt.Sprintf("again-%d", s.repeats.Add(1)))
}

// announce tells the client what may have changed while nobody listened.
func (v *straight) announce(ctx context.Context, subscriptions []*dragoman.Message) {
	v.mu.Lock()
	caps, route := v.caps, v.route
	v.mu.Unlock()
	lost := protocol.ListsOf(caps)
	for _, req := range subscriptions {
		if req.Method() == protocol.MethodSubscribe {
			lost.URIs = append(lost.URIs, req.URI())
		}
	}
	for note := range lost.Reminders() {
		if err := route.Peer(v.client).Notify(ctx, note); err != nil {
			v.server.log.Debug("a client was not told of a change", "method", note.Method(), "error", err)
		}
	}
}

// A hearer is the client as the server sees it outside of any call.
type hearer straight

func (h *hearer) peer() dragoman.Peer {
	v := (*straight)(h)
	return v.revisions().Peer(v.client)
}

func (h *hearer) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	return h.peer().Call(ctx, req, from)
}

func (h *hearer) Notify(ctx context.Context, note *dragoman.Message) error {
	return h.peer().Notify(ctx, note)
}
