package streamable_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// A strictPeer counts what it is asked, what it is notified of, and what its transport refuses.
type strictPeer struct{ calls, notes, refused atomic.Int64 }

func (p *strictPeer) Call(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	p.calls.Add(1)
	if req.Method() == protocol.MethodInitialize {
		return req.Reply(map[string]any{"protocolVersion": protocol.VersionOf(req), "capabilities": struct{}{}, "serverInfo": map[string]string{"name": "s", "version": "1"}})
	}
	return req.Reply(struct{}{})
}

func (p *strictPeer) Notify(_ context.Context, note *dragoman.Message) error {
	p.notes.Add(1)
	if note.Method() == "notifications/limited" {
		return protocol.Limited(protocol.LimitCaller, "too many", 0)
	}
	return nil
}

// LacksID implements rpc.Refuser.
func (p *strictPeer) LacksID(context.Context, *dragoman.Message) { p.refused.Add(1) }

func TestRequestsWithoutAnIDAreRefused(t *testing.T) {
	const noID, legal = `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"x"}}`, `{"jsonrpc":"2.0","method":"notifications/x"}`
	const refused = `Invalid request: \"tools/call\" without an id`
	p := &strictPeer{}
	s := open(t, &streamable.Server{
		Sessions: dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) { return p, nil }), Requests: p,
	})
	batches := s.hello(protocol.V20250326)
	modern := s.with(protocol.HeaderVersion, protocol.Latest.String())
	rows := []struct {
		site *site
		body string
	}{
		{s.hello(protocol.LatestLegacy), noID},
		{batches, noID},
		{batches, "[" + noID + "]"},
		{batches, "[" + legal + "," + noID + `,{"jsonrpc":"2.0","id":1,"method":"ping"}]`}, // of which nothing is carried out
		{modern, noID},
		{modern, `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"x",` + modernMeta + `}}`},
	}
	calls, notes := p.calls.Load(), p.notes.Load()
	for i, row := range rows {
		row.site.want(row.body, http.StatusBadRequest, refused)
		if p.refused.Load() != int64(i+1) {
			t.Errorf("%s: the peer has learned of %d refusals, want %d", row.body, p.refused.Load(), i+1)
		}
	}
	if p.calls.Load() != calls || p.notes.Load() != notes {
		t.Errorf("%d calls and %d notifications have reached the server", p.calls.Load()-calls, p.notes.Load()-notes)
	}
}

func TestNotificationsOverALimitAreRefused(t *testing.T) {
	const limited = `{"jsonrpc":"2.0","method":"notifications/limited"}`
	p := &strictPeer{}
	s := open(t, &streamable.Server{
		Sessions: dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) { return p, nil }), Requests: p,
	})
	s.hello(protocol.LatestLegacy).want(limited, http.StatusTooManyRequests, "-31004")
	s.with(protocol.HeaderVersion, protocol.Latest.String()).want(limited, http.StatusTooManyRequests, "-31004")
}
