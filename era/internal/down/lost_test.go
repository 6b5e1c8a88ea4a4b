package down_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestSessionLostWhileTheCallRuns(t *testing.T) {
	both(t, func(t *testing.T, wrap func(dragoman.Conn, dragoman.Peer) dragoman.Conn) {
		var j journal
		running := make(chan struct{}, 1)
		s := &script{rev: protocol.V20251125}
		s.on = map[string]handler{protocol.MethodCallTool: func(ctx context.Context, _ *scripted, req *dragoman.Message, _ dragoman.Peer) (any, error) {
			j.note(req.Name())
			running <- struct{}{}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}}
		r := newRig(t, dragoman.Local(s), wrap, nil)
		for i, caps := range []object{nil, canAll} {
			name := fmt.Sprint(i)
			done := r.start(t.Context(), r.request(protocol.MethodCallTool, caps, callParams(name, nil)), nil)
			receive(t, running, "the tool runs")
			r.dial.cut()
			e := wantError(t, r.finish(done), protocol.CodeLost, "")
			if string(e.Data) != `{"source":"gateway","outcome":"unknown"}` {
				t.Errorf("data is %s", e.Data)
			}
			j.wantOnce(t, name)
		}
	})
}

// forgetful is a conversation whose server refuses the first call, because it has
// forgotten the session.
type forgetful struct{ dragoman.Conn }

type errForgotten struct{}

func (errForgotten) Error() string   { return "the session is not known" }
func (errForgotten) Outcome() string { return protocol.OutcomeNotSent }
func (errForgotten) Unwrap() error   { return dragoman.ErrClosed }

func (c forgetful) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if req.Method() != protocol.MethodCallTool {
		return c.Conn.Call(ctx, req, from)
	}
	_ = c.Close()
	return nil, errForgotten{}
}

func TestCallThatWasRefusedForItsSessionIsSentAgainOnce(t *testing.T) {
	for name, forgets := range map[string]int{"session forgotten": 1, "no session is kept": 2} {
		for _, caps := range []object{nil, canAll} {
			t.Run(fmt.Sprint(name, ", capabilities ", caps), func(t *testing.T) {
				var j journal
				s := &script{rev: protocol.V20251125}
				s.on = map[string]handler{protocol.MethodCallTool: func(_ context.Context, _ *scripted, req *dragoman.Message, _ dragoman.Peer) (any, error) {
					j.note(req.Name())
					return object{"content": []any{}}, nil
				}}
				left := forgets
				r := newRig(t, dragoman.Local(s), func(c dragoman.Conn, _ dragoman.Peer) dragoman.Conn {
					if left == 0 {
						return c
					}
					left--
					return forgetful{c}
				}, nil)
				resp := r.send(t.Context(), r.request(protocol.MethodCallTool, caps, callParams("it", nil)), nil)
				if forgets == 1 {
					j.wantOnce(t, "it")
					return
				}
				if e := wantError(t, resp, protocol.CodeUnavailable, "not known"); string(e.Data) != `{"source":"gateway","outcome":"not_sent"}` {
					t.Errorf("data is %s", e.Data)
				}
			})
		}
	}
}

func TestSessionLostWhileTheCallIsSuspended(t *testing.T) {
	both(t, func(t *testing.T, wrap func(dragoman.Conn, dragoman.Peer) dragoman.Conn) {
		var j journal
		r := newRig(t, dragoman.Local(asking(&j)), wrap, nil)
		_, state := asked(t, r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, ask("ada", 1)), nil))
		r.dial.cut()
		r.refused(t.Context(), r.request(protocol.MethodCallTool, canAll, with(ask("ada", 1), state, yes("1"))),
			protocol.CodeInvalidParams, "lost")
		j.wantOnce(t, "ada")
		r.refused(t.Context(), r.request(protocol.MethodCallTool, canAll, with(ask("ada", 1), state, yes("1"))),
			protocol.CodeInvalidParams, "over")
		j.wantOnce(t, "ada")
		// The next call gets a session of its own.
		if _, n := r.rounds(t.Context(), protocol.MethodCallTool, canAll, ask("eve", 1), obliging); n != 1 {
			t.Errorf("%d rounds", n)
		}
		j.wantOnce(t, "eve")
	})
}

func TestSessionLostAfterTheAnswersCame(t *testing.T) {
	both(t, func(t *testing.T, wrap func(dragoman.Conn, dragoman.Peer) dragoman.Conn) {
		var j journal
		answered := make(chan struct{}, 1)
		s := &script{rev: protocol.V20251125}
		s.on = map[string]handler{protocol.MethodCallTool: func(ctx context.Context, c *scripted, _ *dragoman.Message, from dragoman.Peer) (any, error) {
			j.note("x")
			if _, err := c.ask(ctx, from, protocol.MethodElicit, confirmForm("?")); err != nil {
				return nil, err
			}
			answered <- struct{}{}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}}
		r := newRig(t, dragoman.Local(s), wrap, nil)
		_, state := asked(t, r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, callParams("x", nil)), nil))
		done := r.start(t.Context(), r.request(protocol.MethodCallTool, canAll, with(callParams("x", nil), state, yes("1"))), nil)
		receive(t, answered, "the server has its answer")
		r.dial.cut()
		wantError(t, r.finish(done), protocol.CodeLost, "")
		j.wantOnce(t, "x")
	})
}

func TestSessionLostBetweenRequestsIsReplaced(t *testing.T) {
	both(t, func(t *testing.T, wrap func(dragoman.Conn, dragoman.Peer) dragoman.Conn) {
		r := newRig(t, legacy(protocol.V20250618, builtin.Options{}), wrap, nil)
		for range 3 {
			complete(t, r.send(t.Context(), r.request(protocol.MethodCallTool, nil, callParams("echo", object{"text": "x"})), nil))
			complete(t, r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, callParams("echo", object{"text": "x"})), nil))
			r.dial.cut()
		}
		if n := r.dial.opened(); n != 6 {
			t.Errorf("%d sessions were opened, want 6", n)
		}
	})
}

func TestReadsAreRepeatedOnceWhenTheSessionIsLost(t *testing.T) {
	peertest.NoLeak(t)
	var j journal
	var fatal int
	s := &script{rev: protocol.V20250618}
	s.on = map[string]handler{
		protocol.MethodListTools: func(_ context.Context, c *scripted, _ *dragoman.Message, _ dragoman.Peer) (any, error) {
			j.note("list")
			if fatal > 0 {
				fatal--
				_ = c.client.Close()
			}
			return object{"tools": []any{}}, nil
		},
		protocol.MethodCallTool: func(_ context.Context, c *scripted, _ *dragoman.Message, _ dragoman.Peer) (any, error) {
			j.note("call")
			_ = c.client.Close()
			return text(""), nil
		},
	}
	r := newRig(t, dragoman.Local(s), nil, nil)
	fatal = 1
	complete(t, r.send(t.Context(), r.request(protocol.MethodListTools, nil, nil), nil))
	fatal = 2
	r.refused(t.Context(), r.request(protocol.MethodListTools, nil, nil), protocol.CodeLost, "")
	if j.runs["list"] != 4 {
		t.Errorf("the list was asked for %d times, want twice for each request", j.runs["list"])
	}
	r.refused(t.Context(), r.request(protocol.MethodCallTool, nil, callParams("x", nil)), protocol.CodeLost, "")
	j.wantOnce(t, "call")
}

func TestCloseEndsEverything(t *testing.T) {
	both(t, func(t *testing.T, wrap func(dragoman.Conn, dragoman.Peer) dragoman.Conn) {
		var j journal
		running := make(chan struct{}, 1)
		s := asking(&j)
		s.caps = object{"tools": object{"listChanged": true}}
		s.on["wait"] = func(ctx context.Context, _ *scripted, _ *dragoman.Message, _ dragoman.Peer) (any, error) {
			running <- struct{}{}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		r := newRig(t, dragoman.Local(s), wrap, nil)
		_, state := asked(t, r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, ask("ada", 1)), nil))
		h := hear(t)
		listening := r.start(t.Context(), r.request(protocol.MethodListen, canAll, object{"notifications": object{"toolsListChanged": true}}), h)
		h.next()
		waiting := r.start(t.Context(), r.request("wait", canAll, nil), nil)
		receive(t, running, "a request is in flight")
		if err := r.s.Close(); err != nil {
			t.Fatal(err)
		}
		complete(t, r.finish(listening))
		wantError(t, r.finish(waiting), protocol.CodeLost, "")
		r.refused(t.Context(), r.request(protocol.MethodCallTool, canAll, with(ask("ada", 1), state, yes("1"))), protocol.CodeInvalidParams, "over")
		j.wantOnce(t, "ada")
	})
}
