package peertest

import (
	"context"
	"fmt"
	"sync"

	"github.com/dragoman-mcp/dragoman"
)

var closes = []behaviour{
	{"A09 an idle conversation is closed", 0, true, closeIdle},
	{"A09 a conversation is closed before its first message", 0, false, closeAtOnce},
	{"A09 D08 the dialling side closes while calls are in progress", 0, false, func(t *test) { closeBusy(t, true, false) }},
	{"A09 D08 the accepting side closes while calls are in flight", state, false, func(t *test) { closeBusy(t, false, true) }},
	{"A09 D08 both sides close while calls are in flight", state, false, func(t *test) { closeBusy(t, true, true) }},
	{"the dialling side closes while a question is in progress", questionsInCall, false, func(t *test) { closeAsked(t, false) }},
	{"the accepting side closes while a question is in flight", questionsInCall | state, false, func(t *test) { closeAsked(t, true) }},
	{"closing twice and from many goroutines is closing", 0, true, closeOften},
	{"a callee may close its conversation", state, true, closeByCallee},
	{"a caller's from may close the conversation", questionsInCall, false, closeByFrom},
	{"a call or notification may meet a close", 0, true, closeRaces},
}

// wantEnded fails the test unless the conversation is over for a side.
func (t *test) wantEnded(who string, c dragoman.Conn) {
	t.Helper()
	t.within(c.Done(), "Done is closed: "+who)
	t.wantClosed(c.Err(), who+", Err")
	o := t.call(c, t.request(`"after"`, `{}`), nil)
	t.wantClosed(o.err, who+", Call after the end")
	if !t.opts.ToolsOnly {
		t.wantClosed(c.Notify(t.ctx, t.note(`{}`)), who+", Notify after the end")
	}
}

// wantOpen fails the test if the conversation is over for a side.
func (t *test) wantOpen(who string, c dragoman.Conn) {
	t.Helper()
	select {
	case <-c.Done():
		t.Errorf("%s: Done is closed before the end, Err is %v", who, c.Err())
	default:
		if err := c.Err(); err != nil {
			t.Errorf("%s: Err is %v before the end, want nil", who, err)
		}
	}
}

// sides names the two ends of the conversation that open returned.
func (t *test) sides() (asker, answerer string) {
	if t.reverse {
		return "the accepting side", "the dialling side"
	}
	return "the dialling side", "the accepting side"
}

func closeIdle(t *test) {
	to, back := t.open(dragoman.NoPeer, t.echo())
	asker, answerer := t.sides()
	t.wantWorking(to, `1`)
	t.wantOpen(asker, to)
	if back != nil {
		t.wantOpen(answerer, back)
	}
	t.close(asker, to)
	t.wantEnded(asker, to)
	if back != nil {
		t.other().wantEnded(answerer, back)
		t.close(answerer, back)
	}
}

func closeAtOnce(t *test) {
	opts := *t.opts
	opts.Stateless = true // nobody waits until the other side has noticed
	t.silent, t.opts = true, &opts
	to, _ := t.open(dragoman.NoPeer, t.echo())
	t.wantOpen("the dialling side", to)
	t.close("the dialling side", to)
	t.wantEnded("the dialling side", to)
}

// closeBusy closes while both sides wait for answers.
func closeBusy(t *test, byDialling, byAccepting bool) {
	const n = 10
	started, ended := make(chan string, 2*n), make(chan error, 2*n)
	peer := t.blockingPeer(started, ended)
	to, back := t.open(peer, peer)
	var done []<-chan outcome
	begin := func(t *test, c dragoman.Conn) {
		for i := range n {
			done = append(done, start(t.ctx, c, t.request(fmt.Sprint(i), `{"do":"wait"}`), peer))
			receive(t, started, "the request reaches the callee")
		}
	}
	begin(t, to)
	if t.opts.missing(serverRequests) == "" {
		begin(t.other(), back)
	}
	var wg sync.WaitGroup
	if byDialling {
		wg.Go(func() { _ = to.Close() })
	}
	if byAccepting {
		wg.Go(func() { _ = back.Close() })
	}
	for i := range done {
		o := t.finish(done[i], "the conversation was closed")
		t.wantClosed(o.err, fmt.Sprintf("call %d that was in flight returned %v", i, o))
	}
	if !t.opts.NoCancel {
		for range done {
			_ = receive(t, ended, "the contexts of all callees end")
		}
	}
	closed := make(chan struct{})
	go func() { wg.Wait(); close(closed) }()
	t.within(closed, "Close returns")
	t.wantEnded("the dialling side", to)
	if back != nil {
		t.other().wantEnded("the accepting side", back)
	}
}

// closeAsked closes while a call waits for the answer to its question.
func closeAsked(t *test, byAccepting bool) {
	started, ended := make(chan string, 1), make(chan error, 1)
	asked := make(chan error, 1)
	to, back := t.open(dragoman.NoPeer, dragoman.Funcs{
		OnCall: func(ctx context.Context, _ *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			_, err := ask(ctx, from, `1`, `{"arguments":{"do":"wait"}}`)
			asked <- err
			return nil, err
		},
	})
	done := start(t.ctx, to, t.request(`1`, `{}`), t.blockingPeer(started, ended))
	receive(t, started, "the question reaches the caller")
	if byAccepting {
		t.close("the accepting side", back)
	} else {
		t.close("the dialling side", to)
	}
	o := t.finish(done, "the conversation was closed")
	t.wantClosed(o.err, fmt.Sprintf("the call that was in flight returned %v", o))
	_ = receive(t, ended, "the context of the question's callee ends")
	if err := receive(t, asked, "the question returns"); err == nil {
		t.Error("the question that was in flight returned no error")
	}
	t.wantEnded("the dialling side", to)
	if back != nil {
		t.other().wantEnded("the accepting side", back)
	}
}

func closeOften(t *test) {
	to, back := t.open(dragoman.NoPeer, t.echo())
	asker, answerer := t.sides()
	t.wantWorking(to, `1`)
	closed := make(chan struct{}, 16)
	for i := range cap(closed) {
		c := to
		if i%2 == 1 && back != nil {
			c = back
		}
		go func() {
			_ = c.Close()
			_ = c.Close()
			closed <- struct{}{}
		}()
	}
	for range cap(closed) {
		receive(t, closed, "Close returns")
	}
	t.wantEnded(asker, to)
	if back != nil {
		t.other().wantEnded(answerer, back)
	}
}

// closeByCallee closes from inside a call, which must not wait for itself.
func closeByCallee(t *test) {
	ready := make(chan dragoman.Conn, 1)
	closed := make(chan struct{}, 1)
	to, back := t.open(dragoman.NoPeer, dragoman.Funcs{
		OnCall: func(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			_ = (<-ready).Close()
			closed <- struct{}{}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		},
	})
	asker, answerer := t.sides()
	ready <- back
	o := t.call(to, t.request(`1`, `{}`), nil)
	t.wantClosed(o.err, fmt.Sprintf("the call whose callee closed returned %v", o))
	receive(t, closed, "Close returns inside the callee")
	t.wantEnded(asker, to)
	t.other().wantEnded(answerer, back)
}

func closeByFrom(t *test) {
	ready := make(chan dragoman.Conn, 1)
	closed := make(chan struct{}, 1)
	to, back := t.open(dragoman.NoPeer, dragoman.Funcs{
		OnCall: func(ctx context.Context, _ *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			_, err := ask(ctx, from, `1`, `{}`)
			return nil, err
		},
	})
	ready <- to
	o := t.call(to, t.request(`1`, `{}`), dragoman.Funcs{
		OnCall: func(ctx context.Context, _ *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			_ = (<-ready).Close()
			closed <- struct{}{}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		},
	})
	t.wantClosed(o.err, fmt.Sprintf("the call whose caller closed returned %v", o))
	receive(t, closed, "Close returns inside the caller's from")
	t.wantEnded("the dialling side", to)
	if back != nil {
		t.other().wantEnded("the accepting side", back)
	}
}

// closeRaces closes while calls begin and end: each is answered or closed.
func closeRaces(t *test) {
	to, back := t.open(dragoman.NoPeer, t.echo())
	asker, answerer := t.sides()
	const n = 8
	first := make(chan struct{}, n)
	last := make(chan error, n)
	req, note := t.request(`1`, `{"n":1}`), t.note(`{}`)
	for range n {
		go func() {
			resp, err := to.Call(t.ctx, req, nil)
			first <- struct{}{}
			for err == nil {
				if err = check(outcome{resp, nil}, req, arguments(req)); err != nil {
					break
				}
				if !t.opts.ToolsOnly {
					err = to.Notify(t.ctx, note)
				}
				if err == nil {
					resp, err = to.Call(t.ctx, req, nil)
				}
			}
			last <- err
		}()
	}
	for range n {
		receive(t, first, "the first calls are answered")
	}
	t.close(asker, to)
	for range n {
		t.wantClosed(receive(t, last, "Call or Notify fails after the close"), "Call or Notify during the close")
	}
	t.wantEnded(asker, to)
	if back != nil {
		t.other().wantEnded(answerer, back)
	}
}
