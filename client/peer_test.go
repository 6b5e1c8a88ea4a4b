package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// overPeers runs a test with peers of the modern era: a server itself, and servers of
// each era behind an era.Server.
func overPeers(t *testing.T, test func(t *testing.T, peer dragoman.Peer)) {
	t.Run("a server", func(t *testing.T) {
		peertest.NoLeak(t)
		test(t, builtin.New(&builtin.Options{PageSize: 3, Numbered: 7}).Requests())
	})
	for _, rev := range revisions {
		t.Run(rev.Era().String()+" behind era", func(t *testing.T) {
			peertest.NoLeak(t)
			s := &era.Server{Dialer: dragoman.Local(builtin.New(&builtin.Options{Revisions: []protocol.Revision{rev}, PageSize: 3, Numbered: 7}))}
			t.Cleanup(func() { _ = s.Close() })
			test(t, s.Requests())
		})
	}
}

func TestAClientUsesAnyPeerOfTheModernEra(t *testing.T) {
	overPeers(t, func(t *testing.T, peer dragoman.Peer) {
		e := newNotifications()
		c := client.New(peer, &client.Options{OnNotification: e.add, Elicitation: func(context.Context, json.RawMessage) (any, error) {
			return object{"action": "decline"}, nil
		}})
		t.Cleanup(func() { _ = c.Close() })
		ctx := within(t)
		if err := c.Open(ctx); err != nil {
			t.Fatal(err)
		}
		if c.Era() != protocol.Modern || c.Revision() != protocol.Latest || !c.Can("tools") || c.ServerInfo().Name == "" {
			t.Errorf("it is %v of %v, %s", c.ServerInfo(), c.Revision(), c.Capabilities())
		}
		tools, err := c.Tools(ctx)
		if err != nil || len(tools) < 7 {
			t.Errorf("%d tools, %v", len(tools), err)
		}
		if r, err := c.CallTool(ctx, "test_elicitation", object{"message": "m"}, nil); err != nil || r.IsError {
			t.Errorf("a tool that asks: %+v, %v", r, err)
		}
		const uri = "test://watched-resource"
		if err := c.Subscribe(ctx, uri); err != nil {
			t.Fatal(err)
		}
		if _, err := c.CallTool(ctx, "update_resource", object{"uri": uri}, nil); err != nil {
			t.Fatal(err)
		}
		e.wait(t, protocol.NoteResourceUpdated, 1)
		if _, err := c.CallTool(ctx, "test_trigger_tool_change", nil, nil); err != nil {
			t.Fatal(err)
		}
		e.wait(t, protocol.NoteToolsChanged, 1)
	})
}

func TestErrorsOfAPeerAreTheServers(t *testing.T) {
	for name, test := range map[string]struct {
		fail error
		kind client.Kind // zero means that the error is the peer's own
	}{
		"an answer":           {&dragoman.Error{Code: protocol.CodeUnavailable, Message: "away"}, 0},
		"it is closed":        {dragoman.ErrClosed, client.ConnectionLost},
		"it does not like it": {&dragoman.Error{Code: protocol.CodeInvalidParams, Message: "no"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := client.New(dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
				if e, ok := errors.AsType[*dragoman.Error](test.fail); ok {
					return req.Fail(e), nil
				}
				return nil, test.fail
			}}, nil)
			_, err := c.Request(t.Context(), protocol.MethodDiscover, nil)
			e, ours := errors.AsType[*client.Error](err)
			if !errors.Is(err, test.fail) && err.Error() != test.fail.Error() || ours != (test.kind != 0) || ours && (e.Kind != test.kind || !e.Sent) {
				t.Errorf("the error is %#v", err)
			}
			if err := c.Open(t.Context()); !errors.Is(err, client.ConnectionFailed) {
				t.Errorf("Open: %v", err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAClosedClientLeavesItsPeerAlone(t *testing.T) {
	began := make(chan struct{}, 1)
	c := client.New(dragoman.Funcs{OnCall: func(ctx context.Context, _ *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		began <- struct{}{}
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}}, nil)
	// Ends when the request in flight is ended by Close.
	go func() {
		<-began
		_ = c.Close()
	}()
	for _, when := range []string{"in progress", "later"} {
		_, err := c.Request(within(t), protocol.MethodListTools, nil)
		if e, ok := errors.AsType[*client.Error](err); !ok || !errors.Is(err, dragoman.ErrClosed) || e.Sent != (when == "in progress") {
			t.Errorf("a request %s: %v", when, err)
		}
	}
	if len(began) != 0 {
		t.Error("the peer was asked after Close")
	}
}

func TestPagesComeAsTheServerWroteThem(t *testing.T) {
	pages := map[string]string{"": `{"tools":[ {"name" : "a"} ],"nextCursor":"n","x":1.50}`, `"n"`: `{"tools":[]}`}
	c := client.New(dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		return req.Reply(json.RawMessage(pages[string(req.Get("cursor"))]))
	}}, nil)
	t.Cleanup(func() { _ = c.Close() })
	var got []string
	for page, err := range c.Pages(t.Context(), protocol.MethodListTools) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(page.Result()))
	}
	if len(got) != 2 || got[0] != pages[""] || got[1] != pages[`"n"`] {
		t.Errorf("got %q", got)
	}
}
