package down_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/down"
	"github.com/dragoman-mcp/dragoman/era/internal/pool"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// held is a server whose tools wait until they are let go, and say in which
// conversation they ran.
func held() (s *script, arrived chan int, leave chan struct{}) {
	arrived, leave = make(chan int, 1000), make(chan struct{})
	s = &script{rev: protocol.V20251125}
	s.on = map[string]handler{protocol.MethodCallTool: func(ctx context.Context, c *scripted, req *dragoman.Message, _ dragoman.Peer) (any, error) {
		if req.Name() == "where" {
			return text(fmt.Sprint(c.number)), nil
		}
		arrived <- c.number
		select {
		case <-leave:
			return text(fmt.Sprint(c.number)), nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}}
	return s, arrived, leave
}

func TestFirstRequestsShareOneHandshake(t *testing.T) {
	both(t, func(t *testing.T, wrap func(dragoman.Conn, dragoman.Peer) dragoman.Conn) {
		release := make(chan struct{})
		s := &script{rev: protocol.V20250618}
		s.on = map[string]handler{protocol.MethodInitialize: func(context.Context, *scripted, *dragoman.Message, dragoman.Peer) (any, error) {
			<-release
			return object{"protocolVersion": "2025-06-18"}, nil
		}, "x": func(context.Context, *scripted, *dragoman.Message, dragoman.Peer) (any, error) { return object{}, nil }}
		r := newRig(t, dragoman.Local(s), wrap, nil)
		var done []<-chan outcome
		for range 20 {
			done = append(done, r.start(t.Context(), r.request("x", canAll, nil), nil))
		}
		close(release)
		for _, d := range done {
			complete(t, r.finish(d))
		}
		if n := r.dial.opened(); n != 1 {
			t.Errorf("%d sessions were opened", n)
		}
	})
}

func TestClientThatLeavesDuringTheHandshakeSpoilsItForNobody(t *testing.T) {
	peertest.NoLeak(t)
	begun, release := make(chan struct{}, 1), make(chan struct{})
	s := &script{rev: protocol.V20250618}
	s.on = map[string]handler{protocol.MethodInitialize: func(ctx context.Context, _ *scripted, _ *dragoman.Message, _ dragoman.Peer) (any, error) {
		begun <- struct{}{}
		select {
		case <-release:
			return object{"protocolVersion": "2025-06-18"}, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}, "x": func(context.Context, *scripted, *dragoman.Message, dragoman.Peer) (any, error) { return object{}, nil }}
	r := newRig(t, dragoman.Local(s), nil, nil)
	ctx, cancel := context.WithCancel(t.Context())
	first := r.start(ctx, r.request("x", nil, nil), nil)
	receive(t, begun, "the handshake")
	second := r.start(t.Context(), r.request("x", nil, nil), nil)
	cancel()
	if o := receive(t, first, "the first returns"); o.err == nil {
		t.Errorf("got %s", o.resp)
	}
	close(release)
	complete(t, r.finish(second))
	if n := r.dial.opened(); n != 1 {
		t.Errorf("%d sessions were opened", n)
	}
}

func TestCallersAndCapabilitiesAreKeptApart(t *testing.T) {
	both(t, func(t *testing.T, wrap func(dragoman.Conn, dragoman.Peer) dragoman.Conn) {
		s, _, _ := held()
		r := newRig(t, dragoman.Local(s), wrap, nil)
		where := func(who string, caps object) string {
			return said(t, complete(t, r.send(as(t.Context(), who), r.request(protocol.MethodCallTool, caps, callParams("where", nil)), nil)))
		}
		ada := where("ada", canAll)
		for range 5 {
			if again := where("ada", object{"elicitation": object{"url": object{}, "form": object{}}, "roots": object{}, "sampling": object{}}); again != ada {
				t.Errorf("the next request of the same went to session %s instead of %s", again, ada)
			}
		}
		if eve, other := where("eve", canAll), where("ada", nil); eve == ada || other == ada || eve == other {
			t.Errorf("sessions %s, %s, %s", ada, eve, other)
		}
	})
}

func TestCallsOfOneCallerRunSideBySideInOneSession(t *testing.T) {
	both(t, func(t *testing.T, wrap func(dragoman.Conn, dragoman.Peer) dragoman.Conn) {
		s, arrived, leave := held()
		r := newRig(t, dragoman.Local(s), wrap, nil)
		var done []<-chan outcome
		for range 50 {
			done = append(done, r.start(t.Context(), r.request(protocol.MethodCallTool, canAll, callParams("hold", nil)), nil))
		}
		for range 50 {
			receive(t, arrived, "all run at once")
		}
		done = append(done, r.start(t.Context(), r.request("prompts/list", nil, nil), nil))
		close(leave)
		for _, d := range done {
			r.finish(d)
		}
		if n := r.dial.opened(); n != 1 {
			t.Errorf("%d sessions were opened, want 1", n)
		}
	})
}

func TestAtTheLimitAnIdleSessionGivesWay(t *testing.T) {
	both(t, func(t *testing.T, wrap func(dragoman.Conn, dragoman.Peer) dragoman.Conn) {
		r := newRig(t, legacy(protocol.V20250618, builtin.Options{}), wrap, &down.Options{Pool: pool.New(&pool.Options{Max: 2})})
		for _, who := range []string{"a", "b", "a", "c"} {
			r.want(as(t.Context(), who), protocol.MethodListTools, nil, nil)
		}
		if n := len(r.dial.living()); n != 2 || r.dial.opened() != 3 {
			t.Errorf("%d are open of %d", n, r.dial.opened())
		}
		r.want(as(t.Context(), "a"), protocol.MethodListTools, nil, nil) // used more recently than b
		if r.dial.opened() != 3 {
			t.Error("the wrong one was closed")
		}
	})
}

func TestAtTheLimitRequestsWaitForASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, arrived, leave := held()
		r := newRig(t, dragoman.Local(s), nil, &down.Options{Pool: pool.New(&pool.Options{Max: 1})})
		first := r.start(as(t.Context(), "a"), r.request(protocol.MethodCallTool, nil, callParams("hold", nil)), nil)
		<-arrived
		second := r.start(as(t.Context(), "b"), r.request(protocol.MethodCallTool, nil, callParams("where", nil)), nil)
		synctest.Wait()
		if len(second) != 0 {
			t.Fatal("it got a session beyond the limit")
		}
		leave <- struct{}{}
		complete(t, (<-first).resp)
		complete(t, (<-second).resp)
	})
}

func TestWaitForASessionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, arrived, leave := held()
		r := newRig(t, dragoman.Local(s), nil, &down.Options{Pool: pool.New(&pool.Options{Max: 1, Wait: 10 * time.Second})})
		first := r.start(as(t.Context(), "a"), r.request(protocol.MethodCallTool, nil, callParams("hold", nil)), nil)
		<-arrived
		began := time.Now()
		var done []<-chan outcome
		for i := range pool.MaxWaiting + 1 {
			done = append(done, r.start(as(t.Context(), fmt.Sprint("other", i)), r.request(protocol.MethodListTools, nil, nil), nil))
		}
		synctest.Wait()
		early := 0
		for _, d := range done {
			if len(d) == 1 {
				o := <-d
				wantError(t, o.resp, protocol.CodeOverloaded, fmt.Sprint(pool.MaxWaiting))
				early++
				continue
			}
		}
		if early != 1 {
			t.Errorf("%d were refused at once, want 1", early)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		late := 0
		for _, d := range done {
			if len(d) == 1 {
				o := <-d
				e := wantError(t, o.resp, protocol.CodeOverloaded, "in use")
				if string(e.Data) != `{"source":"gateway","outcome":"not_sent"}` {
					t.Errorf("data is %s", e.Data)
				}
				late++
			}
		}
		if late != pool.MaxWaiting || time.Since(began) != 10*time.Second {
			t.Errorf("%d were refused later, want %d", late, pool.MaxWaiting)
		}
		leave <- struct{}{}
		complete(t, (<-first).resp)
	})
}

func TestSuspendedCallKeepsItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		r := newRig(t, dragoman.Local(asking(&j)), confuse, &down.Options{Pool: pool.New(&pool.Options{Max: 1})})
		_, state := asked(t, r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, ask("ada", 1)), nil))
		resp, err := r.s.Call(as(t.Context(), "eve"), r.request("prompts/list", canAll, nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		wantError(t, resp, protocol.CodeOverloaded, "in use")
		r.send(t.Context(), r.request("prompts/list", canAll, nil), nil)
		complete(t, r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, with(ask("ada", 1), state, yes("1"))), nil))
		if _, n := r.rounds(as(t.Context(), "eve"), protocol.MethodCallTool, canAll, ask("eve", 1), obliging); n != 1 {
			t.Errorf("%d rounds", n)
		}
	})
}

func TestSessionThatIsReplacedIsNotReplacedSilently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := held()
		r := newRig(t, dragoman.Local(s), nil, &down.Options{Pool: pool.New(&pool.Options{Max: 2, Idle: time.Minute})})
		use := func(who string) any {
			got := complete(t, r.send(as(t.Context(), who), r.request(protocol.MethodCallTool, canAll, callParams("where", nil)), nil))
			meta, _ := got["_meta"].(object)
			return meta[protocol.MetaRenewed]
		}
		if got := use("ada"); got != nil {
			t.Errorf("the first answer says %v", got)
		}
		for _, step := range []struct {
			name string
			do   func()
			want string
		}{
			{"idle", func() { time.Sleep(2 * time.Minute) }, "nobody used it for 1m0s"},
			{"lost", r.dial.cut, "it was lost"},
			{"no room", func() { time.Sleep(pool.Grace); use("eve"); use("bob") }, "it was closed to make room for another"},
		} {
			step.do()
			synctest.Wait()
			if got := use("ada"); got != step.want {
				t.Errorf("%s: the next answer says %v, want %q", step.name, got, step.want)
			}
			if got := use("ada"); got != nil {
				t.Errorf("%s: the answer after that says %v", step.name, got)
			}
		}
	})
}

func TestUnusedSessionIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, arrived, leave := held()
		r := newRig(t, dragoman.Local(s), nil, &down.Options{Pool: pool.New(&pool.Options{Idle: time.Minute})})
		use := func() {
			complete(t, r.send(t.Context(), r.request(protocol.MethodCallTool, nil, callParams("where", nil)), nil))
		}
		use()
		time.Sleep(50 * time.Second)
		use()
		time.Sleep(50 * time.Second)
		synctest.Wait()
		if len(r.dial.living()) != 1 {
			t.Fatal("closed too early")
		}
		done := r.start(t.Context(), r.request(protocol.MethodCallTool, nil, callParams("hold", nil)), nil)
		<-arrived
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if len(r.dial.living()) != 1 {
			t.Fatal("closed while it was used")
		}
		leave <- struct{}{}
		complete(t, (<-done).resp)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if len(r.dial.living()) != 0 {
			t.Error("still open")
		}
		use()
		if r.dial.opened() != 2 {
			t.Errorf("%d sessions were opened", r.dial.opened())
		}
	})
}

func TestSessionForEachRequest(t *testing.T) {
	both(t, func(t *testing.T, wrap func(dragoman.Conn, dragoman.Peer) dragoman.Conn) {
		var j journal
		s := asking(&j)
		pages := 0
		s.on[protocol.MethodListTools] = func(_ context.Context, _ *scripted, req *dragoman.Message, _ dragoman.Peer) (any, error) {
			if pages++; pages == 1 {
				return object{"tools": []any{}, "nextCursor": "two"}, nil
			}
			return object{"tools": []any{}, "was": req.Get("cursor")}, nil
		}
		r := newRig(t, dragoman.Local(s), wrap, &down.Options{PerRequest: true})
		_, n := r.rounds(t.Context(), protocol.MethodCallTool, canAll, ask("ada", 2), obliging)
		if n != 2 || r.dial.opened() != 1 {
			t.Errorf("%d rounds in %d sessions", n, r.dial.opened())
		}
		first := r.want(t.Context(), protocol.MethodListTools, nil, nil)
		second := r.want(t.Context(), protocol.MethodListTools, nil, object{"cursor": first["nextCursor"]})
		if second["was"] != "two" || r.dial.opened() != 3 {
			t.Errorf("the server got the cursor %v, in %d sessions", second["was"], r.dial.opened())
		}
		for end := time.Now().Add(patience); len(r.dial.living()) > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d sessions are left open", len(r.dial.living()))
			}
		}
	})
}

func TestFailedHandshakeIsToldToAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries journal
		release := make(chan struct{})
		s := &script{on: map[string]handler{protocol.MethodInitialize: func(context.Context, *scripted, *dragoman.Message, dragoman.Peer) (any, error) {
			tries.note("try")
			<-release
			return nil, &dragoman.Error{Code: -32000, Message: "no"}
		}}}
		r := newRig(t, dragoman.Local(s), nil, nil)
		var done []<-chan outcome
		for range 20 {
			done = append(done, r.start(t.Context(), r.request(protocol.MethodCallTool, canAll, callParams("x", nil)), nil))
		}
		synctest.Wait()
		close(release)
		for _, d := range done {
			wantError(t, (<-d).resp, protocol.CodeUnavailable, "no")
		}
		tries.wantOnce(t, "try")
	})
}

func TestHandshakeThatTakesForeverIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{on: map[string]handler{protocol.MethodInitialize: func(ctx context.Context, _ *scripted, _ *dragoman.Message, _ dragoman.Peer) (any, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}}}
		r := newRig(t, dragoman.Local(s), nil, nil)
		began := time.Now()
		done := r.start(t.Context(), r.request(protocol.MethodDiscover, nil, nil), nil)
		wantError(t, (<-done).resp, protocol.CodeUnavailable, "too long")
		if time.Since(began) != pool.DefaultOpen {
			t.Errorf("it took %v", time.Since(began))
		}
	})
}

func TestDeadSessionsDoNotCount(t *testing.T) {
	both(t, func(t *testing.T, wrap func(dragoman.Conn, dragoman.Peer) dragoman.Conn) {
		s, _, _ := held()
		r := newRig(t, dragoman.Local(s), wrap, &down.Options{Pool: pool.New(&pool.Options{Max: 1})})
		for _, who := range []string{"a", "a", "b", "b", "a"} {
			complete(t, r.send(as(t.Context(), who), r.request(protocol.MethodCallTool, canAll, callParams("where", nil)), nil))
			r.dial.cut()
		}
		if n := r.dial.opened(); n != 5 {
			t.Errorf("%d sessions were opened, want 5", n)
		}
	})
}
