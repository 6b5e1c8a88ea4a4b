package peertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

var faults = []behaviour{
	{"D17 E05 error answers pass unchanged", 0, true, errorsPass},
	{"an unknown method gets an error", anyMethod, true, unknownMethod},
	// A callee on the caller's goroutine hands its panic and its Go error to
	// the caller; there is nobody in between who could turn them into answers.
	{"a callee that panics gives an error answer", ownGoroutine, true, calleePanics},
	{"a callee that returns a Go error gives an error answer", ownGoroutine, true, calleeFails},
	{"a callee that returns nothing gives an error answer", ownGoroutine, true, calleeReturnsNothing},
	{"a peer that panics when told does not end the conversation", ownGoroutine, true, hearerPanics},
}

func errorsPass(t *test) {
	want := []*dragoman.Error{
		{Code: -32602, Message: "Invalid params", Data: json.RawMessage(`{"reason":"no \"x\" \u00e9","at":1.0,"z":1,"a":12345678901234567890}`)},
		{Code: -32000, Message: "line\nbreak, é, \"quotes\"", Data: json.RawMessage(`"text"`)},
		{Code: 42, Message: "no data"},
		{Code: -32603, Message: "null data", Data: json.RawMessage(`null`)},
	}
	to, _ := t.open(dragoman.NoPeer, dragoman.Funcs{
		OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			var params struct{ Arguments struct{ N int } }
			if err := req.Decode(&params); err != nil {
				return nil, err
			}
			return req.Fail(want[params.Arguments.N]), nil
		},
	})
	for i := range want {
		req := t.request(`"E"`, fmt.Sprintf(`{"n":%d}`, i))
		o := t.call(to, req, nil)
		if o.err != nil || !o.resp.IsError() {
			t.Fatalf("Call of what fails with %v\n got %v\nwant an error answer", want[i], o)
		}
		if o.resp.ID() != req.ID() {
			t.Errorf("the error answer has the id %v, want %v", o.resp.ID(), req.ID())
		}
		got := o.resp.RPCError()
		data := want[i].Data
		if string(data) == "null" {
			data = got.Data // absent and null are the same to many
		}
		if got.Code != want[i].Code || got.Message != want[i].Message || !bytes.Equal(got.Data, data) {
			t.Errorf("error answer\n got code %d, message %q, data %s\nwant code %d, message %q, data %s",
				got.Code, got.Message, got.Data, want[i].Code, want[i].Message, want[i].Data)
		}
	}
}

func unknownMethod(t *test) {
	answerer := t.echo()
	to, _ := t.open(dragoman.NoPeer, dragoman.Funcs{
		OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			if req.Method() == "no/such/method" {
				return dragoman.NoPeer.Call(ctx, req, from)
			}
			return answerer.Call(ctx, req, from)
		},
	})
	req := t.parse(`{"jsonrpc":"2.0","id":"u","method":"no/such/method","params":{}}`)
	if !t.reverse {
		req = t.withEnvelope(req)
	}
	t.wantError(t.call(to, req, nil), req, protocol.CodeMethodNotFound)
	t.wantWorking(to, `2`)
}

// wantError fails the test unless o is an error answer to req with that code.
func (t *test) wantError(o outcome, req *dragoman.Message, code int) {
	t.Helper()
	if o.err != nil || o.resp == nil || !o.resp.IsError() || o.resp.RPCError().Code != code {
		t.Fatalf("Call(%s)\n got %v\nwant an error answer with code %d", short(req.String()), o, code)
	}
	if o.resp.ID() != req.ID() {
		t.Errorf("the error answer has the id %v, want %v", o.resp.ID(), req.ID())
	}
}

// faulty shows that a fault of the callee is an error answer to that call and
// nothing more. Another call is in flight meanwhile.
func (t *test) faulty(fault handler) {
	g := newGate()
	to, _ := t.open(dragoman.NoPeer, t.handle(map[string]handler{`{"do":"fault"}`: fault, `{"do":"wait"}`: t.gated(g).OnCall}))
	waits := t.request(`"w"`, `{"do":"wait"}`)
	done := start(t.ctx, to, waits, nil)
	t.awaitArrivals(g, 1)
	for _, id := range []string{`1`, `"1"`} {
		req := t.request(id, `{"do":"fault"}`)
		t.wantError(t.call(to, req, nil), req, protocol.CodeInternal)
	}
	t.wantWorking(to, `2`)
	g.open(arguments(waits))
	t.want(t.finish(done, "the other call"), waits, arguments(waits))
}

func calleePanics(t *test) {
	t.faulty(func(context.Context, *dragoman.Message, dragoman.Peer) (*dragoman.Message, error) {
		panic("peertest: this panic is part of the test")
	})
}

func calleeFails(t *test) {
	t.faulty(func(context.Context, *dragoman.Message, dragoman.Peer) (*dragoman.Message, error) {
		return nil, errors.New("peertest: this error is part of the test")
	})
}

func calleeReturnsNothing(t *test) {
	t.faulty(func(context.Context, *dragoman.Message, dragoman.Peer) (*dragoman.Message, error) {
		return nil, nil
	})
}

func hearerPanics(t *test) {
	if t.opts.ToolsOnly {
		t.Skip("nothing can be told")
	}
	told := make(chan struct{}, 2)
	answerer := t.echo()
	answerer.OnNotify = func(context.Context, *dragoman.Message) error {
		told <- struct{}{}
		panic("peertest: this panic is part of the test")
	}
	to, _ := t.open(dragoman.NoPeer, answerer)
	for range 2 {
		if err := to.Notify(t.ctx, t.note(`{}`)); err != nil {
			t.Fatalf("Notify: %v", err)
		}
		receive(t, told, "the peer is told")
		t.wantWorking(to, `1`)
	}
}
