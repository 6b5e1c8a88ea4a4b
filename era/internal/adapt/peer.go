package adapt

import (
	"context"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Peer returns p, who is the client as the server sees it, such that everything
// is adapted on its way: what the server asks and tells, and what the client
// answers. nil stays nil.
func (r Route) Peer(p dragoman.Peer) dragoman.Peer {
	if p == nil || r.Same() {
		return p
	}
	return peer{r, p}
}

type peer struct {
	route  Route
	client dragoman.Peer
}

// Unwrap returns the client itself.
func (p peer) Unwrap() dragoman.Peer { return p.client }

// Call asks the client what the server asks. What the client cannot be asked is
// refused on its behalf.
func (p peer) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	question, refusal := p.route.ServerRequest(req)
	if refusal != nil {
		return req.Fail(refusal), nil
	}
	resp, err := p.client.Call(ctx, question, from)
	if err != nil || resp == nil {
		return resp, err
	}
	answer, err := p.route.Answer(req.Method(), resp)
	if err != nil {
		return protocol.Failure(req, err), nil
	}
	return answer, nil
}

// Notify tells the client what its revision has a word for.
func (p peer) Notify(ctx context.Context, note *dragoman.Message) error {
	if note = p.route.Note(note); note == nil {
		return nil
	}
	return p.client.Notify(ctx, note)
}
