package builtin_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const watched = "test://watched-resource"

// A subscription is a listen of the modern era that is in progress.
type subscription struct {
	*testClient
	id     dragoman.ID
	cancel context.CancelCauseFunc
	done   chan struct{}
	resp   *dragoman.Message
	err    error
}

// listen begins a subscription. It must be called inside a bubble.
func listen(t *testing.T, s *builtin.Server, id dragoman.ID, notifications object) *subscription {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	l := &subscription{testClient: open(t, s, protocol.Latest, nil), id: id, cancel: cancel, done: make(chan struct{})}
	req := l.request(protocol.MethodListen, object{"notifications": notifications}).WithID(id)
	// It ends with the test's context, or when the test ends the subscription.
	go func() {
		defer close(l.done)
		l.resp, l.err = s.Requests().Call(ctx, req, l)
	}()
	synctest.Wait()
	return l
}

// wantNotes fails the test unless exactly these notifications have come, each
// tagged with the subscription's id.
func (l *subscription) wantNotes(want string) []*dragoman.Message {
	l.t.Helper()
	synctest.Wait()
	notes := l.received()
	if got := methods(notes); got != want {
		l.t.Errorf("received %q, want %q", got, want)
	}
	for _, n := range notes {
		if got := string(n.Meta(protocol.MetaSubscriptionID)); got != l.id.String() {
			l.t.Errorf("%s is tagged with %s, want %s", n.Method(), got, l.id)
		}
	}
	return notes
}

func TestListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := builtin.New(nil)
		all := listen(t, s, dragoman.IntID(7), object{
			"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
			"resourceSubscriptions": []string{watched, "test://no-such", "test://template/1/data"},
		})
		ack := all.wantNotes("subscriptions/acknowledged")
		wantJSON(t, "acknowledged", ack[0].Get("notifications"), `{"toolsListChanged":true,"promptsListChanged":true,
			"resourcesListChanged":true,"resourceSubscriptions":["`+watched+`","test://template/1/data"]}`)
		prompts := listen(t, s, dragoman.StringID("7"), object{"toolsListChanged": false, "promptsListChanged": true})
		ack = prompts.wantNotes("subscriptions/acknowledged")
		wantJSON(t, "acknowledged", ack[0].Get("notifications"), `{"promptsListChanged":true}`)

		d := open(t, s, protocol.LatestLegacy, nil)
		for _, step := range []struct{ tool, all, prompts string }{
			{"test_trigger_tool_change", "tools/list_changed", ""},
			{"test_trigger_prompt_change", "prompts/list_changed", "prompts/list_changed"},
			{"test_trigger_resource_change", "resources/list_changed", ""},
			{"update_resource", "resources/updated", ""},
		} {
			d.tool(step.tool, nil)
			notes := all.wantNotes(step.all)
			if step.tool == "update_resource" && notes[0].URI() != watched {
				t.Errorf("the update is %s", notes[0])
			}
			prompts.wantNotes(step.prompts)
		}
		d.tool("update_resource", object{"uri": "test://static-text"})
		all.wantNotes("")

		gone := errors.New("gone")
		all.cancel(gone)
		<-all.done
		if !errors.Is(all.err, gone) || all.resp != nil {
			t.Errorf("a cancelled subscription ends with %v, %v", all.resp, all.err)
		}
		d.tool("test_trigger_prompt_change", nil)
		all.wantNotes("")
		prompts.wantNotes("prompts/list_changed")

		s.Close()
		<-prompts.done
		if prompts.err != nil || prompts.resp.IsError() {
			t.Fatalf("a closed server ends it with %v, %v", prompts.resp, prompts.err)
		}
		if got := string(prompts.resp.Meta(protocol.MetaSubscriptionID)); got != `"7"` {
			t.Errorf("the result is %s", prompts.resp)
		}
		if got := string(prompts.resp.Get("resultType")); got != `"complete"` {
			t.Errorf("the result is %s", prompts.resp)
		}
	})
}

func TestListenThatEndsAtOnce(t *testing.T) {
	closed := builtin.New(nil)
	closed.Close()
	tests := []struct {
		name          string
		server        *builtin.Server
		notifications object
		ack           string
	}{
		{"nothing wanted", builtin.New(nil), object{}, `{}`},
		{"nothing known", builtin.New(nil), object{"resourceSubscriptions": []string{"test://no-such"}, "other": true}, `{}`},
		{"a closed server", closed, object{"toolsListChanged": true}, `{"toolsListChanged":true}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := open(t, test.server, protocol.Latest, nil)
			got := d.want(protocol.MethodListen, object{"notifications": test.notifications})
			if got["_meta"].(object)[protocol.MetaSubscriptionID] != 1.0 {
				t.Errorf("the result is %v", got)
			}
			notes := d.received()
			if methods(notes) != "subscriptions/acknowledged" {
				t.Fatalf("heard %q", methods(notes))
			}
			wantJSON(t, "acknowledged", notes[0].Get("notifications"), test.ack)
		})
	}
	t.Run("nobody to tell", func(t *testing.T) {
		s := builtin.New(nil)
		req := open(t, s, protocol.Latest, nil).request(protocol.MethodListen, object{"notifications": object{"toolsListChanged": true}})
		if resp, err := s.Requests().Call(t.Context(), req, nil); err != nil || resp.IsError() {
			t.Errorf("got %v, %v", resp, err)
		}
	})
	for _, params := range []object{nil, {"notifications": nil}, {"notifications": []string{"tools"}}, {"notifications": object{"toolsListChanged": "yes"}}} {
		t.Run(fmt.Sprint("bad params ", params), func(t *testing.T) {
			open(t, builtin.New(nil), protocol.Latest, nil).wantError(protocol.CodeInvalidParams, protocol.MethodListen, params)
		})
	}
}

func TestChangesReachLegacySessions(t *testing.T) {
	s := builtin.New(nil)
	one, two := open(t, s, protocol.V20241105, nil), open(t, s, protocol.LatestLegacy, nil)
	raw := dial(t, s, protocol.LatestLegacy, nil)
	raw.want("initialize", object{"protocolVersion": protocol.LatestLegacy.String(), "capabilities": object{}})
	other := open(t, s, protocol.Latest, nil)
	two.want(protocol.MethodSubscribe, object{"uri": watched})
	for _, step := range []struct{ tool, one, two string }{
		{"test_trigger_tool_change", "tools/list_changed", "tools/list_changed"},
		{"test_trigger_prompt_change", "prompts/list_changed", "prompts/list_changed"},
		{"test_trigger_resource_change", "resources/list_changed", "resources/list_changed"},
		{"update_resource", "", "resources/updated"},
	} {
		t.Run(step.tool, func(t *testing.T) {
			other.in(t).tool(step.tool, nil)
			for _, d := range []struct {
				client *testClient
				want   string
			}{{one, step.one}, {two, step.two}, {raw, ""}, {other, ""}} {
				if got := methods(d.client.receivedOutsideCalls()); got != d.want {
					t.Errorf("revision %s received %q, want %q", d.client.rev, got, d.want)
				}
			}
		})
	}
	t.Run("not after unsubscribing", func(t *testing.T) {
		two.in(t).want(protocol.MethodUnsubscribe, object{"uri": watched})
		other.in(t).tool("update_resource", nil)
		if got := methods(two.receivedOutsideCalls()); got != "" {
			t.Errorf("heard %q", got)
		}
	})
	t.Run("not after the conversation", func(t *testing.T) {
		one.conn.Close()
		other.in(t).tool("test_trigger_tool_change", nil)
		if got := methods(one.receivedOutsideCalls()); got != "" {
			t.Errorf("heard %q", got)
		}
	})
	t.Run("a subscription needs a resource", func(t *testing.T) {
		two.in(t).wantError(protocol.CodeResourceNotFound, protocol.MethodSubscribe, object{"uri": "test://no-such"})
		two.wantError(protocol.CodeInvalidParams, protocol.MethodSubscribe, object{})
		two.wantError(protocol.CodeInvalidParams, protocol.MethodUnsubscribe, nil)
	})
}

func TestListsReallyChange(t *testing.T) {
	tests := []struct{ tool, list, kind, member, value string }{
		{"test_trigger_tool_change", protocol.MethodListTools, "tools", "name", "test_added_tool"},
		{"test_trigger_prompt_change", protocol.MethodListPrompts, "prompts", "name", "test_added_prompt"},
		{"test_trigger_resource_change", protocol.MethodListResources, "resources", "uri", "test://added-resource"},
	}
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		d := open(t, builtin.New(nil), rev, nil)
		for _, test := range tests {
			t.Run(test.kind, func(t *testing.T) {
				d.in(t)
				before := len(d.want(test.list, nil)[test.kind].([]any))
				d.tool(test.tool, nil)
				list := d.want(test.list, nil)[test.kind]
				if find(t, list, test.member, test.value); len(list.([]any)) != before+1 {
					t.Errorf("there are %d, before there were %d", len(list.([]any)), before)
				}
				if test.kind == "tools" {
					if got := d.toolText(test.value, nil); got == "" {
						t.Error("the added tool says nothing")
					}
				}
				d.tool(test.tool, nil)
				if n := len(d.want(test.list, nil)[test.kind].([]any)); n != before {
					t.Errorf("there are %d, before there were %d", n, before)
				}
			})
		}
	})
}

// Sessions come and go while others are told of changes.
func TestManySessions(t *testing.T) {
	s := builtin.New(nil)
	stay := open(t, s, protocol.LatestLegacy, nil)
	for range 200 {
		open(t, s, protocol.LatestLegacy, nil).conn.Close()
	}
	stay.tool("test_trigger_tool_change", nil)
	if got := methods(stay.receivedOutsideCalls()); got != "tools/list_changed" {
		t.Errorf("heard %q", got)
	}
}
