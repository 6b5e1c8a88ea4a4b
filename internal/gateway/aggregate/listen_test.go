package aggregate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/internal/gateway/aggregate"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A subscription is a subscriptions/listen in progress.
type subscription struct {
	t      *testing.T
	id     string
	notes  chan *dragoman.Message
	answer chan *dragoman.Message
	err    chan error
	cancel context.CancelFunc
}

// listen opens a subscription to p.
func listen(t *testing.T, p dragoman.Peer, wanted object) *subscription {
	t.Helper()
	req := request(t, protocol.MethodListen, nil, object{"notifications": wanted})
	ctx, cancel := context.WithCancel(t.Context())
	s := &subscription{
		t: t, id: req.ID().String(), cancel: cancel, notes: make(chan *dragoman.Message, 1000),
		answer: make(chan *dragoman.Message, 1), err: make(chan error, 1),
	}
	var over sync.WaitGroup
	// Ends with cancel.
	over.Go(func() {
		resp, err := p.Call(ctx, req, dragoman.Funcs{OnNotify: func(_ context.Context, note *dragoman.Message) error {
			s.notes <- note
			return nil
		}})
		s.answer <- resp
		s.err <- err
	})
	t.Cleanup(func() {
		cancel()
		over.Wait()
	})
	return s
}

// next waits for what it is told next, which must belong to it.
func (s *subscription) next() *dragoman.Message {
	s.t.Helper()
	select {
	case note := <-s.notes:
		if got := string(note.Meta(protocol.MetaSubscriptionID)); got != s.id {
			s.t.Errorf("%s: subscription %s, want %s", note.Method(), got, s.id)
		}
		return note
	case <-time.After(patience):
		s.t.Fatal("told nothing")
	}
	return nil
}

func (s *subscription) wants(method, uri string) {
	s.t.Helper()
	if note := s.next(); note.Method() != method || note.URI() != uri {
		s.t.Errorf("told %s, want %s %s", note, method, uri)
	}
}

// acked waits for the acknowledgement.
func (s *subscription) acked() (f object) {
	s.t.Helper()
	note := s.next()
	if note.Method() != protocol.NoteAcknowledged {
		s.t.Fatalf("told %s first", note)
	}
	if err := json.Unmarshal(note.Get("notifications"), &f); err != nil {
		s.t.Fatal(err)
	}
	return f
}

// quiet fails if anything has been told.
func (s *subscription) quiet() {
	s.t.Helper()
	select {
	case note := <-s.notes:
		s.t.Errorf("told %s", note)
	default:
	}
}

func TestPain9_ListChangesReachEveryClient(t *testing.T) {
	both(t, builtin.Options{}, func(t *testing.T, c *client, a *aggregate.Aggregate, member string) {
		other := listen(t, a, object{"toolsListChanged": true, "resourcesListChanged": true})
		other.acked()
		hears := func(note string) bool { return c.count(note, "") > 0 }
		if c.era == protocol.Modern {
			mine := listen(t, c.peer, object{"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true})
			mine.acked()
			hears = func(note string) bool {
				select {
				case n := <-mine.notes:
					return n.Method() == note
				default:
					return false
				}
			}
		}
		for _, test := range []struct{ tool, note, method, array string }{
			{"test_trigger_tool_change", protocol.NoteToolsChanged, protocol.MethodListTools, "tools"},
			{"test_trigger_prompt_change", protocol.NotePromptsChanged, protocol.MethodListPrompts, "prompts"},
			{"test_trigger_resource_change", protocol.NoteResourcesChanged, protocol.MethodListResources, "resources"},
		} {
			before := len(c.rounds(test.method, object{})[test.array].([]any))
			changes := 0
			// What a legacy client subscribes to begins behind its handshake, at some time.
			eventually(t, test.note, func() bool {
				c.rounds(protocol.MethodCallTool, call(member+"_"+test.tool, nil))
				changes++
				for range 20 {
					if hears(test.note) {
						return true
					}
					time.Sleep(time.Millisecond)
				}
				return false
			})
			// Each change adds an element or takes it away. URIs of both servers are the
			// same, so that either has the new resource.
			if got := len(c.rounds(test.method, object{})[test.array].([]any)); got != before+changes%2 {
				t.Errorf("%s: %d elements after %d changes, were %d", test.method, got, changes, before)
			}
		}
		if note := other.next(); note.Method() != protocol.NoteToolsChanged && note.Method() != protocol.NoteResourcesChanged {
			t.Errorf("the other one heard %s", note)
		}
	})
}

func TestPain9_UpdatesOfResourcesReachWhoSubscribed(t *testing.T) {
	const uri = "test://watched-resource"
	for _, order := range [][]string{{"old", "new"}, {"new", "old"}} { // the first one has the resource
		for _, e := range []protocol.Era{protocol.Legacy, protocol.Modern} {
			t.Run(fmt.Sprintf("%s client, %s server", e, order[0]), func(t *testing.T) {
				eras := map[string]protocol.Era{"old": protocol.Legacy, "new": protocol.Modern}
				var members []*server
				for _, name := range order {
					members = append(members, real(t, name, eras[name], builtin.Options{}))
				}
				c := join(t, of(t, nil, members...), e)
				heard := func() bool { return c.count(protocol.NoteResourceUpdated, uri) > 0 }
				if e == protocol.Legacy {
					c.rounds(protocol.MethodSubscribe, object{"uri": uri})
				} else {
					s := listen(t, c.peer, object{"resourceSubscriptions": []string{uri, "test://none", "none://x"}})
					if got := s.acked(); fmt.Sprint(got) != "map[resourceSubscriptions:["+uri+"]]" {
						t.Errorf("acknowledged %v", got)
					}
					heard = func() bool {
						s.wants(protocol.NoteResourceUpdated, uri)
						return true
					}
				}
				c.rounds(protocol.MethodCallTool, call(order[0]+"_update_resource", object{"uri": uri}))
				eventually(t, "the update", heard)
			})
		}
	}
}

func TestSubscriptionsAreToldWhatTheyAskedForAndNothingElse(t *testing.T) {
	peertest.NoLeak(t)
	x := fake("x", "t")
	a := of(t, nil, x)
	s, all := listen(t, a, object{"promptsListChanged": true}), listen(t, a, object{"promptsListChanged": true, "toolsListChanged": true})
	if got := fmt.Sprint(s.acked()); got != "map[promptsListChanged:true]" {
		t.Errorf("got %s", got)
	}
	all.acked()
	if n := x.registered(); n != 1 {
		t.Errorf("%d registrations for two clients, want 1", n)
	}
	if n := x.saw(protocol.MethodListen); n != 0 {
		t.Errorf("%d listens at the member, want none", n)
	}
	x.changed(protocol.NoteToolsChanged)
	all.wants(protocol.NoteToolsChanged, "")
	x.changed("notifications/unknown")
	x.changed(protocol.NotePromptsChanged)
	s.wants(protocol.NotePromptsChanged, "")
	all.wants(protocol.NotePromptsChanged, "")
	s.cancel()
	if err := <-s.err; err == nil {
		t.Error("a subscription that was cancelled got an answer")
	}
}

func TestSubscriptionsEndInGoodOrder(t *testing.T) {
	peertest.NoLeak(t)
	a := of(t, nil, fake("x", "t"))
	front := era.NewFrontend(a, nil)
	defer front.Close()
	s := listen(t, front.Requests(), object{"toolsListChanged": true})
	s.acked()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	resp := <-s.answer
	if err := <-s.err; err != nil || string(resp.Meta(protocol.MetaSubscriptionID)) != s.id || string(resp.Get("resultType")) != `"complete"` {
		t.Errorf("got %v, %v", resp, err)
	}
}

func TestASubscriptionToNothingEndsAtOnce(t *testing.T) {
	a := of(t, nil, fake("x", "t"))
	for _, wanted := range []object{{}, {"resourceSubscriptions": []string{"none://x"}, "taskIds": []string{"x", "y:1"}}} {
		s := listen(t, a, wanted)
		if got := s.acked(); len(got) != 0 {
			t.Errorf("acknowledged %v", got)
		}
		if resp := <-s.answer; string(resp.Meta(protocol.MetaSubscriptionID)) != s.id {
			t.Errorf("got %v", resp)
		}
	}
	if resp := ask(t, a, protocol.MethodListen, object{"notifications": object{"toolsListChanged": true}}); resp.IsError() {
		t.Errorf("from nobody: %v", resp) // nobody would hear it
	}
	for _, params := range []object{nil, {"notifications": 1}} {
		if e := refusal(t, a, protocol.MethodListen, params); e.Code != protocol.CodeInvalidParams {
			t.Errorf("got %v", e)
		}
	}
}

func TestSetAnnouncesChanges(t *testing.T) {
	peertest.NoLeak(t)
	x, y := fake("x", "t"), fake("y", "t")
	a := of(t, nil, x)
	s := listen(t, a, object{"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true})
	s.acked()
	a.Set(list(x)) // no change
	a.Set(list(x, y))
	for range 3 {
		s.next()
	}
	s.quiet()
	if got, want := names(t, a), []string{"x_t", "y_t"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	a.Set(list(y, fake("y", "other"))) // the second of one name is left out
	if x.registered() != 0 || y.registered() != 1 {
		t.Errorf("registered: %d at who left, %d at who stays", x.registered(), y.registered())
	}
	for range 3 {
		s.next()
	}
	if e := refusal(t, a, protocol.MethodCallTool, call("x_t", nil)); e.Code != protocol.CodeInvalidParams {
		t.Errorf("got %v", e)
	}
	// A prefix alone leaves the server as it is.
	y.prefix = new(string)
	a.Set(list(y))
	s.wants(protocol.NoteToolsChanged, "")
	if got := names(t, a); !slices.Equal(got, []string{"t"}) || y.registered() != 1 || y.count != 1 {
		t.Errorf("got %q, %d registrations of %d", got, y.registered(), y.count)
	}
	if e := refusal(t, a, protocol.MethodCallTool, call("y_t", nil)); e.Code != protocol.CodeInvalidParams {
		t.Errorf("got %v", e)
	}
}

// A shelf is a member with one resource, whose subscriptions can be lost.
type shelf struct {
	*server
	mu      sync.Mutex
	cut     chan struct{} // ends what is in flight
	refuses bool
	opened  int
}

func newShelf(name, uri string) *shelf {
	s := &shelf{server: library(name, []string{uri}, nil, nil), cut: make(chan struct{})}
	lists := s.peer
	s.peer = dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
		if req.Method() != protocol.MethodListen {
			return lists.Call(ctx, req, from)
		}
		s.mu.Lock()
		cut, refuses := s.cut, s.refuses
		s.opened++
		s.mu.Unlock()
		if refuses {
			return req.Fail(&dragoman.Error{Code: protocol.CodeUnavailable, Message: "down"}), nil
		}
		tag := object{protocol.MetaSubscriptionID: req.ID()}
		tell := func(method string, params object) {
			params["_meta"] = tag
			if note, err := dragoman.NewNotification(method, params); err == nil {
				_ = from.Notify(ctx, note)
			}
		}
		tell(protocol.NoteAcknowledged, object{"notifications": req.Get("notifications")})
		tell(protocol.NoteToolsChanged, object{}) // that nobody asked for
		select {
		case <-cut:
			return nil, dragoman.ErrClosed
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}}
	return s
}

// fail ends all subscriptions, and has more refused or not.
func (s *shelf) fail(refuses bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.cut)
	s.cut, s.refuses = make(chan struct{}), refuses
}

func (s *shelf) heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuses = false
}

func (s *shelf) opens() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened
}

func TestPain11_ASubscriptionOutlivesTheLossOfItsServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newShelf("x", "x://1")
		a := of(t, nil, x.server)
		s := listen(t, a, object{"toolsListChanged": true, "resourceSubscriptions": []string{"x://1"}})
		s.acked()
		synctest.Wait()
		s.quiet() // list changes come from the member's registration alone
		x.fail(false)
		s.wants(protocol.NoteResourceUpdated, "x://1") // something may have been missed
		x.fail(true)
		time.Sleep(time.Minute)
		if n := x.opens(); n < 5 || n > 20 {
			t.Errorf("tried %d times within a minute", n)
		}
		s.quiet()
		x.heal()
		s.wants(protocol.NoteResourceUpdated, "x://1")
		s.cancel()
		<-s.err
	})
}

func TestPain32_ASubscriptionMovesWithItsResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := newShelf("x", "x://1"), newShelf("y", "x://1")
		a := of(t, nil, x.server)
		s := listen(t, a, object{"resourceSubscriptions": []string{"x://1"}})
		s.acked()
		a.Set(list(y.server))
		s.wants(protocol.NoteResourceUpdated, "x://1")
		if y.opens() != 1 {
			t.Errorf("the new one was asked %d times", y.opens())
		}
		a.Set(nil)
		synctest.Wait()
		a.Set(list(x.server))
		s.wants(protocol.NoteResourceUpdated, "x://1")
		s.cancel()
		<-s.err
	})
}

func TestASlowMemberDelaysTheAcknowledgementByTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newShelf("x", "x://1")
		slow := library("slow", []string{"s://1"}, nil, nil)
		lists := slow.peer
		slow.peer = dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			if req.Method() == protocol.MethodListen {
				return hanging.Call(ctx, req, from)
			}
			return lists.Call(ctx, req, from)
		}}
		a := of(t, &aggregate.Options{PerMember: aggregate.DefaultPerMember}, slow, x.server)
		began := time.Now()
		s := listen(t, a, object{"toolsListChanged": true, "resourceSubscriptions": []string{"s://1", "x://1"}})
		if got := fmt.Sprint(s.acked()); got != "map[resourceSubscriptions:[x://1] toolsListChanged:true]" || time.Since(began) > aggregate.DefaultPerMember {
			t.Errorf("acknowledged %s after %v", got, time.Since(began))
		}
		s.cancel()
		<-s.err
	})
}

func TestTasksAreSubscribedToUnderOurIDs(t *testing.T) {
	x := fake("x", "t")
	x.peer = dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
		for _, n := range []string{
			`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":` + string(req.Get("notifications")) + `}}`,
			`{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"7","status":"working"}}`,
		} {
			note, err := dragoman.Parse([]byte(n))
			if err != nil {
				return nil, err
			}
			_ = from.Notify(ctx, note)
		}
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}}
	s := listen(t, of(t, nil, x), object{"taskIds": []string{"x:7", "y:8", "9"}})
	if got := fmt.Sprint(s.acked()); got != "map[taskIds:[x:7]]" {
		t.Errorf("acknowledged %s", got)
	}
	if note := s.next(); note.Method() != protocol.NoteTasks || string(note.Get("taskId")) != `"x:7"` {
		t.Errorf("told %s", note)
	}
}

// Nobody but its callers sees that such a member has come up.
func TestMemberThatComesUpLateIsAnnouncedToWhoMissedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := &server{name: "late", peer: answers(map[string]any{protocol.MethodListTools: errors.New("away")})}
		a := of(t, nil, fake("here", "x"), late)
		missed := listen(t, a, object{"toolsListChanged": true})
		missed.acked()
		others := listen(t, a, object{"promptsListChanged": true})
		others.acked()
		if resp := ask(t, a, protocol.MethodListTools, nil); !strings.Contains(resp.String(), `"dragoman/missing":["late"]`) {
			t.Fatalf("the list is %s", resp)
		}
		time.Sleep(time.Minute)
		missed.quiet()
		late.becomes(fake("late", "y").peer)
		time.Sleep(time.Minute)
		missed.wants(protocol.NoteToolsChanged, "")
		missed.quiet()
		others.quiet()
		before := late.saw(protocol.MethodListTools)
		time.Sleep(time.Hour)
		if n := late.saw(protocol.MethodListTools); n != before {
			t.Errorf("a member that is known is asked %d times in an hour", n-before)
		}
	})
}
