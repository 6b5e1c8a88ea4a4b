package down_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/down"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// stray is a server whose tools ask outside of their call, as a server does that
// uses another stream: what was asked says for which call.
func stray() *script {
	s := &script{rev: protocol.V20251125}
	s.on = map[string]handler{protocol.MethodCallTool: func(ctx context.Context, c *scripted, req *dragoman.Message, _ dragoman.Peer) (any, error) {
		got, err := c.ask(ctx, c.client, protocol.MethodElicit, confirmForm(req.Name()))
		return text(got), err
	}}
	return s
}

func TestStrayQuestionBelongsToTheOnlyCallThatMayAsk(t *testing.T) {
	both(t, func(t *testing.T, wrap func(dragoman.Conn, dragoman.Peer) dragoman.Conn) {
		r := newRig(t, dragoman.Local(stray()), wrap, nil)
		resp, n := r.rounds(t.Context(), protocol.MethodCallTool, canAll, callParams("x", nil), obliging)
		if n != 1 || said(t, complete(t, resp)) != `{"action":"accept","content":{"ok":true}}` {
			t.Errorf("after %d rounds: %s", n, resp)
		}
	})
}

// echoing answers each question by what it asks.
func echoing(q object) object {
	return object{"action": "accept", "content": object{"ok": q["params"].(object)["message"]}}
}

func TestQuestionsOfSeveralCallsAreCarriedByAnyOfThem(t *testing.T) {
	both(t, func(t *testing.T, wrap func(dragoman.Conn, dragoman.Peer) dragoman.Conn) {
		r := newRig(t, dragoman.Local(stray()), wrap, nil)
		var all sync.WaitGroup
		for i := range 6 {
			all.Go(func() {
				name := fmt.Sprint("call ", i)
				resp, _ := r.rounds(t.Context(), protocol.MethodCallTool, canAll, callParams(name, nil), echoing)
				if got, want := said(t, complete(t, resp)), fmt.Sprintf(`{"action":"accept","content":{"ok":%q}}`, name); got != want {
					t.Errorf("%s: the server was answered %s", name, got)
				}
			})
		}
		all.Wait()
		if n := r.dial.opened(); n != 1 {
			t.Errorf("%d sessions were opened, want 1", n)
		}
	})
}

func TestQuestionMovesToAnotherCallWhenItsCarrierEndsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, ask, end := make(chan struct{}, 2), make(chan struct{}), make(chan struct{})
		s := &script{rev: protocol.V20251125}
		s.on = map[string]handler{protocol.MethodCallTool: func(ctx context.Context, c *scripted, req *dragoman.Message, _ dragoman.Peer) (any, error) {
			begun <- struct{}{}
			if req.Name() == "newest" {
				<-end
				return text("over"), nil
			}
			<-ask
			got, err := c.ask(ctx, c.client, protocol.MethodElicit, confirmForm("of the older"))
			return text(got), err
		}}
		r := newRig(t, dragoman.Local(s), confuse, &down.Options{Gather: time.Minute})
		older := r.start(t.Context(), r.request(protocol.MethodCallTool, canAll, callParams("older", nil)), nil)
		<-begun
		newest := r.start(t.Context(), r.request(protocol.MethodCallTool, canAll, callParams("newest", nil)), nil)
		<-begun
		close(ask)
		time.Sleep(time.Second) // the newest call carries the question, and waits for more
		close(end)
		if got := said(t, complete(t, r.finish(newest))); got != "over" {
			t.Errorf("the newest call got %s", got)
		}
		time.Sleep(2 * time.Minute)
		questions, state := asked(t, r.finish(older))
		answers := object{}
		for key, q := range questions {
			answers[key] = obliging(q)
		}
		resp := r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, with(callParams("older", nil), state, answers)), nil)
		if got := said(t, complete(t, resp)); len(answers) != 1 || got != `{"action":"accept","content":{"ok":true}}` {
			t.Errorf("the server was answered %s", got)
		}
	})
}

func TestQuestionWithoutACallWaitsForTheNextWhichIsSentBehindIt(t *testing.T) {
	for name, wrap := range map[string]func(dragoman.Conn, dragoman.Peer) dragoman.Conn{"correlated": nil, "confused": confuse} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answered := make(chan string, 1)
				s := &script{rev: protocol.V20251125}
				s.on = map[string]handler{
					protocol.MethodListTools: func(_ context.Context, c *scripted, _ *dragoman.Message, _ dragoman.Peer) (any, error) {
						go func() { // ends with the answer
							got, err := c.ask(context.Background(), c.client, protocol.MethodListRoots, nil)
							answered <- fmt.Sprint(got, err)
						}()
						return object{"tools": []any{}}, nil
					},
					protocol.MethodCallTool: func(context.Context, *scripted, *dragoman.Message, dragoman.Peer) (any, error) {
						if time.Sleep(time.Millisecond); len(answered) == 0 {
							return text("called before the roots were known"), nil
						}
						return text(<-answered), nil
					},
				}
				r := newRig(t, dragoman.Local(s), wrap, nil)
				r.want(t.Context(), protocol.MethodListTools, canAll, nil)
				synctest.Wait() // the server has asked
				resp, n := r.rounds(t.Context(), protocol.MethodCallTool, canAll, callParams("x", nil), func(object) object {
					synctest.Wait()
					return object{"roots": []any{object{"uri": "file:///home"}}}
				})
				if got := said(t, complete(t, resp)); n != 1 || got != `{"roots":[{"uri":"file:///home"}]}<nil>` {
					t.Errorf("after %d rounds: %s", n, got)
				}
			})
		})
	}
}

// A server may need a moment to put an answer to use: one that is told the roots looks
// at the folders first, and refuses every path until then.
func TestCallsBehindAQuestionAreSentWhenTheServerHasHadTimeForTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inUse atomic.Bool
		s := &script{rev: protocol.V20251125}
		s.on = map[string]handler{
			protocol.MethodListTools: func(_ context.Context, c *scripted, _ *dragoman.Message, _ dragoman.Peer) (any, error) {
				go func() { // ends after the answer
					_, _ = c.ask(context.Background(), c.client, protocol.MethodListRoots, nil)
					time.Sleep(50 * time.Millisecond)
					inUse.Store(true)
				}()
				return object{"tools": []any{}}, nil
			},
			protocol.MethodCallTool: func(context.Context, *scripted, *dragoman.Message, dragoman.Peer) (any, error) {
				return text(fmt.Sprint(inUse.Load())), nil
			},
		}
		r := newRig(t, dragoman.Local(s), confuse, nil)
		r.want(t.Context(), protocol.MethodListTools, canAll, nil)
		synctest.Wait() // the server has asked
		var all sync.WaitGroup
		roots := make(chan struct{})
		var once sync.Once
		try := func(name string) {
			resp, _ := r.rounds(t.Context(), protocol.MethodCallTool, canAll, callParams(name, nil), func(object) object {
				once.Do(func() { close(roots) })
				return object{"roots": []any{object{"uri": "file:///home"}}}
			})
			if got := said(t, complete(t, resp)); got != "true" {
				t.Errorf("%s was sent before the roots were in use", name)
			}
		}
		all.Go(func() { try("the first call") })
		all.Go(func() { try("one at the same time") })
		all.Go(func() {
			<-roots
			time.Sleep(10 * time.Millisecond)
			try("one that follows the answer")
		})
		all.Wait()
	})
}

func TestCallIsAskedForTheRootsIfTheClientOfAnEarlierOneDoesNotComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{rev: protocol.V20251125}
		s.on = map[string]handler{
			protocol.MethodListTools: func(_ context.Context, c *scripted, _ *dragoman.Message, _ dragoman.Peer) (any, error) {
				go func() { _, _ = c.ask(context.Background(), c.client, protocol.MethodListRoots, nil) }() // ends with the answer
				return object{"tools": []any{}}, nil
			},
			protocol.MethodCallTool: func(_ context.Context, _ *scripted, req *dragoman.Message, _ dragoman.Peer) (any, error) {
				return text(req.Name()), nil
			},
		}
		r := newRig(t, dragoman.Local(s), confuse, nil)
		r.want(t.Context(), protocol.MethodListTools, canAll, nil)
		synctest.Wait() // the server has asked
		asked(t, r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, callParams("abandoned", nil)), nil))
		began := time.Now()
		resp, n := r.rounds(t.Context(), protocol.MethodCallTool, canAll, callParams("next", nil), func(object) object {
			return object{"roots": []any{object{"uri": "file:///home"}}}
		})
		if got := said(t, complete(t, resp)); n != 1 || got != "next" || time.Since(began) > time.Second {
			t.Errorf("after %d rounds and %v: %s", n, time.Since(began), got)
		}
	})
}

func TestQuestionThatNobodyCanCarryIsAnsweredAfterItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answered := make(chan string, 1)
		s := &script{rev: protocol.V20251125}
		s.on = map[string]handler{protocol.MethodListTools: func(_ context.Context, c *scripted, _ *dragoman.Message, _ dragoman.Peer) (any, error) {
			go func() { // ends with the answer
				got, err := c.ask(context.Background(), c.client, protocol.MethodElicit, confirmForm("anybody?"))
				answered <- fmt.Sprint(got, err)
			}()
			return object{"tools": []any{}}, nil
		}}
		r := newRig(t, dragoman.Local(s), nil, &down.Options{SuspendTimeout: time.Minute})
		r.want(t.Context(), protocol.MethodListTools, canAll, nil)
		time.Sleep(2 * time.Minute)
		if got := <-answered; got != `{"action":"cancel"}<nil>` {
			t.Errorf("it was answered %s", got)
		}
	})
}

func TestQuestionNobodyDeclaredIsRefusedAtOnce(t *testing.T) {
	both(t, func(t *testing.T, wrap func(dragoman.Conn, dragoman.Peer) dragoman.Conn) {
		s := &script{rev: protocol.V20251125}
		s.on = map[string]handler{protocol.MethodListTools: func(ctx context.Context, c *scripted, _ *dragoman.Message, from dragoman.Peer) (any, error) {
			var got []string
			for _, to := range []dragoman.Peer{from, c.client} {
				for _, method := range []string{protocol.MethodPing, protocol.MethodListRoots, protocol.MethodElicit} {
					a, err := c.ask(ctx, to, method, nil)
					if rpc, ok := errors.AsType[*dragoman.Error](err); ok {
						a = fmt.Sprint(rpc.Code)
					}
					got = append(got, a)
				}
			}
			return object{"tools": []any{}, "got": got}, nil
		}}
		r := newRig(t, dragoman.Local(s), wrap, nil)
		want := `[{} -32601 {"action":"decline"} {} -32601 {"action":"decline"}]`
		if got := r.want(t.Context(), protocol.MethodListTools, nil, nil)["got"]; fmt.Sprint(got) != want {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestNobodyIsAskedInTheSessionOfOurOwn(t *testing.T) {
	peertest.NoLeak(t)
	s := &script{rev: protocol.V20251125}
	s.on = map[string]handler{protocol.MethodListTools: func(ctx context.Context, c *scripted, _ *dragoman.Message, _ dragoman.Peer) (any, error) {
		got, err := c.ask(ctx, c.client, protocol.MethodListRoots, nil)
		return object{"tools": []any{}, "got": got}, err
	}}
	r := newRig(t, dragoman.Local(s), nil, nil)
	resp, err := r.s.Main().Call(t.Context(), r.request(protocol.MethodListTools, canAll, nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := result(t, resp)["got"]; got != `{"roots":[]}` {
		t.Errorf("the server was answered %v", got)
	}
}

// Some servers send what they ask to all sessions. If ours refused it, whoever it is for
// would be too late.
func TestQuestionInTheSessionOfOurOwnIsLeftToOthersUnlessARequestOfOursWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answered := make(chan string, 1)
		s := &script{rev: protocol.V20251125}
		s.on = map[string]handler{
			protocol.MethodListTools: func(_ context.Context, c *scripted, _ *dragoman.Message, _ dragoman.Peer) (any, error) {
				go func() { // ends with the answer
					got, err := c.ask(context.Background(), c.client, protocol.MethodElicit, confirmForm("whoever?"))
					answered <- fmt.Sprint(got, err)
				}()
				return object{"tools": []any{}}, nil
			},
			protocol.MethodListPrompts: func(context.Context, *scripted, *dragoman.Message, dragoman.Peer) (any, error) {
				return object{"prompts": []any{}, "got": <-answered}, nil
			},
			protocol.MethodCallTool: func(ctx context.Context, c *scripted, _ *dragoman.Message, from dragoman.Peer) (any, error) {
				got, err := c.ask(ctx, from, protocol.MethodElicit, confirmForm("really?"))
				return text(fmt.Sprint(got, err)), nil
			},
		}
		r := newRig(t, dragoman.Local(s), confuse, nil)
		list := func(method string) object {
			resp, err := r.s.Main().Call(t.Context(), r.request(method, canAll, nil), nil)
			if err != nil || resp.IsError() {
				t.Fatalf("%v, %v", resp, err)
			}
			return result(t, resp)
		}
		list(protocol.MethodListTools)
		time.Sleep(time.Minute)
		if len(answered) > 0 {
			t.Fatalf("the server was answered %s", <-answered)
		}
		if got := fmt.Sprint(list(protocol.MethodListPrompts)["got"]); !strings.Contains(got, "no client can answer") {
			t.Errorf("the server was answered %s", got)
		}
		resp, err := r.s.Main().Call(t.Context(), r.request(protocol.MethodCallTool, canAll, callParams("x", nil)), nil)
		if err != nil || !strings.Contains(said(t, complete(t, resp)), "no client can answer") {
			t.Errorf("a tool that asks: %v, %v", resp, err)
		}
	})
}

func TestSharedSessionOffersNothingToAsk(t *testing.T) {
	peertest.NoLeak(t)
	s := &script{rev: protocol.V20251125}
	s.on = map[string]handler{protocol.MethodCallTool: func(ctx context.Context, c *scripted, _ *dragoman.Message, from dragoman.Peer) (any, error) {
		got, err := c.ask(ctx, from, protocol.MethodElicit, confirmForm("anybody?"))
		return text(got), err
	}}
	r := newRig(t, dragoman.Local(s), nil, &down.Options{Shared: true})
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			resp := r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, callParams("x", nil)), nil)
			if got := said(t, complete(t, resp)); got != `{"action":"decline"}` {
				t.Errorf("the server was answered %s", got)
			}
		})
	}
	all.Wait()
	if n := r.dial.opened(); n != 1 {
		t.Errorf("%d sessions were opened, want 1", n)
	}
}

func TestCallerThatAbandonsItsCallsLocksOutNobodyElse(t *testing.T) {
	peertest.NoLeak(t)
	var j journal
	r := newRig(t, dragoman.Local(asking(&j)), confuse, &down.Options{SuspendedPerCaller: 3})
	for i := range 3 {
		asked(t, r.send(as(t.Context(), "ada"), r.request(protocol.MethodCallTool, canAll, ask(fmt.Sprint("ada", i), 1)), nil))
	}
	if resp := r.send(as(t.Context(), "ada"), r.request(protocol.MethodCallTool, canAll, ask("ada too", 1)), nil); result(t, resp)["resultType"] != "complete" {
		t.Errorf("the fourth call was suspended too: %s", resp)
	}
	if _, n := r.rounds(as(t.Context(), "eve"), protocol.MethodCallTool, canAll, ask("eve", 1), obliging); n != 1 {
		t.Errorf("%d rounds of somebody else", n)
	}
}
