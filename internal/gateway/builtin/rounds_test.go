package builtin_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// round returns the params of a tool call, with what a later round adds.
func round(tool string, args, responses object, state any) object {
	params := object{"name": tool, "arguments": args}
	if responses != nil {
		params["inputResponses"] = responses
	}
	if state != nil {
		params["requestState"] = state
	}
	return params
}

func accept(content object) object { return object{"action": "accept", "content": content} }

func TestInputRequiredResult(t *testing.T) {
	d := open(t, builtin.New(nil), protocol.Latest, canAll)
	got := d.want(protocol.MethodCallTool, round("test_input_required_result_elicitation", object{}, nil, nil))
	if got["resultType"] != protocol.ResultInputRequired {
		t.Errorf("resultType is %v", got["resultType"])
	}
	wantJSON(t, "inputRequests", got["inputRequests"], `{"user_name":{"method":"elicitation/create","params":{
		"message":"What is your name?",
		"requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}}}`)
	for _, name := range []string{"requestState", "ttlMs", "cacheScope", "content"} {
		if v, ok := got[name]; ok {
			t.Errorf("it has %s %v", name, v)
		}
	}
	got = d.want(protocol.MethodReadResource, object{"uri": "test://asking-resource"})
	if got["resultType"] != protocol.ResultInputRequired || got["ttlMs"] != nil {
		t.Errorf("a resource asks by %v", got)
	}
}

func TestAnswersOfARound(t *testing.T) {
	const tool = "test_input_required_result_elicitation"
	good := accept(object{"name": "Ada"})
	tests := []struct {
		name      string
		responses any
		want      string // "again" if it is asked again, "error" for an error
	}{
		{"the right one", object{"user_name": good}, "Hello, Ada!"},
		{"others are ignored", object{"user_name": good, "more": object{"action": "accept"}}, "Hello, Ada!"},
		{"declining is one", object{"user_name": object{"action": "decline"}}, "Hello, whoever you are: action=decline"},
		{"none", object{}, "again"},
		{"for another key", object{"name": good}, "again"},
		{"a missing field", object{"user_name": accept(object{})}, "again"},
		{"a mistyped field", object{"user_name": accept(object{"name": 5})}, "again"},
		{"an unknown action", object{"user_name": object{"action": "shrug"}}, "again"},
		{"a number", object{"user_name": 12345}, "error"},
		{"an array of them", []any{good}, "error"},
		{"null", nil, "error"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := open(t, builtin.New(nil), protocol.Latest, canAll)
			params := object{"name": tool, "inputResponses": test.responses}
			if test.want == "error" {
				d.wantError(protocol.CodeInvalidParams, protocol.MethodCallTool, params)
				return
			}
			got := d.want(protocol.MethodCallTool, params)
			if test.want == "again" {
				if got["resultType"] != protocol.ResultInputRequired {
					t.Errorf("got %v, want the question again", got)
				}
				return
			}
			if textOf(t, got) != test.want {
				t.Errorf("got %q, want %q", textOf(t, got), test.want)
			}
		})
	}
}

func TestRequestState(t *testing.T) {
	const confirm, other = "test_input_required_result_request_state", "test_input_required_result_tampered_state"
	yes := object{"confirm": accept(object{"ok": true})}
	args := object{"b": 1, "a": []any{"x", 2.50}}
	s := builtin.New(nil)
	d := open(t, s, protocol.Latest, canAll)
	first := d.want(protocol.MethodCallTool, round(confirm, args, nil, nil))
	state, ok := first["requestState"].(string)
	if !ok {
		t.Fatalf("there is no state in %v", first)
	}
	last := state[len(state)-1:]
	tests := []struct {
		name   string
		server *builtin.Server
		params object
		want   string // "again" or "error", else the text
	}{
		{"as it came", s, round(confirm, args, yes, state), `state-ok: action=accept, content={"ok":true}`},
		{"a second time", s, round(confirm, args, yes, state), `state-ok: action=accept, content={"ok":true}`},
		{"without answers", s, round(confirm, args, nil, state), "again"},
		{"left out", s, round(confirm, args, yes, nil), "again"},
		{"with more at the end", s, round(confirm, args, yes, state+"-TAMPERED"), "error"},
		{"cut off", s, round(confirm, args, yes, state[:len(state)-2]), "error"},
		{"changed", s, round(confirm, args, yes, flip(state)), "error"},
		{"in another spelling", s, round(confirm, args, yes, state+last+"="), "error"},
		{"empty", s, round(confirm, args, yes, ""), "error"},
		{"no string", s, round(confirm, args, yes, 5), "error"},
		{"for other arguments", s, round(confirm, object{"b": 2}, yes, state), "error"},
		{"for another tool", s, round(other, args, yes, state), "error"},
		{"at another server", builtin.New(nil), round(confirm, args, yes, state), "error"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := open(t, test.server, protocol.Latest, canAll)
			if test.want == "error" {
				e := d.wantError(protocol.CodeInvalidParams, protocol.MethodCallTool, test.params)
				if !strings.Contains(e.Message, "requestState") {
					t.Errorf("the message is %q", e.Message)
				}
				return
			}
			got := d.want(protocol.MethodCallTool, test.params)
			if test.want == "again" {
				if got["resultType"] != protocol.ResultInputRequired || got["requestState"] == state {
					t.Errorf("got %v, want the question again with a new state", got)
				}
				return
			}
			if textOf(t, got) != test.want {
				t.Errorf("got %q, want %q", textOf(t, got), test.want)
			}
		})
	}
}

// flip changes one character in the middle of a state.
func flip(state string) string {
	b := []byte(state)
	if i := len(b) / 2; b[i] == 'A' {
		b[i] = 'B'
	} else {
		b[i] = 'A'
	}
	return string(b)
}

func TestRequestStateExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, builtin.New(nil), protocol.Latest, canAll)
		const tool = "test_input_required_result_request_state"
		state := d.want(protocol.MethodCallTool, round(tool, object{}, nil, nil))["requestState"]
		yes := object{"confirm": accept(object{"ok": true})}
		time.Sleep(9 * time.Minute)
		d.want(protocol.MethodCallTool, round(tool, object{}, yes, state))
		time.Sleep(2 * time.Minute)
		e := d.wantError(protocol.CodeInvalidParams, protocol.MethodCallTool, round(tool, object{}, yes, state))
		if !strings.Contains(e.Message, "expired") {
			t.Errorf("the message is %q", e.Message)
		}
	})
}

func TestStateKeepsEarlierAnswers(t *testing.T) {
	d := open(t, builtin.New(nil), protocol.Latest, canAll)
	t.Run("over two rounds", func(t *testing.T) {
		const tool = "test_input_required_result_multi_round"
		d.in(t)
		one := d.want(protocol.MethodCallTool, round(tool, object{}, nil, nil))
		// An answer to what has not been asked yet does not count.
		early := object{"step1": accept(object{"name": "Ada"}), "step2": accept(object{"color": "red"})}
		two := d.want(protocol.MethodCallTool, round(tool, object{}, early, one["requestState"]))
		if two["inputRequests"].(object)["step2"] == nil || two["requestState"] == one["requestState"] {
			t.Fatalf("the second round is %v", two)
		}
		three := d.want(protocol.MethodCallTool, round(tool, object{}, object{"step2": accept(object{"color": "blue"})}, two["requestState"]))
		if got := textOf(t, three); got != "Ada likes blue." {
			t.Errorf("got %q", got)
		}
	})
	t.Run("when only some are given", func(t *testing.T) {
		const tool = "test_input_required_result_multiple_inputs"
		d.in(t)
		one := d.want(protocol.MethodCallTool, round(tool, object{}, nil, nil))
		if asked := one["inputRequests"].(object); len(asked) != 3 {
			t.Fatalf("asked %v", asked)
		}
		two := d.want(protocol.MethodCallTool, round(tool, object{}, object{"user_name": accept(object{"name": "Ada"})}, one["requestState"]))
		if asked := two["inputRequests"].(object); len(asked) != 2 || asked["user_name"] != nil {
			t.Fatalf("asked %v", asked)
		}
		rest := object{"greeting": answeringClient(protocol.MethodCreateMessage, nil), "client_roots": answeringClient(protocol.MethodListRoots, nil)}
		three := d.want(protocol.MethodCallTool, round(tool, object{}, rest, two["requestState"]))
		if got := textOf(t, three); got != "Hi! Ada (roots: 2)" {
			t.Errorf("got %q", got)
		}
	})
}
