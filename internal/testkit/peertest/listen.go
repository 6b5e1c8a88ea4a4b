package peertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

var listens = []behaviour{
	{"a listen is named by its caller's id", listening, false, listenNames},
	{"two listens may use the same id at once", listening, false, listensSameID},
	{"a listen in flight is no call to which log messages could belong", listening | notesInCall, false, listenAndLogs},
	{"D10 a cancelled listen reaches the callee", listening | cancelling, false, listenCancelled},
}

// listen makes a request for subscriptions.
func (t *test) listen(id string, n int) *dragoman.Message {
	t.Helper()
	return t.withEnvelope(t.parse(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"subscriptions/listen",`+
		`"params":{"notifications":{"resourceSubscriptions":["test:%d"]},"arguments":{"listen":%d}}}`, id, n, n)))
}

// changes is how many notifications a listen brings, after it has been
// acknowledged.
const changes = 5

// publisher serves listens: it acknowledges, tells changes when g lets
// "change" through, and answers when g lets the listen's arguments through.
// All others it leaves to p.
func (t *test) publisher(g *gate, p dragoman.Peer) dragoman.Funcs {
	return dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
		if req.Method() != protocol.MethodListen {
			return p.Call(ctx, req, from)
		}
		meta := fmt.Sprintf(`"_meta":{"a":1,%q:%s,"z":1.0}`, protocol.MetaSubscriptionID, req.ID())
		note, err := dragoman.NewNotification(protocol.NoteAcknowledged, json.RawMessage(`{`+meta+`,"notifications":{}}`))
		if err := sendNote(ctx, from, note, err); err != nil {
			return nil, err
		}
		if err := g.pass(ctx, "change"); err != nil {
			return nil, err
		}
		for i := range changes {
			note, err := dragoman.NewNotification(protocol.NoteResourceUpdated, json.RawMessage(fmt.Sprintf(`{"uri":"test:%d",%s}`, i, meta)))
			if err := sendNote(ctx, from, note, err); err != nil {
				return nil, err
			}
		}
		if err := g.pass(ctx, arguments(req)); err != nil {
			return nil, err
		}
		return req.Reply(json.RawMessage(`{"resultType":"complete",` + meta + `,"who":` + arguments(req) + `}`))
	}}
}

// wantNamed fails the test unless m names the subscription by the id of req.
func (t *test) wantNamed(m, req *dragoman.Message, method string) {
	t.Helper()
	t.same("the method", m.Method(), method)
	t.same(fmt.Sprintf("the subscription in %s", short(m.String())), string(m.Meta(protocol.MetaSubscriptionID)), req.ID().String())
}

// wantChanges fails the test unless h receives the changes of req, in order.
func (t *test) wantChanges(h *recorder, req *dragoman.Message) {
	t.Helper()
	for i := range changes {
		m := h.next(fmt.Sprintf("change %d of its listen", i))
		t.wantNamed(m, req, protocol.NoteResourceUpdated)
		t.same("the change", m.URI(), fmt.Sprintf("test:%d", i))
		t.same("the rest of _meta", string(m.Meta("a"))+string(m.Meta("z")), "11.0")
	}
}

// wantEnd fails the test unless o ends the listen req.
func (t *test) wantEnd(o outcome, req *dragoman.Message) {
	t.Helper()
	if o.err != nil || o.resp.IsError() || o.resp.ID() != req.ID() || string(o.resp.Get("who")) != arguments(req) {
		t.Fatalf("Call(%s)\n got %v\nwant the result for %s", req, o, arguments(req))
	}
	t.wantNamed(o.resp, req, "")
}

func listenNames(t *test) {
	g := newGate()
	outside := t.recorder("the dialling side outside of its calls", nil)
	to, _ := t.open(outside, t.publisher(g, t.echo()))
	g.open("change")
	for n, id := range ids {
		h := t.recorder("the listen "+id, nil)
		req := t.listen(id, n)
		done := t.callWith(to, req, h)
		t.wantNamed(h.next("that it is acknowledged"), req, protocol.NoteAcknowledged)
		t.wantChanges(h, req)
		t.wantWorking(to, id)
		g.open(arguments(req))
		t.wantEnd(t.finish(done, short(req.String())), req)
	}
	outside.wantNothing()
}

func listensSameID(t *test) {
	g := newGate()
	to, _ := t.open(dragoman.NoPeer, t.publisher(g, t.echo()))
	const n = 3
	var reqs [n]*dragoman.Message
	var hs [n]*recorder
	var done [n]<-chan outcome
	for i := range n {
		reqs[i] = t.listen(`"l\u0069sten"`, i)
		hs[i] = t.recorder(fmt.Sprintf("listen %d", i), nil)
		done[i] = t.callWith(to, reqs[i], hs[i])
	}
	for i := range n {
		t.wantNamed(hs[i].next("that it is acknowledged"), reqs[i], protocol.NoteAcknowledged)
	}
	g.open("change")
	for i := range n {
		t.wantChanges(hs[i], reqs[i])
	}
	for i := n - 1; i >= 0; i-- {
		g.open(arguments(reqs[i]))
		t.wantEnd(t.finish(done[i], short(reqs[i].String())), reqs[i])
		hs[i].wantNothing()
	}
}

func listenAndLogs(t *test) {
	g := newGate()
	calls := newGate()
	to, _ := t.open(dragoman.NoPeer, t.publisher(g, dragoman.Funcs{
		OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			note, err := logNote("one")
			if err := sendNote(ctx, from, note, err); err != nil {
				return nil, err
			}
			if err := calls.pass(ctx, arguments(req)); err != nil {
				return nil, err
			}
			note, err = logNote("two")
			if err := sendNote(ctx, from, note, err); err != nil {
				return nil, err
			}
			return t.answer(req, "logged")
		},
	}))
	listens := t.recorder("the listen", nil)
	listen := t.listen(`1`, 1)
	listened := t.callWith(to, listen, listens)
	listens.next("that it is acknowledged")

	caller := t.recorder("the caller", nil)
	req := t.request(`"1"`, `{}`)
	done := t.callWith(to, req, caller)
	t.awaitArrivals(calls, 1)
	g.open("change") // in the middle of the call
	t.wantChanges(listens, listen)
	calls.open(`{}`)
	t.want(t.finish(done, "the call beside the listen"), req, "logged")
	for _, want := range []string{`"one"`, `"two"`} {
		m := caller.next("the log message " + want)
		t.same("what the caller hears", m.Method()+" "+string(m.Get("data")), protocol.NoteMessage+" "+want)
	}
	caller.wantNothing()
	listens.wantNothing()
	g.open(arguments(listen))
	t.wantEnd(t.finish(listened, "the listen"), listen)
}

func listenCancelled(t *test) {
	g := newGate()
	ended := make(chan struct{}, 1)
	p := t.publisher(g, t.echo())
	to, _ := t.open(dragoman.NoPeer, dragoman.Funcs{
		OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			resp, err := p.Call(ctx, req, from)
			if ctx.Err() != nil {
				ended <- struct{}{}
			}
			return resp, err
		},
	})
	for range 2 {
		h := t.recorder("the listen", nil)
		ctx, cancel := context.WithCancelCause(t.ctx)
		done := h.during(ctx, to, t.listen(`1`, 1))
		h.next("that it is acknowledged")
		cancel(errGivenUp)
		if o := t.finish(done, "its context has ended"); !errors.Is(o.err, errGivenUp) {
			t.Errorf("the cancelled listen returned %v, want the error %q", o, errGivenUp)
		}
		receive(t, ended, "the callee's context ends")
		t.wantWorking(to, `1`)
	}
}
