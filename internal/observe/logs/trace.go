package logs

import (
	"context"
	"log/slog"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
)

// The ways of messages, which are what the records say.
const (
	FromClient = "client → dragoman"
	ToClient   = "dragoman → client"
	FromServer = "server → dragoman"
	ToServer   = "dragoman → server"
)

// Enabled reports whether messages are shown.
func Enabled(log *slog.Logger) bool { return log.Enabled(context.Background(), slog.LevelDebug) }

// Acceptor shows what comes from clients and goes there. The level may change while a
// conversation is open.
func Acceptor(a dragoman.Acceptor, log *slog.Logger) dragoman.Acceptor {
	return dragoman.AcceptFunc(func(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
		p, err := a.Accept(ctx, &conn{client, way{log, ToClient, FromClient}})
		if err != nil {
			return nil, err
		}
		return Client(p, log), nil
	})
}

// Client shows what clients ask and tell p, and its answers.
func Client(p dragoman.Peer, log *slog.Logger) dragoman.Peer {
	return &peer{p, way{log, FromClient, ToClient}}
}

// Dialer shows what goes to a server and comes from there. The level may change while a
// conversation is open.
func Dialer(d dragoman.Dialer, log *slog.Logger) dragoman.Dialer {
	return dragoman.DialFunc(func(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error) {
		if local != nil {
			local = &peer{local, way{log, FromServer, ToServer}}
		}
		c, err := d.Dial(ctx, local)
		if err != nil {
			return nil, err
		}
		return &conn{c, way{log, ToServer, FromServer}}, nil
	})
}

// A way is one of messages, and back.
type way struct {
	log      *slog.Logger
	to, back string
}

// A peer shows what it is asked and told, and its answers.
type peer struct {
	dragoman.Peer
	way way
}

// Unwrap returns the peer itself.
func (p *peer) Unwrap() dragoman.Peer { return p.Peer }

// Call implements dragoman.Peer.
func (p *peer) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	return p.way.call(ctx, p.Peer, req, from)
}

// Notify implements dragoman.Peer.
func (p *peer) Notify(ctx context.Context, note *dragoman.Message) error {
	p.way.show(ctx, p.way.to, note)
	return p.Peer.Notify(ctx, note)
}

// A conn is a peer that is a conversation.
type conn struct {
	dragoman.Conn
	way way
}

// Unwrap returns the conversation itself.
func (c *conn) Unwrap() dragoman.Conn { return c.Conn }

// Call implements dragoman.Peer.
func (c *conn) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	return c.way.call(ctx, c.Conn, req, from)
}

// Notify implements dragoman.Peer.
func (c *conn) Notify(ctx context.Context, note *dragoman.Message) error {
	c.way.show(ctx, c.way.to, note)
	return c.Conn.Notify(ctx, note)
}

func (w way) call(ctx context.Context, p dragoman.Peer, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if !w.log.Enabled(ctx, slog.LevelDebug) {
		return p.Call(ctx, req, from)
	}
	w.show(ctx, w.to, req)
	if from != nil {
		from = &peer{from, way{w.log, w.back, w.to}}
	}
	resp, err := p.Call(ctx, req, from)
	switch {
	case resp != nil:
		w.show(ctx, w.back, resp)
	case err != nil:
		w.log.Debug("no answer", "method", req.Method(), "id", req.ID().String(), "error", err)
	}
	return resp, err
}

// show logs a message.
func (w way) show(ctx context.Context, to string, m *dragoman.Message) {
	if !w.log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	attrs := make([]slog.Attr, 0, 6)
	switch {
	case m.Kind() != dragoman.Response:
		attrs = append(attrs, slog.String("method", m.Method()))
		if name := m.Name(); name != "" {
			attrs = append(attrs, slog.String("name", name))
		}
	case m.IsError():
		attrs = append(attrs, slog.String("kind", "error"))
	default:
		attrs = append(attrs, slog.String("kind", "result"))
	}
	if m.Kind() != dragoman.Notification {
		attrs = append(attrs, slog.String("id", m.ID().String()))
	}
	attrs = append(attrs, slog.Int("bytes", m.Len()), slog.String("json", redact.JSON(m.AppendTo(nil))))
	w.log.LogAttrs(ctx, slog.LevelDebug, to, attrs...)
}
