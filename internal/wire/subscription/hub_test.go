package subscription_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/subscription"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A recorder is a client that records its notifications, in short.
type recorder struct{ notes []string }

func (r *recorder) Notify(_ context.Context, note *dragoman.Message) error {
	text := strings.TrimPrefix(note.Method(), "notifications/") + note.URI() + string(note.Get("taskId")) + string(note.Get("notifications"))
	if id := note.Meta(protocol.MetaSubscriptionID); id != nil {
		text += "@" + string(id)
	}
	r.notes = append(r.notes, text)
	return nil
}

func (r *recorder) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	return dragoman.NoPeer.Call(ctx, req, from)
}

// take returns the notifications since the last time.
func (r *recorder) take() string {
	text := strings.Join(r.notes, " ")
	r.notes = nil
	return text
}

func listenRequest(t *testing.T, id dragoman.ID, notifications any) *dragoman.Message {
	t.Helper()
	req, err := dragoman.NewRequest(id, protocol.MethodListen, map[string]any{"notifications": notifications})
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func newListen(t *testing.T, client dragoman.Peer, id dragoman.ID, wanted protocol.Interest) *subscription.Listen {
	t.Helper()
	l, refused := subscription.NewListen(listenRequest(t, id, wanted), client)
	if refused != nil {
		t.Fatal(refused)
	}
	return l
}

func note(t *testing.T, method string, params any) *dragoman.Message {
	t.Helper()
	n, err := dragoman.NewNotification(method, params)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func changed(t *testing.T, uri string) *dragoman.Message {
	t.Helper()
	return note(t, protocol.NoteResourceUpdated, map[string]string{"uri": uri})
}

func TestEachListenGetsWhatItWantsUnderItsOwnID(t *testing.T) {
	var hub subscription.Hub
	var a, b recorder
	all := newListen(t, &a, dragoman.StringID("7"), protocol.Interest{Tools: true, Prompts: true, URIs: []string{"x:a"}, Tasks: []string{"t"}})
	some := newListen(t, &b, dragoman.IntID(7), protocol.Interest{Prompts: true})
	hub.Add(all, 0)
	hub.Add(some, 0)
	for _, n := range []*dragoman.Message{
		note(t, protocol.NoteToolsChanged, nil), note(t, protocol.NotePromptsChanged, nil), note(t, protocol.NoteResourcesChanged, nil),
		changed(t, "x:a/part"), changed(t, "x:b"), note(t, protocol.NoteTasks, map[string]string{"taskId": "t"}), note(t, protocol.NoteMessage, nil),
	} {
		hub.Publish(n)
	}
	all.Deliver(t.Context(), nil)
	some.Deliver(t.Context(), nil)
	if got, want := a.take(), `tools/list_changed@"7" prompts/list_changed@"7" resources/updatedx:a/part@"7" tasks"t"@"7"`; got != want {
		t.Errorf("the first got %s, want %s", got, want)
	}
	if got, want := b.take(), `prompts/list_changed@7`; got != want {
		t.Errorf("the second got %s, want %s", got, want)
	}
	hub.Remove(some)
	hub.Publish(note(t, protocol.NotePromptsChanged, nil))
	if some.Deliver(t.Context(), nil); b.take() != "" || hub.Len() != 1 {
		t.Error("a listen that was removed gets a change")
	}
}

func TestChangesBeforeTheAcknowledgementAreDeliveredAfterIt(t *testing.T) {
	var r recorder
	l := newListen(t, &r, dragoman.IntID(1), protocol.Interest{Tools: true, URIs: []string{"x:a", "x:b"}})
	l.Offer(note(t, protocol.NoteToolsChanged, nil))
	l.Offer(changed(t, "x:a"))
	l.Offer(note(t, protocol.NoteToolsChanged, nil)) // once is enough
	select {
	case <-l.Wake():
	default:
		t.Error("the goroutine is not woken")
	}
	l.Honored = protocol.Interest{Tools: true, URIs: []string{"x:a"}}
	l.Acknowledge(t.Context())
	l.Deliver(t.Context(), func(note *dragoman.Message) *dragoman.Message {
		if note.URI() != "" {
			return nil // it cannot be converted
		}
		return note
	})
	if got, want := r.take(), `subscriptions/acknowledged{"toolsListChanged":true,"resourceSubscriptions":["x:a"]}@1 tools/list_changed@1`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	resp := l.Response()
	if string(resp.Get("resultType")) != `"complete"` || string(resp.Meta(protocol.MetaSubscriptionID)) != "1" {
		t.Errorf("the response is %s", resp)
	}
}

func TestAListenWithoutAClientWantsNothing(t *testing.T) {
	l := newListen(t, nil, dragoman.IntID(1), protocol.Interest{Tools: true})
	l.Acknowledge(t.Context())
	if l.Put(note(t, protocol.NoteToolsChanged, nil)); !l.Wanted.Empty() {
		t.Errorf("wants %v", l.Wanted)
	}
	l.Deliver(t.Context(), nil)
}

func TestAListenThatCannotBeReadIsRefused(t *testing.T) {
	for _, notifications := range []any{nil, 1, []string{"tools"}, map[string]string{"toolsListChanged": "yes"}} {
		if _, refused := subscription.NewListen(listenRequest(t, dragoman.IntID(1), notifications), nil); refused == nil || refused.Code != protocol.CodeInvalidParams {
			t.Errorf("%v: %v", notifications, refused)
		}
	}
}

func TestNamesAndChangesOfAListenAreBounded(t *testing.T) {
	var names []string
	for i := range 2 * subscription.MaxNames {
		names = append(names, fmt.Sprint(i), fmt.Sprint(i), "")
	}
	l := newListen(t, dragoman.NoPeer, dragoman.IntID(1), protocol.Interest{URIs: names, Tasks: names})
	if len(l.Wanted.URIs) != subscription.MaxNames || len(l.Wanted.Tasks) != subscription.MaxNames || l.Wanted.URIs[1] != "1" {
		t.Errorf("%d resources and %d tasks", len(l.Wanted.URIs), len(l.Wanted.Tasks))
	}
	for i := range subscription.MaxWaiting + 10 {
		l.Offer(changed(t, fmt.Sprint("1/", i)))
		l.Offer(changed(t, "1/0")) // that waits already
	}
	if n := l.Dropped(); n != 10 {
		t.Errorf("%d changes were dropped, want 10", n)
	}
	for i := range names {
		names[i] += strings.Repeat("x", 1<<10)
	}
	l = newListen(t, dragoman.NoPeer, dragoman.IntID(1), protocol.Interest{URIs: append(names, "short")})
	if got := l.Wanted.URIs; len(strings.Join(got, "")) > 256<<10 || len(got) < 200 || got[len(got)-1] != "short" {
		t.Errorf("%d long names", len(got))
	}
}

func TestAHubHasALimit(t *testing.T) {
	var hub subscription.Hub
	l := newListen(t, nil, dragoman.IntID(1), protocol.Interest{})
	if !hub.Add(l, 1) || hub.Add(new(subscription.Listen), 1) {
		t.Error("not one listen is accepted")
	}
	if hub.Remove(l); !hub.Add(l, 1) {
		t.Error("a listen is refused that there is room for")
	}
}

func TestOnChangeIsCalledUntilItIsStopped(t *testing.T) {
	var hub subscription.Hub
	var got []string
	stop := hub.OnChange(func(method string) { got = append(got, method) })
	hub.Publish(subscription.ListChanged(protocol.NoteToolsChanged))
	stop()
	hub.Publish(subscription.ListChanged(protocol.NotePromptsChanged))
	if !slices.Equal(got, []string{protocol.NoteToolsChanged}) {
		t.Errorf("called with %q", got)
	}
}

func TestSessionsGetThePromisedListsUntilTheyEnd(t *testing.T) {
	var hub subscription.Hub
	var r recorder
	client, server := dragoman.Pipe(&r, nil)
	hub.Add(&subscription.Session{Client: server, Lists: protocol.Interest{Tools: true}}, 0)
	hub.Publish(subscription.ListChanged(protocol.NotePromptsChanged))
	hub.Publish(subscription.ListChanged(protocol.NoteToolsChanged))
	_ = client.Close()
	if got := r.take(); got != "tools/list_changed" {
		t.Errorf("got %s", got)
	}
	for range 100 {
		hub.Add(&subscription.Session{Client: server}, 0)
	}
	if n := hub.Len(); n > 20 {
		t.Errorf("%d sessions that have ended are kept", n)
	}
}

// What the server promises is passed on as it is, unless the client has not asked for it, and
// what else is offered is what both want.
func TestARelayPromisesAndOffersWhatWasAskedForAndAcknowledged(t *testing.T) {
	for _, test := range []struct {
		name, asked, honored string
		acknowledged         string // to the client
		offered              string // of every list
	}{
		{"as asked", `{"toolsListChanged":true}`, `{"toolsListChanged":true}`, `{"toolsListChanged":true}`, "tools/list_changed@1"},
		{"less", `{"toolsListChanged":true,"promptsListChanged":true}`, `{"promptsListChanged":true}`, `{"promptsListChanged":true}`, "prompts/list_changed@1"},
		{"nothing", `{"toolsListChanged":true}`, `{}`, `{}`, ""},
		{"more", `{"toolsListChanged":true}`, `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"x-new":[1]}`,
			`{"toolsListChanged":true,"promptsListChanged":false,"resourcesListChanged":false,"x-new":[1]}`, "tools/list_changed@1"},
		{"another", `{"resourcesListChanged":true,"promptsListChanged":false}`, `{"promptsListChanged":true}`, `{"promptsListChanged":false}`, ""},
		{"resources", `{"resourceSubscriptions":["x://a","x://b"]}`, `{"resourceSubscriptions":["x://a/"]}`, `{"resourceSubscriptions":["x://a/"]}`, ""},
		{"resources not asked for", `{"resourcesListChanged":true,"resourceSubscriptions":[]}`, `{"resourcesListChanged":true,"resourceSubscriptions":["x://a"],"taskIds":["t"]}`,
			`{"resourcesListChanged":true,"resourceSubscriptions":[],"taskIds":[]}`, "resources/list_changed@1"},
		{"invalid", `{"toolsListChanged":true}`, `{"toolsListChanged":true,"promptsListChanged":"yes"}`, `{"toolsListChanged":true,"promptsListChanged":"yes"}`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var r recorder
			client := subscription.NewRelay(listenRequest(t, dragoman.IntID(1), json.RawMessage(test.asked)), &r)
			offer := func() {
				for note := range (&protocol.Interest{Tools: true, Prompts: true, Resources: true}).ChangeNotes() {
					client.Offer(note)
				}
			}
			if offer(); client.Acknowledged() || r.take() != "" {
				t.Error("something comes before the acknowledgement")
			}
			_ = client.Notify(t.Context(), note(t, protocol.NoteAcknowledged, map[string]any{"notifications": json.RawMessage(test.honored)}))
			if got := r.take(); got != "subscriptions/acknowledged"+test.acknowledged || !client.Acknowledged() {
				t.Errorf("got %s, want %s", got, test.acknowledged)
			}
			if offer(); strings.Join(r.notes, " ") != test.offered {
				t.Errorf("of every list it gets %q, want %q", r.notes, test.offered)
			}
			r.take()
			_ = client.Notify(t.Context(), changed(t, "x:a")) // the server's own pass
			if got := r.take(); got != "resources/updatedx:a" {
				t.Errorf("got %s", got)
			}
			client.Close()
			if offer(); r.take() != "" {
				t.Error("something comes after the end")
			}
		})
	}
}

func TestARelayReportsWhatWasMissedWhenTheListenIsSentAgain(t *testing.T) {
	var r recorder
	client := subscription.NewRelay(listenRequest(t, dragoman.IntID(1), protocol.Interest{Tools: true, Prompts: true, URIs: []string{"x:a"}}), &r)
	ack := func(honored protocol.Interest) string {
		_ = client.Notify(t.Context(), note(t, protocol.NoteAcknowledged, map[string]any{"notifications": honored}))
		return r.take()
	}
	ack(protocol.Interest{Tools: true, URIs: []string{"x:a"}})
	if got := ack(protocol.Interest{Tools: true, Prompts: true, URIs: []string{"x:a"}}); got != "tools/list_changed@1 resources/updatedx:a@1" {
		t.Errorf("got %s", got)
	}
	ack(protocol.Interest{URIs: []string{"x:a"}})
	if got := ack(protocol.Interest{Tools: true, URIs: []string{"x:a"}}); got != "resources/updatedx:a@1" {
		t.Errorf("got %s", got)
	}
}

func TestAConnectionThatKeepsBreakingIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var losses subscription.Losses
		retries := func(lasting time.Duration) (n int) {
			for losses.Opened(); losses.Retry(nil, nil) && n < 100; losses.Opened() {
				n++
				time.Sleep(lasting)
				losses.Lost()
			}
			return n
		}
		if n := retries(time.Second); n != 5 {
			t.Errorf("%d connections were opened, want 5", n)
		}
		if n := retries(2 * time.Minute); n != 0 {
			t.Errorf("%d more connections were opened", n)
		}
		losses = subscription.Losses{}
		if n := retries(2 * time.Minute); n != 100 {
			t.Errorf("after %d connections that lasted it was given up", n)
		}
		losses = subscription.Losses{}
		gone := make(chan struct{})
		close(gone)
		if losses.Retry(gone, nil) || losses.Retry(nil, gone) {
			t.Error("it is not given up when the client has gone")
		}
	})
}
