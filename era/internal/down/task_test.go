package down_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// tasking is a server with a tool "long" that runs as a task only. Its result is
// asked for as often as early says before there is one.
func tasking(j *journal, early int32) (*script, chan string) {
	cancelled := make(chan string, 1)
	var left atomic.Int32
	left.Store(early)
	s := &script{rev: protocol.V20251125, caps: object{
		"tools": object{"listChanged": true},
		"tasks": object{"cancel": object{}, "requests": object{"tools": object{"call": object{}}}},
	}}
	s.on = map[string]handler{
		protocol.MethodListTools: func(_ context.Context, _ *scripted, req *dragoman.Message, _ dragoman.Peer) (any, error) {
			if req.Get("cursor") == nil {
				return object{"tools": []any{object{"name": "short", "inputSchema": object{"type": "object"}}}, "nextCursor": ""}, nil
			}
			return object{"tools": []any{object{"name": "long", "inputSchema": object{"type": "object"}, "execution": object{"taskSupport": "required"}}}}, nil
		},
		protocol.MethodCallTool: func(_ context.Context, _ *scripted, req *dragoman.Message, _ dragoman.Peer) (any, error) {
			j.note(req.Name())
			if req.Name() == "short" {
				return text("task: " + string(req.Get("task"))), nil
			}
			if string(req.Get("task")) != "{}" {
				return nil, &dragoman.Error{Code: -32601, Message: "only as a task"}
			}
			return object{"task": object{"taskId": "t1", "status": "working", "pollInterval": 50}}, nil
		},
		protocol.MethodGetTask: func(context.Context, *scripted, *dragoman.Message, dragoman.Peer) (any, error) {
			return object{"taskId": "t1", "status": "working"}, nil
		},
		protocol.MethodTaskResult: func(ctx context.Context, c *scripted, req *dragoman.Message, from dragoman.Peer) (any, error) {
			if left.Add(-1) >= 0 {
				return nil, &dragoman.Error{Code: -32602, Message: "not yet"}
			}
			if string(req.Get("taskId")) != `"t1"` {
				return nil, &dragoman.Error{Code: -32602, Message: "no such task"}
			}
			got, err := c.ask(ctx, from, protocol.MethodElicit, object{
				"message": "?", "requestedSchema": json.RawMessage(`{"type":"object","properties":{"ok":{"type":"boolean"}}}`),
				"_meta": object{protocol.MetaRelatedTask: object{"taskId": "t1"}},
			})
			if err != nil {
				return nil, err
			}
			result := text(got)
			result["_meta"] = object{protocol.MetaRelatedTask: object{"taskId": "t1"}, "kept": 1}
			return result, nil
		},
		protocol.MethodCancelTask: func(_ context.Context, _ *scripted, req *dragoman.Message, _ dragoman.Peer) (any, error) {
			cancelled <- string(req.Get("taskId"))
			return object{}, nil
		},
	}
	return s, cancelled
}

func TestToolThatRunsAsATaskOnly(t *testing.T) {
	both(t, func(t *testing.T, wrap func(dragoman.Conn, dragoman.Peer) dragoman.Conn) {
		var j journal
		s, _ := tasking(&j, 2)
		r := newRig(t, dragoman.Local(s), wrap, nil)
		resp, n := r.rounds(t.Context(), protocol.MethodCallTool, canAll, callParams("long", nil), obliging)
		got := complete(t, resp)
		if n != 1 || said(t, got) != `{"action":"accept","content":{"ok":true}}` {
			t.Errorf("after %d rounds: %v", n, got)
		}
		if m := got["_meta"].(object); m[protocol.MetaRelatedTask] != nil || m["kept"] != 1.0 {
			t.Errorf("_meta is %v", m)
		}
		j.wantOnce(t, "long")
		// Others are no tasks, whatever the client says.
		resp = r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, joined(callParams("short", nil), object{"task": object{}})), nil)
		if got := said(t, complete(t, resp)); got != "task: " {
			t.Errorf("got %q", got)
		}
		tools := r.want(t.Context(), protocol.MethodListTools, canAll, object{"cursor": ""})["tools"].([]any)
		if tools[0].(object)["execution"] != nil {
			t.Errorf("the client hears of tasks: %v", tools)
		}
	})
}

func TestTaskOfAClientThatLeavesIsCancelled(t *testing.T) {
	both(t, func(t *testing.T, wrap func(dragoman.Conn, dragoman.Peer) dragoman.Conn) {
		var j journal
		s, cancelled := tasking(&j, 1<<30)
		r := newRig(t, dragoman.Local(s), wrap, nil)
		for _, caps := range []object{nil, canAll} {
			ctx, cancel := context.WithCancelCause(t.Context())
			polled := make(chan struct{}, 1000)
			s.on[protocol.MethodGetTask] = func(context.Context, *scripted, *dragoman.Message, dragoman.Peer) (any, error) {
				polled <- struct{}{}
				return object{"taskId": "t1", "status": "working"}, nil
			}
			done := r.start(ctx, r.request(protocol.MethodCallTool, caps, callParams("long", nil)), nil)
			receive(t, polled, "the task is looked at")
			cancel(dragoman.ErrCancelled)
			if got := receive(t, cancelled, "the task is cancelled"); got != `"t1"` {
				t.Errorf("cancelled %s", got)
			}
			if o := receive(t, done, "the call returns"); !errors.Is(o.err, dragoman.ErrCancelled) {
				t.Errorf("got %v, %v", o.resp, o.err)
			}
		}
	})
}
