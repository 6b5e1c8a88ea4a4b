package peertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

var questions = []behaviour{
	{"a question inside a call reaches its caller", questionsInCall, false, questionInside},
	{"E05 error answers to questions pass unchanged", questionsInCall, false, questionFails},
	{"many questions inside one call are answered in any order", questionsInCall, false, manyQuestions},
	{"questions inside questions are answered", questionsInCall, false, nestedQuestions},
	{"a call made while a question is open is no part of it", questionsInCall, false, callDuringQuestion},
	{"progress of a question reaches who asked it", questionsInCall | notesInCall, false, questionProgress},
	{"D10 a cancelled question reaches its callee and the call continues", questionsInCall | cancelling, false, questionCancelled},
	{"D10 a cancelled call takes its question along", questionsInCall | cancelling, false, callCancelledInQuestion},
}

// ask asks from and tells what is wrong with a Go error.
func ask(ctx context.Context, from dragoman.Peer, id, params string) (*dragoman.Message, error) {
	if from == nil {
		return nil, errors.New("peertest: the callee was given no from")
	}
	q, err := question(id, params)
	if err != nil {
		return nil, err
	}
	return from.Call(ctx, q, nil)
}

func questionInside(t *test) {
	const params = `{"message":"?","z":1,"n":12345678901234567890,"f":1.50,"e":"\u00e9"}`
	const result = `{"action":"accept","content":{"z":1,"a":98765432109876543210,"f":2.50,"e":"\u00e9"}}`
	outside := t.recorder("the dialling side outside of its calls", nil)
	to, _ := t.open(outside, dragoman.Funcs{
		OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			for _, id := range append([]string{req.ID().String()}, ids...) {
				resp, err := ask(ctx, from, id, params)
				if err != nil {
					return t.answer(req, fmt.Sprintf("question %s has no answer: %v", id, err))
				}
				if resp.ID().String() != id || string(resp.Result()) != result {
					return t.answer(req, fmt.Sprintf("question %s is answered by %s, want %s", id, resp, result))
				}
			}
			return t.answer(req, "good answers")
		},
	})
	h := t.recorder("the caller", func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		return req.Reply(json.RawMessage(result))
	})
	req := t.request(`1`, `{}`)
	t.want(t.finish(t.callWith(to, req, h), "the call that asks"), req, "good answers")
	for _, q := range h.all() {
		t.same("the question's method", q.Method(), protocol.MethodElicit)
		t.same("the question's params", string(q.Params()), params)
	}
	outside.wantNothing()
}

func questionFails(t *test) {
	want := &dragoman.Error{Code: -1, Message: "User rejected é", Data: json.RawMessage(`{"reason":"\u00e9","n":1.0}`)}
	to, _ := t.open(dragoman.NoPeer, t.handle(map[string]handler{
		`{"do":"ask"}`: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			resp, err := ask(ctx, from, `"q"`, `{}`)
			if err != nil || !resp.IsError() {
				return t.answer(req, fmt.Sprintf("the question got %v, error %v", resp, err))
			}
			return req.Fail(resp.RPCError()), nil
		},
	}))
	h := t.recorder("the caller", func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		return req.Fail(want), nil
	})
	req := t.request(`1`, `{"do":"ask"}`)
	o := t.finish(t.callWith(to, req, h), "the call that asks")
	t.wantError(o, req, want.Code)
	got := o.resp.RPCError()
	t.same("the message", got.Message, want.Message)
	t.same("the data", string(got.Data), string(want.Data))
	t.wantWorking(to, `2`)
}

func manyQuestions(t *test) {
	const n = 20
	to, _ := t.open(dragoman.NoPeer, dragoman.Funcs{
		OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			answers := make(chan string, n)
			for i := range n {
				go func() {
					// All with one id: they are still told apart.
					resp, err := ask(ctx, from, `7`, fmt.Sprintf(`{"arguments":{"n":%d}}`, i))
					want := fmt.Sprintf(`{"n":%d}`, i)
					if err != nil || resp.ID() != dragoman.IntID(7) || textOf(resp) != want {
						answers <- fmt.Sprintf("question %d is answered by %v, error %v", i, resp, err)
						return
					}
					answers <- ""
				}()
			}
			all := "good answers"
			for range n {
				if a := <-answers; a != "" {
					all = a
				}
			}
			return t.answer(req, all)
		},
	})
	g := newGate()
	h := t.recorder("the caller", t.gated(g).OnCall)
	req := t.request(`7`, `{}`)
	done := t.callWith(to, req, h)
	t.awaitArrivals(g, n)
	for i := n - 1; i >= 0; i-- {
		g.open(fmt.Sprintf(`{"n":%d}`, i))
	}
	t.want(t.finish(done, "the call that asks"), req, "good answers")
}

// nestedQuestions: to answer, the caller asks the server something, which asks
// back in turn. Who is asked at each level is the same peer, whether or not the
// transport can tell the levels apart.
func nestedQuestions(t *test) {
	const depth = 4
	level := func(req *dragoman.Message) (n int) {
		var params struct{ Arguments struct{ Level int } }
		_ = req.Decode(&params) // 0 ends the game
		return params.Arguments.Level
	}
	var client, server dragoman.Funcs
	play := func(self *dragoman.Funcs, request func(id, args string) *dragoman.Message) handler {
		return func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			n := level(req)
			if n == 0 {
				return t.answer(req, "bottom")
			}
			resp, err := from.Call(ctx, request(`1`, fmt.Sprintf(`{"level":%d}`, n-1)), *self)
			if err != nil || resp.IsError() {
				return t.answer(req, fmt.Sprintf("level %d got %v, error %v", n-1, resp, err))
			}
			return t.answer(req, fmt.Sprintf("%d %s", n, textOf(resp)))
		}
	}
	client.OnCall = play(&client, t.request)
	server.OnCall = play(&server, t.other().request)
	to, _ := t.open(client, server)
	req := t.request(`1`, fmt.Sprintf(`{"level":%d}`, depth))
	t.want(t.call(to, req, client), req, "4 3 2 1 bottom")
}

// callDuringQuestion: while the caller thinks about a question, it makes another
// call. That goes to the server, as any other does, and continues when the question
// is answered.
func callDuringQuestion(t *test) {
	g := newGate()
	inside := t.recorder("whoever asks, inside its question", t.gated(g).OnCall)
	to, _ := t.open(dragoman.NoPeer, dragoman.Funcs{
		OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			if arguments(req) != `{"do":"ask"}` {
				return t.gated(g).OnCall(ctx, req, from)
			}
			resp, err := from.Call(ctx, t.other().request(`1`, `{"q":1}`), inside)
			if err != nil || resp.IsError() {
				return t.answer(req, fmt.Sprintf("the question got %v, error %v", resp, err))
			}
			return t.answer(req, textOf(resp))
		},
	})
	asks, other := t.request(`1`, `{"do":"ask"}`), t.request(`2`, `{"n":2}`)
	first := t.callWith(to, asks, t.recorder("the caller", t.gated(g).OnCall))
	t.awaitArrivals(g, 1)
	second := start(t.ctx, to, other, nil)
	t.awaitArrivals(g, 1)
	g.open(`{"q":1}`)
	t.want(t.finish(first, "the call that asks"), asks, `{"q":1}`)
	g.open(`{"n":2}`)
	t.want(t.finish(second, "the call that was made meanwhile"), other, `{"n":2}`)
	inside.wantNothing()
}

func questionProgress(t *test) {
	answerer := t.recorder("the callee", nil) // hears what its question brings
	to, _ := t.open(dragoman.NoPeer, dragoman.Funcs{
		OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			resp, err := from.Call(ctx, t.other().requestWith(`1`, `{"q":1}`, `,"_meta":{"progressToken":"q\u0031"}`), answerer)
			if err != nil || resp.IsError() {
				return t.answer(req, fmt.Sprintf("the question got %v, error %v", resp, err))
			}
			return t.answer(req, textOf(resp))
		},
	})
	req := t.requestWith(`1`, `{}`, `,"_meta":{"progressToken":"q\u0031"}`)
	t.want(t.call(to, req, t.reporter(5, nil)), req, `{"q":1}`)
	t.wantProgress(answerer, t.other().requestWith(`1`, `{"q":1}`, `,"_meta":{"progressToken":"q\u0031"}`), 5)
}

func questionCancelled(t *test) {
	g := newGate()
	cause := errors.New("peertest: the callee does not want to know any more")
	to, _ := t.open(dragoman.NoPeer, t.handle(map[string]handler{
		`{"do":"ask"}`: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			qctx, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			go func() {
				<-g.of("asked")
				cancel(cause)
			}()
			_, err := ask(qctx, from, `"q"`, `{}`)
			if !errors.Is(err, cause) {
				return t.answer(req, fmt.Sprintf("the cancelled question returned %v, want %v", err, cause))
			}
			return t.answer(req, "cancelled")
		},
	}))
	ended := make(chan struct{})
	h := t.recorder("the caller", func(ctx context.Context, _ *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		g.open("asked")
		<-ctx.Done()
		close(ended)
		return nil, context.Cause(ctx)
	})
	req := t.request(`1`, `{"do":"ask"}`)
	done := t.callWith(to, req, h)
	t.within(ended, "the context of a cancelled question ends")
	t.want(t.finish(done, "the call whose question was cancelled"), req, "cancelled")
	t.wantWorking(to, `2`)
}

func callCancelledInQuestion(t *test) {
	asked, ended, over := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	to, _ := t.open(dragoman.NoPeer, t.handle(map[string]handler{
		`{"do":"ask"}`: func(ctx context.Context, _ *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			resp, err := ask(ctx, from, `"q"`, `{}`)
			if err == nil {
				err = fmt.Errorf("answer %s", resp)
			}
			over <- context.Cause(ctx)
			return nil, err
		},
	}))
	h := t.recorder("the caller", func(ctx context.Context, _ *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		close(asked)
		<-ctx.Done()
		close(ended)
		return nil, context.Cause(ctx)
	})
	ctx, cancel := context.WithCancelCause(t.ctx)
	defer cancel(nil)
	done := h.during(ctx, to, t.request(`1`, `{"do":"ask"}`))
	t.within(asked, "the question reaches the caller")
	cancel(errGivenUp)
	t.within(ended, "the question's context ends with the call it belongs to")
	if o := t.finish(done, "the cancelled call"); !errors.Is(o.err, errGivenUp) {
		t.Errorf("the cancelled call returned %v, want the error %v", o, errGivenUp)
	}
	if err := receive(t, over, "the callee's question returns"); err == nil {
		t.Error("the callee's context continues although its call was cancelled")
	}
	t.wantWorking(to, `2`)
}
