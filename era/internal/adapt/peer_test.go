package adapt_test

import (
	"context"
	"errors"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestNote(t *testing.T) {
	t.Parallel()
	const none = "none"
	for _, c := range []row{
		{"3.4 progress", v1, v5, protocol.NoteProgress, `{"progressToken":1.0,"progress":1,"message":"m","total":2}`, `{"progressToken":1.0,"progress":1,"total":2}`},
		{"3.4 progress, legacy server", v1, v2, protocol.NoteProgress, `{"message":"m","progress":1}`, `{"progress":1}`},
		{"3.4 progress is fine", v2, v5, protocol.NoteProgress, `{"message":"m"}`, ``},
		{"3.4 progress for a modern client", v5, v1, protocol.NoteProgress, `{"progress":1}`, ``},
		{"a change loses its subscription", v4, v5, protocol.NoteToolsChanged, `{"_meta":{"a":1,"io.modelcontextprotocol/subscriptionId":"s"}}`, `{"_meta":{"a":1}}`},
		{"a change", v5, v4, protocol.NoteResourceUpdated, `{"uri":"u"}`, ``},
		{"a log message", v3, v5, protocol.NoteMessage, `{"level":"info","data":1.0,"message":"x"}`, ``},
		{"an acknowledgement", v4, v5, protocol.NoteAcknowledged, `{}`, none},
		{"a task", v4, v5, protocol.NoteTasks, `{}`, none},
		{"the end of a listen", v4, v5, protocol.NoteCancelled, `{"requestId":1}`, none},
		{"the end of a question, for a modern client", v5, v4, protocol.NoteCancelled, `{"requestId":1}`, none},
		{"the end of a question", v1, v4, protocol.NoteCancelled, `{"requestId":1}`, ``},
		{"a visit that is over", v5, v4, protocol.NoteElicitationComplete, `{"elicitationId":"e"}`, none},
		{"a visit that is over, for an older client", v3, v4, protocol.NoteElicitationComplete, `{"elicitationId":"e"}`, none},
		{"the state of a task", v5, v4, protocol.NoteTaskStatus, `{}`, none},
		{"the state of a task, for an older client", v3, v4, protocol.NoteTaskStatus, `{}`, none},
		{"one that nobody knows", v5, v4, "notifications/x", `{"a":1}`, ``},
		{"the same revision", v5, v5, protocol.NoteAcknowledged, `{}`, ``},
	} {
		note := parse(t, `{"jsonrpc":"2.0","method":"`+c.method+`","params":`+c.in+`}`)
		got := route(c.client, c.server).Note(note)
		if (got == nil) != (c.want == none) {
			t.Errorf("%s: got %v", c.name, got)
		} else if got != nil {
			c.expect(t, note, got, got.Params(), nil)
		}
	}
	bare := parse(t, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	if got := route(v4, v5).Note(bare); got != bare {
		t.Errorf("without params: got %s", got)
	}
}

func TestPeerIsAdaptedOnEveryWay(t *testing.T) {
	t.Parallel()
	var asked, told *dragoman.Message
	client := dragoman.Funcs{
		OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			asked = req
			return req.Reply([]byte(`{"content":[{"type":"text","text":"hi"}],"role":"assistant","model":"m","resultType":"complete"}`))
		},
		OnNotify: func(_ context.Context, note *dragoman.Message) error { told = note; return nil },
	}
	p := route(v1, v5).Peer(client)
	resp, err := p.Call(t.Context(), request(t, sample, `{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}]}`), nil)
	if err != nil || string(resp.Result()) != `{"content":[{"type":"text","text":"hi"}],"role":"assistant","model":"m"}` {
		t.Errorf("answer %s, %v", resp, err)
	}
	if string(asked.Params()) != `{"messages":[{"role":"user","content":{"type":"text","text":"a"}}]}` {
		t.Errorf("asked %s", asked)
	}
	if err := p.Notify(t.Context(), parse(t, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"message":"m","progress":1}}`)); err != nil || told.Get("message") != nil {
		t.Errorf("told %s, %v", told, err)
	}

	asked, told = nil, nil
	req := request(t, elicit, form(``))
	if resp, err = p.Call(t.Context(), req, nil); err != nil || resp.RPCError() == nil || resp.RPCError().Code != protocol.CodeMethodNotFound || resp.ID() != req.ID() || asked != nil {
		t.Errorf("refusal %s, %v, asked %s", resp, err, asked)
	}
	if err := p.Notify(t.Context(), parse(t, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged"}`)); err != nil || told != nil {
		t.Errorf("told %s, %v", told, err)
	}
}

func TestPeerThatNeedsNothingStaysAsItIs(t *testing.T) {
	t.Parallel()
	if route(v1, v5).Peer(nil) != nil {
		t.Error("nil became somebody")
	}
	type named struct{ dragoman.Peer }
	p := &named{dragoman.NoPeer}
	if route(v4, v4).Peer(p) != p {
		t.Error("the same revision needs no other peer")
	}
	if got, ok := dragoman.PeerAs[*named](route(v1, v5).Peer(p)); !ok || got != p {
		t.Error("an adapted peer hides what the peer can do")
	}
	gone := errors.New("gone")
	lost := route(v1, v5).Peer(dragoman.Funcs{OnCall: func(context.Context, *dragoman.Message, dragoman.Peer) (*dragoman.Message, error) { return nil, gone }})
	if resp, err := lost.Call(t.Context(), request(t, "roots/list", `{}`), nil); resp != nil || !errors.Is(err, gone) {
		t.Errorf("got %s, %v", resp, err)
	}
}
