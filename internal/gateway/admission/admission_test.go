package admission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/gateway/event"
	"github.com/dragoman-mcp/dragoman/internal/util/limit"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A counter is a server that counts what it is asked, and answers when it may.
type counter struct {
	asked atomic.Int64
	hold  chan struct{} // nil if it answers at once
}

func (s *counter) Notify(context.Context, *dragoman.Message) error {
	s.asked.Add(1)
	return nil
}

func (s *counter) Call(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	s.asked.Add(1)
	if s.hold != nil {
		<-s.hold
	}
	return req.Reply(object{})
}

func (s *counter) Accept(context.Context, dragoman.Conn) (dragoman.Peer, error) { return s, nil }

// refusalOf asks a peer, and returns what it is refused by: nil if it is not.
func refusalOf(ctx context.Context, t *testing.T, p dragoman.Peer, method, name string) *dragoman.Error {
	t.Helper()
	req, err := dragoman.NewRequest(dragoman.IntID(1), method, object{"name": name})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := p.Call(ctx, req, nil)
	if r, ok := errors.AsType[*event.Refusal](err); ok {
		return r.Answer
	}
	if err != nil {
		t.Fatal(err)
	}
	if !resp.IsError() {
		return nil
	}
	return resp.RPCError()
}

// burst makes so many calls of a tool, and returns how many passed. All others must have
// been refused by a limit of that scope.
func burst(ctx context.Context, t *testing.T, p dragoman.Peer, n int, tool, scope string) (passed int) {
	t.Helper()
	for range n {
		e := refusalOf(ctx, t, p, protocol.MethodCallTool, tool)
		if e == nil {
			passed++
			continue
		}
		if r, ok := protocol.RefusedBy(e); !ok || r.Limit != scope || r.Retry <= 0 || e.Code != protocol.CodeOverloaded {
			t.Fatalf("refused by %v %s, want a limit of the %s", e, e.Data, scope)
		}
	}
	return passed
}

// begin makes a call whose answer does not matter.
func begin(ctx context.Context, p dragoman.Peer, tool string) {
	req, _ := dragoman.NewRequest(dragoman.IntID(1), protocol.MethodCallTool, object{"name": tool}) // it encodes
	_, _ = p.Call(ctx, req, nil)
}

func perSecond(n int) limit.Rate { return limit.Rate{Count: n, Per: time.Second} }

// as returns the context of a request of somebody.
func as(t *testing.T, c dragoman.Caller) context.Context {
	t.Helper()
	return dragoman.WithCaller(t.Context(), &c)
}

// enterSession opens a session, and returns why it cannot be.
func enterSession(ctx context.Context, t *testing.T, b *backend) (dragoman.Peer, dragoman.Conn, *dragoman.Error) {
	t.Helper()
	_, client := dragoman.Pipe(nil, nil)
	p, err := b.Sessions.Accept(ctx, client)
	if err == nil {
		t.Cleanup(func() { _ = client.Close() })
		return p, client, nil
	}
	e, ok := err.(*dragoman.Error) //nolint:errorlint // it is never wrapped
	if !ok {
		t.Fatal(err)
	}
	return nil, nil, e
}

type object = map[string]any

// A backend is a server behind an admission.
type backend struct {
	Sessions dragoman.Acceptor
	Requests dragoman.Peer
}

// behind returns a server behind an admission.
func behind(e *Admission, s *counter) *backend {
	accept := dragoman.AcceptFunc(func(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
		return e.Accept(ctx, client, s)
	})
	return &backend{Sessions: accept, Requests: e.Requests(s)}
}

// guarded returns a server behind the admission that limits make.
func guarded(l *config.Limits) (*counter, *Admission, *backend) {
	s, e := &counter{}, New(l, nil, slog.New(slog.DiscardHandler))
	b := behind(e, s)
	return s, e, b
}

func TestPain34_CallerOverItsRateDoesNotBeginAgainNorHoldUpAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, b := guarded(&config.Limits{RatePerCaller: perSecond(10)})
		const caller = protocol.LimitCaller
		// Whatever it calls itself, and in how many sessions.
		passed := 0
		for i := range 50 {
			passed += burst(as(t, dragoman.Caller{Address: "192.0.2.1", Client: fmt.Sprint(i), Passed: fmt.Sprint(i)}), t, b.Requests, 1, "x", caller)
			p, _, e := enterSession(as(t, dragoman.Caller{Address: "192.0.2.1", Session: fmt.Sprint(i)}), t, b)
			if e != nil {
				t.Fatal(e)
			}
			passed += burst(t.Context(), t, p, 1, "x", caller)
		}
		if passed != 10 || s.asked.Load() != 10 {
			t.Errorf("%d of 100 requests pass and %d come to the server, want 10", passed, s.asked.Load())
		}
		for _, other := range []dragoman.Caller{{Address: "192.0.2.2"}, {Address: "192.0.2.1", Principal: "ann"}, {Address: "192.0.2.1", Principal: "bob"}, {}} {
			if n := burst(as(t, other), t, b.Requests, 11, "x", caller); n != 10 {
				t.Errorf("%d of 11 requests of %v pass, want 10", n, other)
			}
		}
		note, _ := dragoman.NewNotification(protocol.NoteCancelled, object{"requestId": 1})
		before := s.asked.Load()
		if err := b.Requests.Notify(as(t, dragoman.Caller{Address: "192.0.2.1"}), note); err != nil || s.asked.Load() != before+1 {
			t.Errorf("a notification does not pass: %v", err)
		}
	})
}

func TestSessionOverItsRateDoesNotUseUpItsCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, b := guarded(&config.Limits{Rate: perSecond(3), RatePerCaller: perSecond(8)})
		open := func(id string) dragoman.Peer {
			p, _, e := enterSession(as(t, dragoman.Caller{Address: "192.0.2.1", Session: id}), t, b)
			if e != nil {
				t.Fatal(e)
			}
			return p
		}
		if n := burst(t.Context(), t, open("a"), 100, "x", protocol.LimitSession); n != 3 {
			t.Errorf("%d requests of a session pass, want 3", n)
		}
		if n := burst(t.Context(), t, open("b"), 100, "x", protocol.LimitSession); n != 3 {
			t.Errorf("%d requests of another session pass, want 3", n)
		}
		third := open("c")
		if n := burst(t.Context(), t, third, 3, "x", protocol.LimitCaller); n != 2 {
			t.Errorf("%d requests of a third session pass, want the 2 that are left of 8", n)
		}
		time.Sleep(time.Second / 8)
		if n := burst(t.Context(), t, third, 1, "x", protocol.LimitCaller); n != 1 {
			t.Error("what was refused as the caller's was counted as the session's")
		}
	})
}

func TestRequestsUnderWayAreBoundedForSessionsAndCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, b := guarded(&config.Limits{Calls: 2, CallsPerCaller: 3})
		s.hold = make(chan struct{})
		me := as(t, dragoman.Caller{Address: "192.0.2.1", Session: "a"})
		p, _, _ := enterSession(me, t, b)
		for range 2 {
			go begin(t.Context(), p, "x") // ends when the server answers
		}
		synctest.Wait()
		if n := burst(t.Context(), t, p, 5, "x", protocol.LimitSession); n != 0 {
			t.Errorf("%d more pass", n)
		}
		go begin(me, b.Requests, "x") // ends when the server answers
		synctest.Wait()
		if n := burst(me, t, b.Requests, 5, "x", protocol.LimitCaller); n != 0 || s.asked.Load() != 3 {
			t.Errorf("%d more pass, %d came to the server", n, s.asked.Load())
		}
		go begin(as(t, dragoman.Caller{Address: "192.0.2.2"}), b.Requests, "x") // ends when the server answers
		synctest.Wait()
		if s.asked.Load() != 4 {
			t.Error("another caller is held up")
		}
		close(s.hold)
		synctest.Wait()
		if n := burst(t.Context(), t, p, 5, "x", ""); n != 5 {
			t.Errorf("%d of 5 requests pass one after the other", n)
		}
	})
}

func TestS38_OneCallerDoesNotUseUpTheSessionsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, b := guarded(&config.Limits{Sessions: 10, SessionsPerCaller: 4})
		var mine []dragoman.Conn
		for i := range 5000 {
			_, c, refusal := enterSession(as(t, dragoman.Caller{Address: "192.0.2.1", Client: fmt.Sprint(i), Session: fmt.Sprint(i)}), t, b)
			if r, _ := protocol.RefusedBy(refusal); c == nil && r.Limit != protocol.LimitCaller {
				t.Fatal(refusal)
			}
			if c != nil {
				mine = append(mine, c)
			}
		}
		if len(mine) != 4 {
			t.Fatalf("one caller has %d sessions, want 4", len(mine))
		}
		for i := range 6 {
			if _, _, refusal := enterSession(as(t, dragoman.Caller{Address: "192.0.2.2", Principal: fmt.Sprint(i)}), t, b); refusal != nil {
				t.Errorf("another caller is refused: %v", refusal)
			}
		}
		_, _, refusal := enterSession(as(t, dragoman.Caller{Address: "192.0.2.3"}), t, b)
		if r, _ := protocol.RefusedBy(refusal); r.Limit != protocol.LimitGateway {
			t.Errorf("there are 10 sessions, and another gets %v", refusal)
		}
		_ = mine[0].Close()
		_ = mine[1].Close()
		synctest.Wait()
		for i := range 3 {
			_, _, refusal := enterSession(as(t, dragoman.Caller{Address: "192.0.2.1", Session: fmt.Sprint("new ", i)}), t, b)
			if (refusal == nil) != (i < 2) {
				t.Errorf("two have ended, and new one %d gets %v", i, refusal)
			}
		}
	})
}

func TestNewWorkIsRefusedWhileMemoryIsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, e, _ := guarded(&config.Limits{})
		used := new(atomic.Uint64)
		e.memory = limit.NewMemory(100, used.Load)
		b := behind(e, s)
		at := func(percent uint64) {
			used.Store(percent)
			time.Sleep(limit.SampleInterval)
		}
		old, _, refusal := enterSession(t.Context(), t, b)
		if refusal != nil {
			t.Fatal(refusal)
		}
		s.hold = make(chan struct{})
		underWay := make(chan *dragoman.Message, 1)
		go func() {
			req, _ := dragoman.NewRequest(dragoman.IntID(1), protocol.MethodCallTool, object{}) // it encodes
			resp, _ := old.Call(t.Context(), req, nil)
			underWay <- resp
		}() // ends when the server answers
		synctest.Wait()

		at(80)
		if _, _, refusal := enterSession(t.Context(), t, b); refusal == nil {
			t.Error("a session begins with 80 % in use")
		}
		at(90)
		asked := s.asked.Load()
		if burst(t.Context(), t, old, 5, "x", protocol.LimitGateway)+burst(t.Context(), t, b.Requests, 5, "x", protocol.LimitGateway) != 0 || s.asked.Load() != asked {
			t.Error("a request passes with 90 % in use")
		}
		note, _ := dragoman.NewNotification(protocol.NoteCancelled, object{"requestId": 1})
		if _ = old.Notify(t.Context(), note); s.asked.Load() != asked+1 {
			t.Error("a cancel does not pass")
		}
		close(s.hold)
		if resp := <-underWay; resp == nil || resp.IsError() {
			t.Errorf("what was in progress gets %v", resp)
		}
		at(85)
		if n := burst(t.Context(), t, old, 5, "x", ""); n != 5 {
			t.Errorf("%d of 5 requests pass with 85 %% in use", n)
		}
		at(79)
		if _, _, refusal := enterSession(t.Context(), t, b); refusal != nil {
			t.Errorf("no session begins with 79 %% in use: %v", refusal)
		}
	})
}

func TestWithoutLimitsThereIsNothingInTheWay(t *testing.T) {
	s, e, b := guarded(&config.Limits{})
	if e.memory != nil {
		t.Skip("this process has a limit of memory")
	}
	if n, ok := b.Requests.(limitedNotes); !ok || n.Peer != dragoman.Peer(s) { // which has no Call of its own
		t.Error("requests take a step more")
	}
	p, _, _ := enterSession(t.Context(), t, b)
	if n, ok := p.(limitedNotes); !ok || n.Peer != dragoman.Peer(s) {
		t.Error("requests of a session take a step more")
	}
}

func BenchmarkLimits(b *testing.B) {
	many := limit.Rate{Count: 1_000_000_000, Per: time.Second} // nothing is refused
	req, err := dragoman.NewRequest(dragoman.IntID(1), protocol.MethodCallTool, object{"name": "search_web"})
	if err != nil {
		b.Fatal(err)
	}
	resp, err := req.Reply(object{})
	if err != nil {
		b.Fatal(err)
	}
	quick := dragoman.Funcs{OnCall: func(context.Context, *dragoman.Message, dragoman.Peer) (*dragoman.Message, error) { return resp, nil }}
	ctx := dragoman.WithCaller(b.Context(), &dragoman.Caller{Address: "192.0.2.1"})
	log := slog.New(slog.DiscardHandler)
	e := New(&config.Limits{RatePerCaller: many, CallsPerCaller: 100, Memory: 1 << 40}, nil, log)
	for _, step := range []struct {
		name string
		peer dragoman.Peer
	}{
		{"none", quick},
		{"admission with limits", e.Requests(quick)},
	} {
		b.Run(step.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := step.peer.Call(ctx, req, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
