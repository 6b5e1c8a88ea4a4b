package jsonrpc

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// notePrefix begins the methods of all notifications, and of nothing else.
const notePrefix = "notifications/"

// LacksID reports whether a message is a request without an id: it has the form of a notification
// and the method of a request. Many servers carry it out all the same, so no transport passes it on.
func LacksID(m *dragoman.Message) bool {
	return m.Kind() == dragoman.Notification && !strings.HasPrefix(m.Method(), notePrefix)
}

// A Refuser is a Peer that is notified of the messages that its transport refuses because they lack an id.
type Refuser interface {
	LacksID(ctx context.Context, m *dragoman.Message)
}

// RefuseNoID notifies peer, which may be nil, of a message that lacks its id, and returns the error for
// transports that can answer it.
func RefuseNoID(ctx context.Context, peer dragoman.Peer, m *dragoman.Message, log *slog.Logger) *dragoman.Error {
	if r, ok := dragoman.PeerAs[Refuser](peer); ok {
		r.LacksID(ctx, m)
	}
	method := redact.Clip(m.Method())
	log.Debug("message dropped: a request without an id", "method", method)
	return &dragoman.Error{
		Code:    protocol.CodeInvalidRequest,
		Message: fmt.Sprintf("Invalid request: %q without an id; add an id, only methods that begin with %s have none", method, notePrefix),
	}
}
