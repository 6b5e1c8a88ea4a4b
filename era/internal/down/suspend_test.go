package down_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/down"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// asking is a server whose tool "ask" asks the user args.n times in a row, "side"
// asks all three kinds side by side, and "drop" says when it is cancelled. Every
// run is noted under args.who.
func asking(j *journal) *script {
	s := &script{rev: protocol.V20251125}
	s.on = map[string]handler{
		protocol.MethodCallTool: func(ctx context.Context, c *scripted, req *dragoman.Message, from dragoman.Peer) (any, error) {
			var args struct {
				N   int
				Who string
			}
			if err := json.Unmarshal(req.Get("arguments"), &args); err != nil {
				return nil, err
			}
			j.note(args.Who)
			switch req.Name() {
			case "side":
				return c.side(ctx, from)
			case "ask":
				var got []string
				for i := range args.N {
					a, err := c.ask(ctx, from, protocol.MethodElicit, confirmForm(fmt.Sprintf("%s %d", args.Who, i)))
					if err != nil {
						if ctx.Err() != nil {
							j.note(args.Who + " cancelled")
							return nil, context.Cause(ctx)
						}
						a = err.Error()
					}
					got = append(got, a)
				}
				return text(strings.Join(got, " ")), nil
			}
			return text("plain"), nil
		},
	}
	return s
}

// side asks all kinds of questions side by side.
func (c *scripted) side(ctx context.Context, from dragoman.Peer) (any, error) {
	got := make([]string, 3)
	var all sync.WaitGroup
	for i, method := range []string{protocol.MethodElicit, protocol.MethodCreateMessage, protocol.MethodListRoots} {
		all.Go(func() {
			var params any
			switch i {
			case 0:
				params = confirmForm("side")
			case 1:
				params = object{"messages": []any{}, "maxTokens": 1, "_meta": object{"x": 1}}
			}
			a, err := c.ask(ctx, from, method, params)
			if err != nil {
				a = err.Error()
			}
			got[i] = a
		})
	}
	all.Wait()
	return text(strings.Join(got, "|")), nil
}

func ask(who string, n int) object { return callParams("ask", object{"who": who, "n": n}) }

func yes(key string) object {
	return object{key: object{"action": "accept", "content": object{"ok": true}}}
}

func TestSeveralRoundsOfOneCall(t *testing.T) {
	both(t, func(t *testing.T, wrap func(dragoman.Conn, dragoman.Peer) dragoman.Conn) {
		var j journal
		r := newRig(t, dragoman.Local(asking(&j)), wrap, nil)
		states := map[string]bool{}
		params := ask("ada", 3)
		resp := r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, params), nil)
		for i := range 3 {
			questions, state := asked(t, resp)
			key := fmt.Sprint(i + 1)
			if q := questions[key]; len(questions) != 1 || q["method"] != protocol.MethodElicit || q["params"].(object)["message"] != fmt.Sprintf("ada %d", i) {
				t.Fatalf("round %d: %v", i, questions)
			}
			if states[state] {
				t.Error("the same state again")
			}
			states[state] = true
			resp = r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, with(params, state, yes(key))), nil)
		}
		if got := said(t, complete(t, resp)); strings.Count(got, "accept") != 3 {
			t.Errorf("got %q", got)
		}
		j.wantOnce(t, "ada")
	})
}

func TestQuestionsSideBySideComeTogether(t *testing.T) {
	both(t, func(t *testing.T, wrap func(dragoman.Conn, dragoman.Peer) dragoman.Conn) {
		var j journal
		r := newRig(t, dragoman.Local(asking(&j)), wrap, &down.Options{Gather: 200 * time.Millisecond})
		params := callParams("side", object{"who": "ada"})
		questions, state := asked(t, r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, params), nil))
		if len(questions) != 3 {
			t.Fatalf("got %v", questions)
		}
		// Two of the answers come, then nothing, then the third.
		answers, rest := object{"unknown": object{}}, object{}
		for key, q := range questions {
			if p, _ := q["params"].(object); p["_meta"] != nil {
				t.Errorf("the question has a _meta: %v", q)
			}
			if q["method"] == protocol.MethodListRoots {
				rest[key] = obliging(q)
			} else {
				answers[key] = obliging(q)
			}
		}
		again, state2 := asked(t, r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, with(params, state, answers)), nil))
		once, state3 := asked(t, r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, with(params, state2, nil)), nil))
		for key := range rest {
			if len(again) != 1 || again[key] == nil || len(once) != 1 || once[key] == nil {
				t.Fatalf("asked for %v, then %v", again, once)
			}
		}
		got := said(t, complete(t, r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, with(params, state3, rest)), nil)))
		if !strings.Contains(got, `"accept"`) || !strings.Contains(got, "Hi!") || !strings.Contains(got, "file:///a") {
			t.Errorf("got %q", got)
		}
		j.wantOnce(t, "ada")
	})
}

func TestRefusedRetriesRunNothing(t *testing.T) {
	both(t, func(t *testing.T, wrap func(dragoman.Conn, dragoman.Peer) dragoman.Conn) {
		var j journal
		r := newRig(t, dragoman.Local(asking(&j)), wrap, nil)
		ctx := as(t.Context(), "ada")
		params := ask("ada", 2)
		_, first := asked(t, r.send(ctx, r.request(protocol.MethodCallTool, canAll, params), nil))
		_, state := asked(t, r.send(ctx, r.request(protocol.MethodCallTool, canAll, with(params, first, yes("1"))), nil))

		flip := func(at int) string {
			b, _ := base64.RawURLEncoding.DecodeString(state)
			b[at] ^= 1
			return base64.RawURLEncoding.EncodeToString(b)
		}
		other := newRig(t, dragoman.Local(asking(&j)), wrap, nil)
		_, foreign := asked(t, other.send(ctx, other.request(protocol.MethodCallTool, canAll, ask("eve", 1)), nil))
		for _, test := range []struct {
			what   string
			ctx    context.Context
			method string
			params object
			why    string
		}{
			{"altered", ctx, protocol.MethodCallTool, with(params, flip(30), yes("2")), "altered"},
			{"cut", ctx, protocol.MethodCallTool, with(params, state[:20], yes("2")), "altered"},
			{"no base64", ctx, protocol.MethodCallTool, with(params, "§", yes("2")), "altered"},
			{"of another instance", ctx, protocol.MethodCallTool, with(params, foreign, yes("2")), "another instance"},
			{"of somebody else", as(t.Context(), "eve"), protocol.MethodCallTool, with(params, state, yes("2")), "never given out"},
			{"other arguments", ctx, protocol.MethodCallTool, with(ask("ada", 3), state, yes("2")), "other params"},
			{"other tool", ctx, protocol.MethodCallTool, with(callParams("side", object{"who": "ada", "n": 2}), state, yes("2")), "other params"},
			{"other method", ctx, protocol.MethodGetPrompt, with(params, state, yes("2")), "another method"},
			{"earlier round", ctx, protocol.MethodCallTool, with(params, first, yes("1")), "earlier round"},
			{"no state", ctx, protocol.MethodCallTool, func() object {
				p := with(params, "", yes("2"))
				delete(p, "requestState")
				return p
			}(), "without requestState"},
			{"answers that are no object", ctx, protocol.MethodCallTool, func() object {
				p := with(params, state, nil)
				p["inputResponses"] = []any{}
				return p
			}(), "must be an object"},
			{"an answer that is no object", ctx, protocol.MethodCallTool, with(params, state, object{"2": "yes"}), "result object"},
		} {
			t.Run(test.what, func(t *testing.T) {
				r.t = t
				r.refused(test.ctx, r.request(test.method, canAll, test.params), protocol.CodeInvalidParams, test.why)
			})
		}
		r.t = t
		// After all that the call is where it was. Members may come in another order.
		req := r.request(protocol.MethodCallTool, canAll, with(params, state, yes("2")))
		shuffled := bytes.Replace(req.Bytes(), []byte(`"arguments":{"n":2,"who":"ada"}`), []byte(`"arguments":{"who": "ada" , "n":2}`), 1)
		req, err := dragoman.Parse(shuffled)
		if err != nil || !bytes.Contains(shuffled, []byte(`"ada" ,`)) {
			t.Fatal(err, string(shuffled))
		}
		complete(t, r.send(ctx, req, nil))
		r.refused(ctx, r.request(protocol.MethodCallTool, canAll, with(params, state, yes("2"))), protocol.CodeInvalidParams, "over")
		j.wantOnce(t, "ada")
	})
}

func TestStateCannotBeUsedAsCursor(t *testing.T) {
	peertest.NoLeak(t)
	var j journal
	r := newRig(t, dragoman.Local(asking(&j)), nil, nil)
	_, state := asked(t, r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, ask("ada", 1)), nil))
	r.refused(t.Context(), r.request(protocol.MethodListTools, canAll, object{"cursor": state}), protocol.CodeInvalidParams, "cursor")
}

func TestSecondRetryOfOneRoundIsRefused(t *testing.T) {
	both(t, func(t *testing.T, wrap func(dragoman.Conn, dragoman.Peer) dragoman.Conn) {
		release := make(chan struct{})
		var runs journal
		s := &script{rev: protocol.V20251125}
		s.on = map[string]handler{protocol.MethodCallTool: func(ctx context.Context, c *scripted, _ *dragoman.Message, from dragoman.Peer) (any, error) {
			runs.note("x")
			got, err := c.ask(ctx, from, protocol.MethodElicit, confirmForm("?"))
			<-release
			return text(got), err
		}}
		r := newRig(t, dragoman.Local(s), wrap, nil)
		params := callParams("x", nil)
		_, state := asked(t, r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, params), nil))
		done := make([]<-chan outcome, 5)
		for i := range done {
			done[i] = r.start(t.Context(), r.request(protocol.MethodCallTool, canAll, with(params, state, yes("1"))), nil)
		}
		refused := 0
		merged := make(chan outcome, len(done))
		for _, ch := range done {
			go func() { merged <- <-ch }()
		}
		for range len(done) - 1 {
			o := receive(t, merged, "the others are refused")
			wantError(t, o.resp, protocol.CodeInvalidParams, "has been used")
			refused++
		}
		close(release)
		complete(t, receive(t, merged, "the one is answered").resp)
		runs.wantOnce(t, "x")
	})
}

func TestDeclinedAndCancelledAreAnswers(t *testing.T) {
	both(t, func(t *testing.T, wrap func(dragoman.Conn, dragoman.Peer) dragoman.Conn) {
		var j journal
		r := newRig(t, dragoman.Local(asking(&j)), wrap, nil)
		for _, action := range []string{"decline", "cancel"} {
			resp, n := r.rounds(t.Context(), protocol.MethodCallTool, canAll, ask(action, 1), func(object) object { return object{"action": action} })
			if got := said(t, complete(t, resp)); got != `{"action":"`+action+`"}` || n != 1 {
				t.Errorf("got %q after %d rounds", got, n)
			}
		}
	})
}

func TestWhatTheClientCannotBeAskedIsAnsweredForIt(t *testing.T) {
	both(t, func(t *testing.T, wrap func(dragoman.Conn, dragoman.Peer) dragoman.Conn) {
		var j journal
		r := newRig(t, dragoman.Local(asking(&j)), wrap, &down.Options{Gather: 100 * time.Millisecond})
		// The server asks for more than the session declares.
		rootsOnly := object{"roots": object{}}
		questions, state := asked(t, r.send(t.Context(), r.request(protocol.MethodCallTool, rootsOnly, callParams("side", object{"who": "ada"})), nil))
		if len(questions) != 1 {
			t.Fatalf("got %v", questions)
		}
		answers := object{}
		for key, q := range questions {
			answers[key] = obliging(q)
		}
		got := said(t, complete(t, r.send(t.Context(), r.request(protocol.MethodCallTool, rootsOnly, with(callParams("side", object{"who": "ada"}), state, answers)), nil)))
		if !strings.Contains(got, `{"action":"decline"}`) || !strings.Contains(got, "-32601") || !strings.Contains(got, "file:///a") {
			t.Errorf("got %q", got)
		}
		// A retry that can be asked less than the first request.
		_, state = asked(t, r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, ask("eve", 1)), nil))
		got = said(t, complete(t, r.send(t.Context(), r.request(protocol.MethodCallTool, nil, with(ask("eve", 1), state, nil)), nil)))
		if got != `{"action":"decline"}` {
			t.Errorf("got %q", got)
		}
		j.wantOnce(t, "ada")
		j.wantOnce(t, "eve")
	})
}

func TestModesThatWereNotDeclaredAreDeclined(t *testing.T) {
	peertest.NoLeak(t)
	s := &script{rev: protocol.V20251125}
	s.on = map[string]handler{protocol.MethodCallTool: func(ctx context.Context, c *scripted, req *dragoman.Message, from dragoman.Peer) (any, error) {
		var q struct {
			Method string
			Params object
		}
		if err := json.Unmarshal(req.Get("arguments"), &q); err != nil {
			return nil, err
		}
		got, err := c.ask(ctx, from, q.Method, q.Params)
		if err != nil {
			got = err.Error()
		}
		return text(got), nil
	}}
	r := newRig(t, dragoman.Local(s), nil, nil)
	url := object{"method": protocol.MethodElicit, "params": object{"mode": "url", "url": "https://example.com", "message": "m", "elicitationId": "e"}}
	form := object{"method": protocol.MethodElicit, "params": confirmForm("m")}
	tools := object{"method": protocol.MethodCreateMessage, "params": object{"messages": []any{}, "maxTokens": 1, "tools": []any{}}}
	for _, test := range []struct {
		what   string
		caps   object
		asks   object
		rounds int
		want   string
	}{
		{"url for forms", object{"elicitation": object{}}, url, 0, "decline"},
		{"form for urls", object{"elicitation": object{"url": object{}}}, form, 0, "decline"},
		{"url for urls", object{"elicitation": object{"url": object{}}}, url, 1, "accept"},
		{"form for {}", object{"elicitation": object{}}, form, 1, "accept"},
		{"sampling with tools", object{"sampling": object{}}, tools, 0, "-32601"},
		{"sampling with tools for tools", object{"sampling": object{"tools": object{}}}, tools, 1, "Hi!"},
		{"something else", canAll, object{"method": "acme/what", "params": object{}}, 0, "-32601"},
		{"ping", canAll, object{"method": "ping", "params": object{}}, 0, "{}"},
	} {
		t.Run(test.what, func(t *testing.T) {
			r.t = t
			resp, rounds := r.rounds(t.Context(), protocol.MethodCallTool, test.caps, callParams("x", test.asks), func(q object) object {
				if p := q["params"].(object); p["elicitationId"] != nil {
					t.Errorf("asked %v", q)
				}
				return obliging(q)
			})
			if got := said(t, complete(t, resp)); !strings.Contains(got, test.want) || rounds != test.rounds {
				t.Errorf("got %q after %d rounds", got, rounds)
			}
		})
	}
}

func TestSuspendedCallIsGivenUpAfterItsTime(t *testing.T) {
	for name, wrap := range map[string]func(dragoman.Conn, dragoman.Peer) dragoman.Conn{"correlated": nil, "confused": confuse} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var j journal
				answer := make(chan string, 1)
				s := asking(&j)
				tool := s.on[protocol.MethodCallTool]
				s.on[protocol.MethodCallTool] = func(ctx context.Context, c *scripted, req *dragoman.Message, from dragoman.Peer) (any, error) {
					got, err := tool(ctx, c, req, dragoman.Funcs{OnCall: func(ctx context.Context, q *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
						resp, err := from.Call(ctx, q, nil)
						if resp != nil {
							answer <- string(resp.Result())
						}
						return resp, err
					}})
					<-ctx.Done()
					j.note("cancelled")
					return got, err
				}
				r := newRig(t, dragoman.Local(s), wrap, &down.Options{SuspendTimeout: time.Minute})
				params := ask("ada", 1)
				_, state := asked(t, r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, params), nil))
				time.Sleep(59 * time.Second)
				_, state2 := asked(t, r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, with(params, state, nil)), nil))
				time.Sleep(59 * time.Second) // the time runs again with each round
				synctest.Wait()
				if len(answer) != 0 {
					t.Fatal("given up too early")
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if got := <-answer; got != `{"action":"cancel"}` {
					t.Errorf("the server was answered %s", got)
				}
				j.wantOnce(t, "cancelled")
				r.refused(t.Context(), r.request(protocol.MethodCallTool, canAll, with(params, state2, yes("1"))), protocol.CodeInvalidParams, "expired")
				j.wantOnce(t, "ada")
			})
		})
	}
}

func TestClientThatLeavesCancelsItsCall(t *testing.T) {
	both(t, func(t *testing.T, wrap func(dragoman.Conn, dragoman.Peer) dragoman.Conn) {
		started, stopped := make(chan struct{}, 1), make(chan struct{}, 1)
		s := &script{rev: protocol.V20251125}
		s.on = map[string]handler{protocol.MethodCallTool: func(ctx context.Context, c *scripted, req *dragoman.Message, from dragoman.Peer) (any, error) {
			if req.Name() == "later" {
				if _, err := c.ask(ctx, from, protocol.MethodElicit, confirmForm("?")); err != nil {
					return nil, err
				}
			}
			started <- struct{}{}
			<-ctx.Done()
			stopped <- struct{}{}
			return nil, context.Cause(ctx)
		}}
		r := newRig(t, dragoman.Local(s), wrap, nil)
		for _, caps := range []object{nil, canAll} {
			ctx, cancel := context.WithCancelCause(t.Context())
			done := r.start(ctx, r.request(protocol.MethodCallTool, caps, callParams("now", nil)), nil)
			receive(t, started, "the tool runs")
			cancel(dragoman.ErrCancelled)
			receive(t, stopped, "the tool is cancelled")
			if o := receive(t, done, "the call returns"); !errors.Is(o.err, dragoman.ErrCancelled) {
				t.Errorf("got %v, %v", o.resp, o.err)
			}
		}
		// After a round, the request that waits is the one that cancels.
		_, state := asked(t, r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, callParams("later", nil)), nil))
		ctx, cancel := context.WithCancelCause(t.Context())
		done := r.start(ctx, r.request(protocol.MethodCallTool, canAll, with(callParams("later", nil), state, yes("1"))), nil)
		receive(t, started, "the tool continues")
		cancel(dragoman.ErrCancelled)
		receive(t, stopped, "the tool is cancelled")
		if o := receive(t, done, "the call returns"); !errors.Is(o.err, dragoman.ErrCancelled) {
			t.Errorf("got %v, %v", o.resp, o.err)
		}
		r.refused(t.Context(), r.request(protocol.MethodCallTool, canAll, with(callParams("later", nil), state, yes("1"))), protocol.CodeInvalidParams, "over")
	})
}

func TestTooManySuspendedCalls(t *testing.T) {
	both(t, func(t *testing.T, wrap func(dragoman.Conn, dragoman.Peer) dragoman.Conn) {
		var j journal
		r := newRig(t, dragoman.Local(asking(&j)), wrap, &down.Options{MaxSuspended: 2})
		var states []string
		for i := range 2 {
			_, state := asked(t, r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, ask(fmt.Sprint(i), 1)), nil))
			states = append(states, state)
		}
		resp, n := r.rounds(t.Context(), protocol.MethodCallTool, canAll, ask("over", 1), obliging)
		if got := said(t, complete(t, resp)); n != 0 || !strings.Contains(got, "-32603") || !strings.Contains(got, "2 calls wait") {
			t.Errorf("got %q after %d rounds", got, n)
		}
		complete(t, r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, with(ask("0", 1), states[0], yes("1"))), nil))
		if _, n := r.rounds(t.Context(), protocol.MethodCallTool, canAll, ask("again", 1), obliging); n != 1 {
			t.Errorf("there is room again, but it was asked %d times", n)
		}
	})
}

func TestTooManyRounds(t *testing.T) {
	both(t, func(t *testing.T, wrap func(dragoman.Conn, dragoman.Peer) dragoman.Conn) {
		var j journal
		r := newRig(t, dragoman.Local(asking(&j)), wrap, &down.Options{MaxRounds: 3})
		resp, n := r.rounds(t.Context(), protocol.MethodCallTool, canAll, ask("ada", 5), obliging)
		if got := said(t, complete(t, resp)); n != 3 || strings.Count(got, "accept") != 3 || strings.Count(got, "-32603") != 2 {
			t.Errorf("got %q after %d rounds", got, n)
		}
		j.wantOnce(t, "ada")
	})
}

func TestTooManyQuestionsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{rev: protocol.V20251125}
		s.on = map[string]handler{protocol.MethodCallTool: func(ctx context.Context, c *scripted, _ *dragoman.Message, from dragoman.Peer) (any, error) {
			var all sync.WaitGroup
			over := make(chan string, down.MaxServerRequests+10)
			for range down.MaxServerRequests + 10 {
				all.Go(func() {
					if _, err := c.ask(ctx, from, protocol.MethodElicit, confirmForm("?")); err != nil {
						over <- err.Error()
					}
				})
			}
			all.Wait()
			return text(fmt.Sprint(len(over))), nil
		}}
		r := newRig(t, dragoman.Local(s), nil, &down.Options{Gather: 500 * time.Millisecond})
		resp, n := r.rounds(t.Context(), protocol.MethodCallTool, canAll, callParams("x", nil), obliging)
		if got := said(t, complete(t, resp)); got != "10" || n != 1 {
			t.Errorf("%s questions were refused, in %d rounds", got, n)
		}
	})
}

func TestServerThatAnswersMeanwhileIsHeardLater(t *testing.T) {
	both(t, func(t *testing.T, wrap func(dragoman.Conn, dragoman.Peer) dragoman.Conn) {
		answered := make(chan struct{})
		patient, cancel := context.WithCancel(t.Context())
		s := &script{rev: protocol.V20251125}
		s.on = map[string]handler{protocol.MethodCallTool: func(ctx context.Context, c *scripted, _ *dragoman.Message, from dragoman.Peer) (any, error) {
			ctx, stop := context.WithCancel(ctx)
			defer stop()
			context.AfterFunc(patient, stop)
			_, err := c.ask(ctx, from, protocol.MethodElicit, confirmForm("?"))
			defer close(answered)
			return text(fmt.Sprintf("asked no longer: %v", err != nil)), nil
		}}
		r := newRig(t, dragoman.Local(s), wrap, nil)
		params := callParams("x", nil)
		_, state := asked(t, r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, params), nil))
		cancel()
		receive(t, answered, "the server answers by itself")
		got := said(t, complete(t, r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, with(params, state, yes("1"))), nil)))
		if got != "asked no longer: true" {
			t.Errorf("got %q", got)
		}
	})
}

func TestNullIsNoState(t *testing.T) {
	peertest.NoLeak(t)
	var j journal
	r := newRig(t, dragoman.Local(asking(&j)), nil, nil)
	params := joined(ask("ada", 1), object{"requestState": nil, "inputResponses": nil})
	_, state := asked(t, r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, params), nil))
	questions, state := asked(t, r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, joined(params, object{"requestState": state})), nil))
	if questions["1"] == nil {
		t.Errorf("asked %v", questions)
	}
	complete(t, r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, with(ask("ada", 1), state, yes("1"))), nil))
	j.wantOnce(t, "ada")
}
