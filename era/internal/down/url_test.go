package down_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/down"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// consenting is a server that wants the user to visit two sites first, the given
// number of times.
func consenting(times int, j *journal) *script {
	s := &script{rev: protocol.V20251125}
	s.on = map[string]handler{}
	s.on[protocol.MethodCallTool] = func(_ context.Context, _ *scripted, req *dragoman.Message, _ dragoman.Peer) (any, error) {
		if times--; times >= 0 {
			return nil, &dragoman.Error{Code: protocol.CodeURLElicitation, Message: "visit first", Data: json.RawMessage(
				`{"elicitations":[{"mode":"url","elicitationId":"1","url":"https://a.example","message":"A"},{"mode":"url","elicitationId":"2","url":"https://b.example","message":"B"}]}`)}
		}
		if req.Get("inputResponses") != nil || req.Get("requestState") != nil {
			return nil, &dragoman.Error{Code: -32602, Message: "the server got what is not for it"}
		}
		j.note("ran")
		return text("ran"), nil
	}
	s.on[protocol.MethodReadResource] = s.on[protocol.MethodCallTool]
	return s
}

func TestVisitsBecomeARound(t *testing.T) {
	both(t, func(t *testing.T, wrap func(dragoman.Conn, dragoman.Peer) dragoman.Conn) {
		var j journal
		r := newRig(t, dragoman.Local(consenting(2, &j)), wrap, nil)
		params := callParams("x", object{"a": 1})
		questions, state := asked(t, r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, params), nil))
		if len(questions) != 2 || questions["1"]["method"] != protocol.MethodElicit {
			t.Fatalf("asked %v", questions)
		}
		if p := questions["2"]["params"].(object); p["mode"] != "url" || p["url"] != "https://b.example" || p["message"] != "B" || p["elicitationId"] != nil {
			t.Errorf("asked %v", p)
		}
		one := object{"1": object{"action": "accept"}}
		all := object{"1": object{"action": "accept"}, "2": object{"action": "accept"}}
		again, state2 := asked(t, r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, with(params, state, one)), nil))
		if len(again) != 2 {
			t.Errorf("asked %v", again)
		}
		r.refused(t.Context(), r.request(protocol.MethodCallTool, canAll, with(params, state, all)), protocol.CodeInvalidParams, "used")
		_, state3 := asked(t, r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, with(params, state2, all)), nil))
		got := complete(t, r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, with(params, state3, all)), nil))
		if said(t, got) != "ran" {
			t.Errorf("got %v", got)
		}
		r.refused(t.Context(), r.request(protocol.MethodCallTool, canAll, with(params, state3, all)), protocol.CodeInvalidParams, "used")
		r.refused(as(t.Context(), "eve"), r.request(protocol.MethodCallTool, canAll, with(params, state3, all)), protocol.CodeInvalidParams, "never given out")
		j.wantOnce(t, "ran")
	})
}

func TestVisitThatIsDeclinedRunsNothing(t *testing.T) {
	peertest.NoLeak(t)
	var j journal
	r := newRig(t, dragoman.Local(consenting(1, &j)), nil, nil)
	resp, n := r.rounds(t.Context(), protocol.MethodCallTool, canAll, callParams("x", nil), func(object) object { return object{"action": "decline"} })
	if got := complete(t, resp); n != 1 || got["isError"] != true || !strings.Contains(said(t, got), "did not agree") {
		t.Errorf("after %d rounds: %s", n, resp)
	}
	if len(j.runs) != 0 {
		t.Error("it ran")
	}
	r = newRig(t, dragoman.Local(consenting(1, &j)), nil, nil)
	resp, _ = r.rounds(t.Context(), protocol.MethodReadResource, canAll, object{"uri": "x:"}, func(object) object { return object{"action": "cancel"} })
	wantError(t, resp, protocol.CodeInternal, "did not agree")
}

func TestVisitNeedsAClientThatCanBeSent(t *testing.T) {
	peertest.NoLeak(t)
	var j journal
	r := newRig(t, dragoman.Local(consenting(2, &j)), nil, nil)
	for _, caps := range []object{nil, {"elicitation": object{}}} {
		e := r.refused(t.Context(), r.request(protocol.MethodCallTool, caps, callParams("x", nil)), protocol.CodeMissingCapability, "visit first")
		if string(e.Data) != `{"requiredCapabilities":{"elicitation":{"url":{}}}}` {
			t.Errorf("data is %s", e.Data)
		}
	}
}

func TestVisitsAreNotAskedForForever(t *testing.T) {
	peertest.NoLeak(t)
	var j journal
	r := newRig(t, dragoman.Local(consenting(1000, &j)), nil, &down.Options{MaxRounds: 3})
	resp, n := r.rounds(t.Context(), protocol.MethodCallTool, canAll, callParams("x", nil), obliging)
	if wantError(t, resp, protocol.CodeInternal, "3 times"); n != 3 {
		t.Errorf("%d rounds", n)
	}
	resp, n = r.rounds(t.Context(), protocol.MethodCallTool, canAll, callParams("y", nil), func(object) object { return object{} })
	if wantError(t, resp, protocol.CodeInvalidParams, "3 times"); n != 3 {
		t.Errorf("%d rounds", n)
	}
}

func TestTooManyVisitsAtOnce(t *testing.T) {
	peertest.NoLeak(t)
	var j journal
	r := newRig(t, dragoman.Local(consenting(2, &j)), nil, &down.Options{MaxSuspended: 1})
	var states []string
	for range 2 {
		_, state := asked(t, r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, callParams("x", nil)), nil))
		states = append(states, state)
	}
	all := object{"1": object{"action": "accept"}, "2": object{"action": "accept"}}
	complete(t, r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, with(callParams("x", nil), states[0], all)), nil))
	r.refused(t.Context(), r.request(protocol.MethodCallTool, canAll, with(callParams("x", nil), states[1], all)), protocol.CodeOverloaded, "too many")
	j.wantOnce(t, "ran")
}
