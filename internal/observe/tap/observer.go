package tap

import (
	"context"

	"github.com/dragoman-mcp/dragoman/internal/gateway/event"
	"github.com/dragoman-mcp/dragoman/protocol"
)

var _ event.Observer = (*Hub)(nil)

// Watches implements event.Observer. Messages are shown as the client sees them, of each server.
func (h *Hub) Watches(_ context.Context, l *event.Link) bool {
	return (l.Role == event.ServerEndpoint || l.Role == event.Member) && h.Watched(l.Server)
}

// Message implements event.Observer.
func (h *Hub) Message(_ context.Context, p *event.Passing) {
	from := Client
	if p.Direction == event.ToClient {
		from = Server
	}
	if p.Request == nil {
		e := Of(from, p.Message)
		h.label(&e, p)
		h.Show(e)
		return
	}
	asked := Client
	if from == Client {
		asked = Server
	}
	req := Of(asked, p.Request)
	h.label(&req, p)
	h.Show(AnswerTo(&req, p.Began, p.Message, p.Err))
}

// label notes whose a message is.
func (h *Hub) label(e *Event, p *event.Passing) {
	e.Server, e.Session = p.Server, p.Session
	if e.From == Client && !e.Answer {
		if e.Client = protocol.ClientName(p.Message); p.Request != nil {
			e.Client = protocol.ClientName(p.Request)
		}
		if e.Client == "" {
			e.Client = p.ClientName()
		}
	}
}
