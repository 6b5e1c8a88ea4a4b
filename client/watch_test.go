package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestChangesOfListsAreTold(t *testing.T) {
	inEachEra(t, func(t *testing.T, server *client.Server, _ protocol.Era) {
		e := newNotifications()
		c := connect(t, server, &client.Options{OnNotification: e.add})
		const uri = "test://watched-resource"
		if err := c.Subscribe(within(t), uri); err != nil { // then the server listens, in either era
			t.Fatal(err)
		}
		for tool, note := range map[string]string{
			"test_trigger_tool_change":     protocol.NoteToolsChanged,
			"test_trigger_prompt_change":   protocol.NotePromptsChanged,
			"test_trigger_resource_change": protocol.NoteResourcesChanged,
		} {
			if _, err := c.CallTool(within(t), tool, nil, nil); err != nil {
				t.Fatal(err)
			}
			e.wait(t, note, 1)
		}
	})
}

func TestSubscriptionsOutliveTheConversation(t *testing.T) {
	for _, rev := range revisions {
		t.Run(rev.Era().String(), func(t *testing.T) {
			peertest.NoLeak(t)
			server := newCuttable(rev)
			e := newNotifications()
			c := connect(t, &client.Server{Name: "cuttable", Dialer: server}, &client.Options{OnNotification: e.add})
			const uri = "test://watched-resource"
			if err := c.Subscribe(within(t), uri); err != nil {
				t.Fatal(err)
			}
			server.cut()
			e.wait(t, protocol.NoteResourceUpdated, 1) // it may have changed
			before := e.count(protocol.NoteResourceUpdated)
			if _, err := c.CallTool(within(t), "update_resource", object{"uri": uri}, nil); err != nil {
				t.Fatal(err)
			}
			e.wait(t, protocol.NoteResourceUpdated, before+1)
		})
	}
}

func TestAResourceThatIsNotTheServersCannotBeSubscribedTo(t *testing.T) {
	inEachEra(t, func(t *testing.T, server *client.Server, _ protocol.Era) {
		e := newNotifications()
		c := connect(t, server, &client.Options{OnNotification: e.add})
		ctx := within(t)
		err := c.Subscribe(ctx, "test://nothing-of-the-kind")
		if _, ok := errors.AsType[*dragoman.Error](err); !ok {
			t.Errorf("the error is %v", err)
		}
		if err := c.Subscribe(ctx, "test://watched-resource"); err != nil {
			t.Errorf("another one: %v", err)
		}
		if _, err := c.CallTool(ctx, "test_trigger_tool_change", nil, nil); err != nil {
			t.Fatal(err)
		}
		e.wait(t, protocol.NoteToolsChanged, 1) // that is still heard
	})
}

// A listening is what a scripted server does with the n-th subscriptions/listen,
// until it returns.
type listening func(ctx context.Context, n int, req *dragoman.Message, from dragoman.Peer) *dragoman.Error

func (l listening) server() (*client.Server, *atomic.Int32) {
	n := new(atomic.Int32)
	return scripted(nil, dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
		if req.Method() != protocol.MethodListen {
			return dragoman.NoPeer.Call(ctx, req, from)
		}
		if no := l(ctx, int(n.Add(1)), req, from); no != nil {
			return req.Fail(no), nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return req.Reply(object{"resultType": "complete"})
	}}), n
}

func acknowledge(ctx context.Context, req *dragoman.Message, from dragoman.Peer, what json.RawMessage) {
	note, err := dragoman.NewNotification(protocol.NoteAcknowledged, object{
		"notifications": what, "_meta": object{protocol.MetaSubscriptionID: req.ID()},
	})
	if err == nil {
		_ = from.Notify(ctx, note)
	}
}

func TestASubscriptionThatIsNotAcknowledgedIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, _ := listening(func(ctx context.Context, _ int, req *dragoman.Message, from dragoman.Peer) *dragoman.Error {
			var want struct{ ResourceSubscriptions []string }
			_ = json.Unmarshal(req.Get("notifications"), &want)
			if len(want.ResourceSubscriptions) == 0 {
				acknowledge(ctx, req, from, req.Get("notifications"))
			}
			<-ctx.Done()
			return nil
		}).server()
		c := bubbled(t, server, &client.Options{OnNotification: func(*dragoman.Message) {}, Timeout: time.Second})
		began := time.Now()
		if err := c.Subscribe(t.Context(), "x:y"); !errors.Is(err, client.Timeout) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		patient := bubbled(t, server, &client.Options{Timeout: -1})
		began = time.Now()
		if err := patient.Subscribe(t.Context(), "x:y"); !errors.Is(err, client.Timeout) || time.Since(began) != 30*time.Second {
			t.Errorf("forever: %v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := c.Subscribe(ctx, "x:z"); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, client.Timeout) {
			t.Errorf("the caller's own end: %v", err)
		}
	})
}
