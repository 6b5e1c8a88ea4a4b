package down_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/down"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/internal/wire/subscription"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const watched = "test://watched-resource"

// listenTo opens a subscription and returns what was acknowledged.
func (r *rig) listenTo(ctx context.Context, id any, caps, filter object) (ack string, h *hearer, done <-chan outcome) {
	r.t.Helper()
	h = hear(r.t)
	req := request(r.t, id, protocol.MethodListen, caps, object{"notifications": filter})
	done = r.start(ctx, req, h)
	note := h.next()
	if note.Method() != protocol.NoteAcknowledged {
		r.t.Fatalf("got %s, want the acknowledgement first", note)
	}
	wantSubscription(r.t, note, req.ID())
	return string(note.Get("notifications")), h, done
}

func wantSubscription(t testing.TB, m *dragoman.Message, id dragoman.ID) {
	t.Helper()
	if got := string(m.Meta(protocol.MetaSubscriptionID)); got != id.String() {
		t.Errorf("the subscription of %s is %s, want %s", m, got, id)
	}
}

func TestChangesReachAllWhoListen(t *testing.T) {
	everyRevision(t, builtin.Options{}, func(t *testing.T, _ protocol.Revision, r *rig) {
		ctx, cancel := context.WithCancelCause(t.Context())
		all := object{
			"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
			"resourceSubscriptions": []any{watched, "test://no-such"}, "taskIds": []any{"x"},
		}
		ack, h1, done1 := r.listenTo(ctx, "L1", nil, all)
		if want := `{"promptsListChanged":true,"resourceSubscriptions":["` + watched + `"],"resourcesListChanged":true,"toolsListChanged":true}`; !sameJSON(t, ack, want) {
			t.Errorf("acknowledged %s, want %s", ack, want)
		}
		_, h2, done2 := r.listenTo(ctx, 7, nil, object{"resourceSubscriptions": []any{watched}})
		for _, tool := range []string{"test_trigger_tool_change", "test_trigger_prompt_change", "test_trigger_resource_change", "update_resource"} {
			in := hear(t)
			complete(t, r.send(ctx, r.request(protocol.MethodCallTool, nil, callParams(tool, nil)), in))
			if notes := in.all(); len(notes) != 0 {
				t.Errorf("%s: the call itself heard %s", tool, notes)
			}
			note := h1.next()
			wantSubscription(t, note, dragoman.StringID("L1"))
			if tool == "update_resource" {
				note = h2.next()
				wantSubscription(t, note, dragoman.IntID(7))
				if note.Method() != protocol.NoteResourceUpdated || note.URI() != watched {
					t.Errorf("got %s", note)
				}
			}
		}
		if notes := h2.all(); len(notes) != 0 {
			t.Errorf("the second heard what it did not want: %s", notes)
		}
		if n := r.dial.opened(); n != 1 {
			t.Errorf("%d sessions were opened", n)
		}
		cancel(dragoman.ErrCancelled)
		for _, d := range []<-chan outcome{done1, done2} {
			if o := receive(t, d, "the subscription ends"); !errors.Is(o.err, dragoman.ErrCancelled) {
				t.Errorf("got %v, %v", o.resp, o.err)
			}
		}
	})
}

// FastMCP 2 reports a changed list to the session in which a tool has changed it, and to no other.
// Requests of one client that declare different capabilities have sessions of their own.
func TestListThatACallHasChangedInAnotherSessionOfItsCallerIsReported(t *testing.T) {
	for _, method := range []string{protocol.NoteToolsChanged, protocol.NotePromptsChanged, protocol.NoteResourcesChanged} {
		t.Run(method, func(t *testing.T) {
			s := &script{rev: protocol.V20250618, caps: object{"tools": object{}, "prompts": object{}, "resources": object{}}}
			s.on = map[string]handler{protocol.MethodCallTool: func(ctx context.Context, c *scripted, _ *dragoman.Message, _ dragoman.Peer) (any, error) {
				note, err := dragoman.NewNotification(method, nil)
				if err == nil {
					err = c.client.Notify(ctx, note)
				}
				return text("changed"), err
			}}
			r := newRig(t, dragoman.Local(s), nil, nil)
			ann, bob := as(t.Context(), "ann"), as(t.Context(), "bob")
			filter := object{"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true}
			_, here, _ := r.listenTo(ann, "L1", nil, filter)
			_, other, _ := r.listenTo(bob, "L2", nil, filter)
			complete(t, r.send(ann, r.request(protocol.MethodCallTool, object{"sampling": object{}}, callParams("change", nil)), nil))
			note := here.next()
			wantSubscription(t, note, dragoman.StringID("L1"))
			if note.Method() != method || r.dial.opened() != 3 {
				t.Errorf("got %s, with %d sessions", note, r.dial.opened())
			}
			if notes := other.all(); len(notes) != 0 {
				t.Errorf("another caller hears %s", notes)
			}
		})
	}
}

func sameJSON(t testing.TB, a, b string) bool {
	t.Helper()
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		t.Fatalf("not JSON: %s, %s", a, b)
	}
	return fmt.Sprint(x) == fmt.Sprint(y)
}

// watching is a server that notes who subscribes to what.
func watching(caps object) (s *script, log chan string, conns func() []*scripted) {
	log = make(chan string, 4*subscription.MaxNames)
	var mu sync.Mutex
	var all []*scripted
	s = &script{rev: protocol.V20250618, caps: caps}
	s.note = func(c *scripted, note *dragoman.Message) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, c)
	}
	s.on = map[string]handler{
		protocol.MethodSubscribe: func(_ context.Context, c *scripted, req *dragoman.Message, _ dragoman.Peer) (any, error) {
			if req.URI() == "x:refused" {
				return nil, &dragoman.Error{Code: -32002, Message: "no such"}
			}
			log <- fmt.Sprintf("%d+%s", c.number, req.URI())
			return object{}, nil
		},
		protocol.MethodUnsubscribe: func(_ context.Context, c *scripted, req *dragoman.Message, _ dragoman.Peer) (any, error) {
			log <- fmt.Sprintf("%d-%s", c.number, req.URI())
			return object{}, nil
		},
	}
	return s, log, func() []*scripted {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

func (c *scripted) tell(t testing.TB, method string, params any) {
	t.Helper()
	note, err := dragoman.NewNotification(method, params)
	if err == nil {
		err = c.client.Notify(t.Context(), note)
	}
	if err != nil {
		t.Error(err)
	}
}

var tellsAll = object{"tools": object{"listChanged": true}, "resources": object{"subscribe": true, "listChanged": true}}

func TestSubscriptionsAreCounted(t *testing.T) {
	both(t, func(t *testing.T, wrap func(dragoman.Conn, dragoman.Peer) dragoman.Conn) {
		s, log, conns := watching(tellsAll)
		r := newRig(t, dragoman.Local(s), wrap, nil)
		ctx1, cancel1 := context.WithCancel(t.Context())
		ctx2, cancel2 := context.WithCancel(t.Context())
		ack, h1, done1 := r.listenTo(ctx1, 1, nil, object{"resourceSubscriptions": []any{"x:a", "x:refused", "x:a"}, "promptsListChanged": true})
		if !sameJSON(t, ack, `{"resourceSubscriptions":["x:a"]}`) {
			t.Errorf("acknowledged %s", ack)
		}
		_, h2, done2 := r.listenTo(ctx2, 1, nil, object{"resourceSubscriptions": []any{"x:a", "x:b/"}})
		conns()[0].tell(t, protocol.NoteResourceUpdated, object{"uri": "x:a/part", "big": json.Number("12345678901234567890")})
		for _, h := range []*hearer{h1, h2} {
			if note := h.next(); note.URI() != "x:a/part" || string(note.Get("big")) != "12345678901234567890" {
				t.Errorf("got %s", note)
			}
		}
		conns()[0].tell(t, protocol.NoteResourceUpdated, object{"uri": "x:ab"})
		conns()[0].tell(t, protocol.NoteResourceUpdated, object{"uri": "x:b/c"})
		if note := h2.next(); note.URI() != "x:b/c" {
			t.Errorf("got %s", note)
		}
		cancel1()
		receive(t, done1, "the first ends")
		if notes := h1.all(); len(notes) != 0 {
			t.Errorf("the first heard %s", notes)
		}
		cancel2()
		receive(t, done2, "the second ends")
		var got []string
		for len(log) > 0 {
			got = append(got, <-log)
		}
		if want := "[1+x:a 1+x:b/ 1-x:a 1-x:b/]"; fmt.Sprint(got) != want {
			t.Errorf("the server heard %v, want %v", got, want)
		}
	})
}

func TestListenThatHonoursNothingEndsAtOnce(t *testing.T) {
	peertest.NoLeak(t)
	s, _, _ := watching(nil)
	r := newRig(t, dragoman.Local(s), nil, nil)
	ack, _, done := r.listenTo(t.Context(), "a", nil, object{"toolsListChanged": true, "resourceSubscriptions": []any{"x:a"}})
	if ack != "{}" {
		t.Errorf("acknowledged %s", ack)
	}
	resp := r.finish(done)
	complete(t, resp)
	wantSubscription(t, resp, dragoman.StringID("a"))
	// Nobody could be told.
	complete(t, r.send(t.Context(), r.request(protocol.MethodListen, nil, object{"notifications": object{"toolsListChanged": true}}), nil))
	r.refused(t.Context(), r.request(protocol.MethodListen, nil, nil), protocol.CodeInvalidParams, "notifications")
}

func TestChangesThatWereNotDeclaredAreToldAllTheSame(t *testing.T) {
	peertest.NoLeak(t)
	s, _, conns := watching(object{"tools": object{}, "resources": object{"subscribe": false}})
	r := newRig(t, dragoman.Local(s), nil, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ack, h, done := r.listenTo(ctx, 1, nil, object{"toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": []any{"x:a", "x:refused"}})
	if !sameJSON(t, ack, `{"toolsListChanged":true,"resourceSubscriptions":["x:a"]}`) {
		t.Errorf("acknowledged %s", ack)
	}
	for _, note := range []struct {
		method string
		params object
	}{{protocol.NoteToolsChanged, object{}}, {protocol.NotePromptsChanged, object{}}, {protocol.NoteResourceUpdated, object{"uri": "x:refused"}}} {
		conns()[0].tell(t, note.method, note.params)
		if got := h.next(); got.Method() != note.method {
			t.Errorf("heard %s, want %s", got, note.method)
		}
	}
	cancel()
	receive(t, done, "the subscription ends")
}

// deaf is a conversation that delivers nothing outside of calls.
type deaf struct{ dragoman.Conn }

func (deaf) ReceivesBackground() bool { return false }

func TestConversationThatHearsNothingPromisesNothing(t *testing.T) {
	peertest.NoLeak(t)
	s, log, _ := watching(tellsAll)
	r := newRig(t, dragoman.Local(s), func(c dragoman.Conn, _ dragoman.Peer) dragoman.Conn { return deaf{c} }, nil)
	ack, _, done := r.listenTo(t.Context(), 1, nil, object{"toolsListChanged": true, "resourceSubscriptions": []any{"x:a"}})
	if complete(t, r.finish(done)); ack != "{}" || len(log) != 0 {
		t.Errorf("acknowledged %s", ack)
	}
}

func TestListenContinuesInAnotherSession(t *testing.T) {
	both(t, func(t *testing.T, wrap func(dragoman.Conn, dragoman.Peer) dragoman.Conn) {
		s, log, conns := watching(tellsAll)
		r := newRig(t, dragoman.Local(s), wrap, nil)
		_, h, done := r.listenTo(t.Context(), 1, nil, object{"toolsListChanged": true, "resourceSubscriptions": []any{"x:a"}})
		receive(t, log, "subscribed")
		r.dial.cut()
		if got := receive(t, log, "subscribed again"); got != "2+x:a" {
			t.Errorf("got %s", got)
		}
		// What may have been missed is told as if it had happened.
		got := map[string]bool{}
		for range 2 {
			note := h.next()
			wantSubscription(t, note, dragoman.IntID(1))
			got[note.Method()+note.URI()] = true
		}
		if !got[protocol.NoteToolsChanged] || !got[protocol.NoteResourceUpdated+"x:a"] {
			t.Errorf("got %v", got)
		}
		conns()[1].tell(t, protocol.NoteToolsChanged, nil)
		if note := h.next(); note.Method() != protocol.NoteToolsChanged {
			t.Errorf("got %s", note)
		}
		if len(done) != 0 {
			t.Error("the subscription has ended")
		}
	})
}

func TestListenEndsInGoodOrderWhenThereIsNoOtherSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := watching(tellsAll)
		r := newRig(t, dragoman.Local(s), nil, nil)
		_, _, done := r.listenTo(t.Context(), 1, nil, object{"toolsListChanged": true})
		r.dial.failWith(errors.New("down for good"))
		r.dial.cut()
		resp := (<-done).resp
		complete(t, resp)
		wantSubscription(t, resp, dragoman.IntID(1))
	})
}

func TestListenDoesNotTakeThePlaceOfACallThatMayAsk(t *testing.T) {
	peertest.NoLeak(t)
	r := newRig(t, legacy(protocol.V20251125, builtin.Options{}), confuse, nil)
	ctx, cancel := context.WithCancel(t.Context())
	_, h, done := r.listenTo(ctx, 1, canAll, object{"toolsListChanged": true})
	h.over.Store(true) // nothing has changed, and questions are not for it
	resp, n := r.rounds(t.Context(), protocol.MethodCallTool, canAll, callParams("test_elicitation", object{"message": "?"}), obliging)
	if complete(t, resp); n != 1 || r.dial.opened() != 1 {
		t.Errorf("%d rounds in %d sessions", n, r.dial.opened())
	}
	cancel()
	receive(t, done, "the subscription ends")
}

func TestTooManyListens(t *testing.T) {
	peertest.NoLeak(t)
	s, _, _ := watching(tellsAll)
	r := newRig(t, dragoman.Local(s), nil, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var all []<-chan outcome
	for i := range down.MaxListens {
		_, _, done := r.listenTo(ctx, i, nil, object{"toolsListChanged": true})
		all = append(all, done)
	}
	r.send(t.Context(), r.request(protocol.MethodListen, nil, object{"notifications": object{"toolsListChanged": true}}), nil)
	wantError(t, r.send(t.Context(), r.request(protocol.MethodListen, nil, object{"notifications": object{"toolsListChanged": true}}), hear(t)),
		protocol.CodeOverloaded, "subscriptions")
	cancel()
	for _, d := range all {
		receive(t, d, "all end")
	}
}

func TestChangesThatNobodyTakesAreBounded(t *testing.T) {
	peertest.NoLeak(t)
	s, _, conns := watching(tellsAll)
	r := newRig(t, dragoman.Local(s), nil, nil)
	block, told := make(chan struct{}), make(chan *dragoman.Message, 2*subscription.MaxWaiting)
	ctx, cancel := context.WithCancel(t.Context())
	done := r.start(ctx, r.request(protocol.MethodListen, nil, object{"notifications": object{"resourceSubscriptions": []any{"x:"}}}),
		dragoman.Funcs{OnNotify: func(_ context.Context, note *dragoman.Message) error {
			told <- note
			if note.Method() == protocol.NoteResourceUpdated {
				<-block
			}
			return nil
		}})
	receive(t, told, "the acknowledgement")
	conns()[0].tell(t, protocol.NoteResourceUpdated, object{"uri": "x:/first"})
	receive(t, told, "the first change")
	for i := range subscription.MaxWaiting + 10 {
		conns()[0].tell(t, protocol.NoteResourceUpdated, object{"uri": fmt.Sprint("x:/", i)})
		conns()[0].tell(t, protocol.NoteResourceUpdated, object{"uri": "x:/0"})
	}
	close(block)
	for range subscription.MaxWaiting {
		receive(t, told, "what waited")
	}
	cancel()
	receive(t, done, "the subscription ends")
	if n := len(told); n != 0 {
		t.Errorf("%d more than the limit", n)
	}
}
