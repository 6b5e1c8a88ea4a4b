package peertest

import (
	"context"
	"fmt"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

var notes = []behaviour{
	{"D07 notifications outside of calls arrive in order", anyMethod, true, notesInOrder},
	{"notifications and calls do not hold each other up", anyMethod, true, notesAmongCalls},
	{"requests without an id are dropped", anyMethod | ownGoroutine, true, withoutID},
	{"log messages reach the only call in flight", notesInCall, false, logsReachCall},
	{"notifications inside a call arrive in order and before the answer", notesInCall, true, notesBeforeAnswer},
	{"a caller without a from gets its answer", notesInCall, true, callWithoutFrom},
	{"a side without a local peer refuses questions", serverRequests, false, noLocalPeer},
}

func notesInOrder(t *test) {
	h := t.recorder("the answering side", nil)
	asker := t.recorder("the asking side", nil)
	to, _ := t.open(asker, h)
	const n = 100
	sent := make([]*dragoman.Message, n)
	for i := range n {
		sent[i] = t.note(fmt.Sprintf(`{"uri":"test:%d","n":%d.0,"s":"\u00e9"}`, i, i))
		if err := to.Notify(t.ctx, sent[i]); err != nil {
			t.Fatalf("Notify(%s): %v", sent[i], err)
		}
	}
	for i := range n {
		got := h.next(fmt.Sprintf("notification %d of %d", i, n))
		t.same(fmt.Sprintf("notification %d", i), got.String(), sent[i].String())
	}
	h.wantNothing()
	asker.wantNothing()
}

func notesAmongCalls(t *test) {
	told := make(chan string, 64)
	answerer := t.echo()
	answerer.OnNotify = func(_ context.Context, note *dragoman.Message) error {
		told <- note.URI()
		return nil
	}
	to, _ := t.open(dragoman.NoPeer, answerer)
	for i := range 20 {
		uri := fmt.Sprintf("test:%d", i)
		if err := to.Notify(t.ctx, t.note(fmt.Sprintf(`{"uri":%q}`, uri))); err != nil {
			t.Fatalf("Notify: %v", err)
		}
		t.wantWorking(to, fmt.Sprint(i))
		t.same("params.uri", receive(t, told, "notification "+uri), uri)
	}
}

// withoutID sends requests that lack their id, between others. A side that learns that they were refused is right.
func withoutID(t *test) {
	answerer := t.echo()
	told := make(chan string, 64)
	answerer.OnNotify = func(_ context.Context, note *dragoman.Message) error {
		told <- note.Method() + " " + note.URI()
		return nil
	}
	to, _ := t.open(dragoman.NoPeer, answerer)
	for i, method := range []string{protocol.MethodCallTool, protocol.MethodSubscribe, protocol.MethodInitialize, protocol.MethodPing, "x-acme/admin", "Notifications/x", "notifications"} {
		uri := fmt.Sprintf("test:%d", i)
		_ = to.Notify(t.ctx, t.withEnvelope(t.parse(fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":{"name":"peertest","uri":%q}}`, method, uri))))
		t.wantWorking(to, fmt.Sprint(i))
		note := t.note(fmt.Sprintf(`{"uri":%q}`, uri))
		if err := to.Notify(t.ctx, note); err != nil {
			t.Fatalf("Notify: %v", err)
		}
		t.same("what is received", receive(t, told, "notification "+uri), note.Method()+" "+uri)
	}
}

func logsReachCall(t *test) {
	outside := t.recorder("the asking side outside of its calls", nil)
	to, _ := t.open(outside, dragoman.Funcs{
		OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			for i := range 20 {
				note, err := logNote(fmt.Sprint(i))
				if err := sendNote(ctx, from, note, err); err != nil {
					return nil, err
				}
			}
			return t.answer(req, "logged")
		},
	})
	for round := range 3 {
		h := t.recorder(fmt.Sprintf("the caller in round %d", round), nil)
		req := t.request(`1`, `{}`)
		t.want(t.finish(t.callWith(to, req, h), "the call that logs"), req, "logged")
		all := h.all()
		if len(all) != 20 {
			t.Errorf("%d of 20 log messages came to the caller before the answer in round %d", len(all), round)
		}
		for i, m := range all {
			t.same("the method", m.Method(), protocol.NoteMessage)
			t.same(fmt.Sprintf("log message %d", i), string(m.Get("data")), fmt.Sprintf("%q", fmt.Sprint(i)))
		}
	}
	outside.wantNothing()
}

// notesBeforeAnswer mixes kinds: they share one order. Clients have no log messages.
func notesBeforeAnswer(t *test) {
	const n = 50
	to, _ := t.open(dragoman.NoPeer, dragoman.Funcs{
		OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			for i := range n {
				note, err := logNote(fmt.Sprint(i))
				if i%2 == 1 || t.reverse {
					note, err = progressNote(req.Meta(protocol.MetaProgressToken), i, fmt.Sprint(i))
				}
				if err := sendNote(ctx, from, note, err); err != nil {
					return nil, err
				}
			}
			return t.answer(req, "told")
		},
	})
	h := t.recorder("the caller", nil)
	req := t.requestWith(`1`, `{}`, `,"_meta":{"progressToken":"p"}`)
	t.want(t.finish(t.callWith(to, req, h), "the call that tells"), req, "told")
	all := h.all()
	if len(all) != n {
		t.Errorf("%d of %d notifications came before the answer", len(all), n)
	}
	for i, m := range all {
		got := m.Get("data")
		if i%2 == 1 || t.reverse {
			got = m.Get("message")
		}
		t.same(fmt.Sprintf("notification %d, %s,", i, m.Method()), string(got), fmt.Sprintf("%q", fmt.Sprint(i)))
	}
}

func callWithoutFrom(t *test) {
	to, _ := t.open(dragoman.NoPeer, dragoman.Funcs{
		OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			for i := range 20 {
				note, err := progressNote(req.Meta(protocol.MetaProgressToken), i, "on the way")
				if err := sendNote(ctx, from, note, err); err != nil {
					return nil, err
				}
				note, err = logNote("on the way")
				if err := sendNote(ctx, from, note, err); err != nil {
					return nil, err
				}
			}
			return t.answer(req, "no from")
		},
	})
	for range 3 {
		req := t.requestWith(`1`, `{}`, `,"_meta":{"progressToken":1}`)
		t.want(t.call(to, req, nil), req, "no from")
	}
}

func noLocalPeer(t *test) {
	to, back := t.open(nil, t.echo())
	req := t.other().request(`"q"`, `{}`)
	t.wantError(t.call(back, req, nil), req, protocol.CodeMethodNotFound)
	if err := back.Notify(t.ctx, t.other().note(`{"uri":"test:1"}`)); err != nil {
		t.Errorf("Notify: %v", err)
	}
	t.wantWorking(to, `1`)
}
