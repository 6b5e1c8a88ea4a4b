package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/observe/tap"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A tapped peer shows what passes to who taps, as the client sees it: before anything else
// is done with a request, and after all of it. While nobody does, it passes it on.
type tapped struct {
	dragoman.Peer
	taps            *tap.Hub
	server, session string
	client          atomic.Pointer[string] // the name that the client of a conversation gave itself
}

// Unwrap returns what is behind it.
func (p *tapped) Unwrap() dragoman.Peer { return p.Peer }

// Call implements dragoman.Peer.
func (p *tapped) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if p.session != "" && req.Method() == protocol.MethodInitialize {
		name := strings.Clone(redact.Clip(protocol.ClientName(req)))
		p.client.Store(&name)
	}
	if !p.taps.Watched(p.server) {
		return p.Peer.Call(ctx, req, from)
	}
	seen := p.event(req)
	p.taps.Show(seen)
	if from != nil {
		from = tappedClient{from, p.taps, p.server, p.session}
	}
	resp, err := p.Peer.Call(ctx, req, from)
	p.taps.Show(tap.AnswerTo(&seen, seen.Time, resp, err))
	return resp, err
}

// Notify implements dragoman.Peer.
func (p *tapped) Notify(ctx context.Context, note *dragoman.Message) error {
	if p.taps.Watched(p.server) {
		p.taps.Show(p.event(note))
	}
	return p.Peer.Notify(ctx, note)
}

// event returns a message of the client.
func (p *tapped) event(m *dragoman.Message) tap.Event {
	e := tap.Of(tap.Client, m)
	e.Server, e.Session, e.Client = p.server, p.session, protocol.ClientName(m)
	if known := p.client.Load(); e.Client == "" && known != nil {
		e.Client = *known
	}
	return e
}

// A tappedClient is who is asked and told by a server that somebody may look at: the client of
// a conversation, or who has made a request.
type tappedClient struct {
	dragoman.Peer
	taps            *tap.Hub
	server, session string
}

// Unwrap returns the client itself.
func (c tappedClient) Unwrap() dragoman.Peer { return c.Peer }

// Call implements dragoman.Peer.
func (c tappedClient) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if !c.taps.Watched(c.server) {
		return c.Peer.Call(ctx, req, from)
	}
	seen := c.show(req)
	resp, err := c.Peer.Call(ctx, req, from)
	c.taps.Show(tap.AnswerTo(&seen, seen.Time, resp, err))
	return resp, err
}

// Notify implements dragoman.Peer.
func (c tappedClient) Notify(ctx context.Context, note *dragoman.Message) error {
	if c.taps.Watched(c.server) {
		c.show(note)
	}
	return c.Peer.Notify(ctx, note)
}

// show shows what the server asks or tells the client, on its way there.
func (c tappedClient) show(m *dragoman.Message) (seen tap.Event) {
	seen = tap.Of(tap.Server, m)
	seen.Server, seen.Session = c.server, c.session
	c.taps.Show(seen)
	return seen
}

// tapBeat is how often who taps is shown that we are there, while nothing passes.
const tapBeat = 15 * time.Second

// serveTap streams what passes, until who asked has left.
func (g *Gateway) serveTap(w http.ResponseWriter, r *http.Request) {
	server := r.URL.Query().Get("server")
	if server != "" && g.serverOr(w, server) == nil {
		return
	}
	unmasked := r.URL.Query().Get("unmasked") == "true"
	queue, stop := g.taps.Open(server)
	defer stop()
	w.Header().Set("Content-Type", "application/x-ndjson")
	flush := http.NewResponseController(w)
	if flush.Flush() != nil {
		return
	}
	out := json.NewEncoder(w)
	for r.Context().Err() == nil {
		beat, cancel := context.WithTimeout(r.Context(), tapBeat)
		events := queue.Next(beat)
		cancel()
		for _, e := range events {
			if !unmasked {
				e = e.Masked()
			}
			if out.Encode(e) != nil {
				return
			}
		}
		if len(events) == 0 {
			if _, err := w.Write([]byte("\n")); err != nil { // which means nothing to who reads JSON
				return
			}
		}
		if flush.Flush() != nil {
			return
		}
	}
}
