package logs

import (
	"context"
	"log/slog"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/event"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
)

// The ways of messages, which are what the records of them say.
const (
	FromClient = "client → dragoman"
	ToClient   = "dragoman → client"
	FromServer = "server → dragoman"
	ToServer   = "dragoman → server"
)

// Enabled reports whether messages are logged.
func Enabled(log *slog.Logger) bool { return log.Enabled(context.Background(), slog.LevelDebug) }

// Messages is an [event.Observer] that logs all messages of clients and servers at the level
// debug, one record each, in their order and without secrets.
type Messages struct {
	event.Nop
	Log *slog.Logger
}

var _ event.Observer = (*Messages)(nil)

// Watches implements event.Observer. The level may change at any time. What members of an
// aggregate are asked is logged where the aggregate is asked, and where the server is reached.
func (m *Messages) Watches(ctx context.Context, l *event.Link) bool {
	return l.Role != event.Member && m.Log.Enabled(ctx, slog.LevelDebug)
}

// Message implements event.Observer.
func (m *Messages) Message(ctx context.Context, p *event.Passing) {
	log, ways := m.Log, [...]string{event.ToServer: FromClient, event.ToClient: ToClient}
	if p.Role == event.Connection {
		ways = [...]string{event.ToServer: ToServer, event.ToClient: FromServer}
		if p.Server != "" {
			log = log.With("server", p.Server)
		}
	}
	switch {
	case p.Message != nil:
		log.LogAttrs(ctx, slog.LevelDebug, ways[p.Direction], describe(p.Message)...)
	case p.Err != nil:
		log.Debug("no answer", "method", p.Request.Method(), "id", p.Request.ID().String(), "error", p.Err)
	}
}

// describe returns what is logged of a message.
func describe(m *dragoman.Message) []slog.Attr {
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
	return append(attrs, slog.Int("bytes", m.Len()), slog.String("json", redact.JSON(m.AppendTo(nil))))
}
