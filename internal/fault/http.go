package fault

import (
	"context"
	"errors"
	"net/http"

	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/sse"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
	"github.com/dragoman-mcp/dragoman/transport/toolhttp"
	"github.com/dragoman-mcp/dragoman/transport/ws"
)

// A Handler serves a Server over HTTP: /mcp is Streamable HTTP, /sse and /messages
// are HTTP+SSE, /ws is WebSocket, /call takes tool calls.
type Handler struct {
	mux     *http.ServeMux
	streams *streamable.Server
	events  *sse.Server
	sockets *ws.Server
	calls   *toolhttp.Server
}

// Handler returns a handler, whose conversations end with its Shutdown.
func (s *Server) Handler() *Handler {
	h := &Handler{
		mux:     http.NewServeMux(),
		streams: &streamable.Server{},
		events:  &sse.Server{Acceptor: s},
		sockets: &ws.Server{Acceptor: s, Requests: s.Requests()},
		calls:   &toolhttp.Server{Requests: s.Requests()},
	}
	if s.serves(protocol.Legacy) {
		h.streams.Sessions = s
	}
	if s.serves(protocol.Modern) {
		h.streams.Requests = s.Requests()
	}
	h.mux.Handle("/mcp", h.streams)
	h.mux.Handle("/sse", h.events.Stream())
	h.mux.Handle("/messages", h.events.Messages())
	h.mux.Handle("/ws", h.sockets)
	h.mux.Handle("/call", http.StripPrefix("/call", h.calls))
	h.mux.Handle("/call/", http.StripPrefix("/call", h.calls))
	return h
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// Shutdown ends all conversations, at once if ctx has ended.
func (h *Handler) Shutdown(ctx context.Context) error {
	return errors.Join(h.streams.Shutdown(ctx), h.events.Shutdown(ctx), h.sockets.Shutdown(ctx), h.calls.Shutdown(ctx))
}
