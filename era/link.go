package era

import (
	"context"
	"errors"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A link is the conversation with a modern server, which everybody shares. It is
// opened when it is first needed, and anew when it was lost.
type link struct {
	server *Server
	conn   flight[dragoman.Conn]
}

// Call passes a request on. One whose conversation was lost under way is sent
// again only if that does no harm.
func (l *link) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	for again := false; ; again = true {
		conn, err := l.get(ctx)
		if err != nil {
			return unavailable(ctx, req, err)
		}
		resp, err := conn.Call(ctx, req, from)
		if err == nil || again || !errors.Is(err, dragoman.ErrClosed) || !protocol.Repeatable(req.Method()) || ctx.Err() != nil {
			return resp, err
		}
	}
}

// Notify drops it: see requests.
func (l *link) Notify(context.Context, *dragoman.Message) error { return nil }

// get returns a conversation that is not over.
func (l *link) get(ctx context.Context) (dragoman.Conn, error) {
	if conn, ok := l.conn.peek(); ok {
		if conn.Err() == nil {
			return conn, nil
		}
		l.conn.forget(func(c dragoman.Conn) bool { return c == conn })
	}
	return l.conn.get(ctx, l.server, func(ctx context.Context) (dragoman.Conn, error) {
		return l.server.open(ctx, nil)
	})
}

// adopt makes a conversation the one that is shared, if there is none.
func (l *link) adopt(conn dragoman.Conn) {
	l.conn.mu.Lock()
	taken := l.conn.value == nil
	if taken {
		l.conn.value = &conn
	}
	l.conn.mu.Unlock()
	if !taken {
		l.server.discard(conn)
	}
}

func (l *link) close() error {
	if conn, ok := l.conn.peek(); ok {
		return conn.Close()
	}
	return nil
}
