package gateway

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/access/rules"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/gateway/event"
	"github.com/dragoman-mcp/dragoman/internal/wire/subscription"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A witness is a server of the modern era that keeps what it is asked, and answers as it is told.
type witness struct {
	answer func(req *dragoman.Message) any // nil for an empty object

	mu    sync.Mutex
	asked []string
}

func (w *witness) Notify(_ context.Context, note *dragoman.Message) error {
	w.keep(note)
	return nil
}

func (w *witness) Call(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	w.keep(req)
	if w.answer != nil {
		if result := w.answer(req); result != nil {
			return req.Reply(result)
		}
	}
	return req.Reply(object{})
}

func (w *witness) keep(m *dragoman.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, m.String())
}

// take returns what the server was asked since it was taken last.
func (w *witness) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := strings.Join(w.asked, "\n")
	w.asked = nil
	return all
}

// ruledBy puts a filter with a configuration and rules before a server. set changes the rules.
func ruledBy(t *testing.T, w *witness, conf *config.Server, list ...string) (p dragoman.Peer, set func(list ...string)) {
	t.Helper()
	peer, lists := withLists(w)
	v := &views{server: "a", config: func() *config.Server { return conf }, lists: lists, rules: new(atomic.Pointer[rules.Set])}
	set = func(list ...string) {
		parsed, wrong := rules.Parse(list, &rules.ParseOptions{})
		if len(wrong) > 0 {
			t.Fatal(wrong)
		}
		v.rules.Store(parsed)
	}
	set(list...)
	return event.Observe(&filter{Peer: peer, views: v, changes: new(subscription.Hub)}, new(event.Link), nil), set
}

func TestParamsThatDecideHaveTheTypeOfTheSchema(t *testing.T) {
	w := &witness{}
	p, _ := ruledBy(t, w, &config.Server{Prompts: config.Prompts{Exclude: []string{"hush"}}})
	for _, row := range []struct {
		method, params, wrong string
	}{
		{protocol.MethodCallTool, `{"name":["x"]}`, "params.name must be a string"},
		{protocol.MethodCallTool, `{"name":null}`, "params.name must be a string"},
		{protocol.MethodCallTool, `{}`, "params.name must be a string"},
		{protocol.MethodCallTool, `{"name":"x"}`, ""},
		{protocol.MethodGetPrompt, `{"name":{"a":"hush"}}`, "params.name must be a string"},
		{protocol.MethodReadResource, `{"uri":["x:1"]}`, "params.uri must be a string"},
		{protocol.MethodSubscribe, `{"uri":1}`, "params.uri must be a string"},
		{protocol.MethodUnsubscribe, `{"uri":true}`, "params.uri must be a string"},
		{protocol.MethodComplete, `{"ref":["ref/prompt","hush"]}`, "params.ref must be an object"},
		{protocol.MethodComplete, `{"ref":[{"type":"ref/prompt","name":"hush"}]}`, "params.ref must be an object"},
		{protocol.MethodComplete, `{"ref":"hush"}`, "params.ref must be an object"},
		{protocol.MethodComplete, `{}`, "params.ref must be an object"},
		{protocol.MethodComplete, `{"ref":{"name":"hush"}}`, "params.ref.type must be"},
		{protocol.MethodComplete, `{"ref":{"type":["ref/prompt"],"name":"x"}}`, "params.ref.type must be"},
		{protocol.MethodComplete, `{"ref":{"type":"ref/tool","name":"x"}}`, "params.ref.type must be"},
		{protocol.MethodComplete, `{"ref":{"type":"ref/prompt","name":["hush"]}}`, "params.ref.name must be a string"},
		{protocol.MethodComplete, `{"ref":{"type":"ref/prompt","name":"x","Name":["hush"]}}`, "params.ref.name must be a string"},
		{protocol.MethodComplete, `{"ref":{"type":"ref/prompt","uri":"x:1"}}`, "params.ref.name must be a string"},
		{protocol.MethodComplete, `{"ref":{"type":"ref/resource","uri":{}}}`, "params.ref.uri must be a string"},
		{protocol.MethodComplete, `{"ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"n","value":""}}`, ""},
		{protocol.MethodComplete, `{"ref":{"type":"ref/resource","uri":"x:1"}}`, ""},
		{protocol.MethodGetTask, `{"taskId":{}}`, "params.taskId must be a string"},
		{protocol.MethodCancelTask, `{}`, "params.taskId must be a string"},
		{protocol.MethodGetTask, `{"taskId":"1"}`, ""},
		{protocol.MethodListen, `{}`, "params.notifications must be an object"},
		{protocol.MethodListen, `{"notifications":["resourceSubscriptions"]}`, "params.notifications must be an object"},
		{protocol.MethodListen, `{"notifications":{"resourceSubscriptions":"x:1"}}`, "params.notifications.resourceSubscriptions must be an array of strings"},
		{protocol.MethodListen, `{"notifications":{"resourceSubscriptions":{"0":"x:1"}}}`, "params.notifications.resourceSubscriptions must be an array of strings"},
		{protocol.MethodListen, `{"notifications":{"resourceSubscriptions":["x:1",["x:2"]]}}`, "params.notifications.resourceSubscriptions must be an array of strings"},
		{protocol.MethodListen, `{"notifications":{"ResourceSubscriptions":[1]}}`, "params.notifications.resourceSubscriptions must be an array of strings"},
		{protocol.MethodListen, `{"notifications":{"taskIds":[1]}}`, "params.notifications.taskIds must be an array of strings"},
		{protocol.MethodListen, `{"notifications":{"resourceSubscriptions":[],"toolsListChanged":true}}`, ""},
	} {
		send := ask
		if row.method == protocol.MethodSubscribe || row.method == protocol.MethodUnsubscribe { // of the legacy era alone
			send = func(t *testing.T, p dragoman.Peer, method, params string, _ dragoman.Peer) *dragoman.Message {
				return asks(t, p, "", method, params)
			}
		}
		resp, asked := send(t, p, row.method, row.params, nil), w.take()
		switch {
		case row.wrong == "" && (resp.IsError() || asked == ""):
			t.Errorf("%s %s is refused: %s", row.method, row.params, resp)
		case row.wrong != "" && (!resp.IsError() || resp.RPCError().Code != protocol.CodeInvalidParams || !strings.Contains(resp.RPCError().Message, row.wrong)):
			t.Errorf("%s %s: %s, want %q", row.method, row.params, resp, row.wrong)
		case row.wrong != "" && asked != "":
			t.Errorf("the server is asked %s", asked)
		}
	}
}

func TestMethodsThatTheModernEraLacksAreNotFound(t *testing.T) {
	w := &witness{}
	p, _ := ruledBy(t, w, &config.Server{})
	for _, method := range []string{protocol.MethodSubscribe, protocol.MethodUnsubscribe, protocol.MethodTaskResult} {
		resp := ask(t, p, method, `{}`, nil)
		if asked := w.take(); asked != "" || !resp.IsError() || resp.RPCError().Code != protocol.CodeMethodNotFound {
			t.Errorf("%s: %s; the server is asked %q", method, resp, asked)
		}
	}
}

func TestMethodsInAnotherSpellingAreRefused(t *testing.T) {
	for _, list := range [][]string{nil, {"allow anyone"}} { // without rules too: names may be hidden otherwise
		w := &witness{}
		p, _ := ruledBy(t, w, &config.Server{Tools: config.Tools{Exclude: []string{"hush"}}}, list...)
		for _, method := range []string{"Tools/Call", "tools/call ", "tools/call\x00", "TOOLS/LIST", "x-acme/admin\n"} {
			resp := ask(t, p, method, `{"name":"hush"}`, nil)
			if asked := w.take(); asked != "" || !resp.IsError() || resp.RPCError().Code != protocol.CodeMethodNotFound {
				t.Errorf("%q: %s; the server is asked %q", method, resp, asked)
			}
		}
		if resp := ask(t, p, "x-acme/admin", `{}`, nil); resp.IsError() || w.take() == "" {
			t.Errorf("a method of an extension: %s", resp)
		}
	}
}

func TestRulesWithMethodsHoldForListsAndSubscriptions(t *testing.T) {
	w := &witness{answer: func(req *dragoman.Message) any {
		if req.Method() == protocol.MethodListTools {
			return object{"tools": []object{{"name": "a"}, {"name": "hush"}}}
		}
		return nil
	}}
	p, set := ruledBy(t, w, &config.Server{})
	const listen = `{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["x:1","y:1"]}}`
	for _, row := range []struct {
		rules, method, params string
		reaches, hidden       string // what the server is asked, and what not; nothing if both are empty
	}{
		{"allow anyone; deny anyone methods resources/subscribe", protocol.MethodListen, listen, `"resourceSubscriptions":[]`, "x:1"},
		{"allow anyone; deny anyone resources x:* methods resources/subscribe", protocol.MethodListen, listen, `"resourceSubscriptions":["y:1"]`, "x:1"},
		{"allow anyone resources x:* methods resources/read", protocol.MethodListen, listen, `"resourceSubscriptions":[]`, "y:1"},
		{"allow anyone resources x:*", protocol.MethodListen, listen, `"resourceSubscriptions":["x:1"]`, "y:1"},
		{"allow anyone; deny anyone methods subscriptions/listen", protocol.MethodListen, listen, "", ""},
		{"allow anyone; deny anyone methods subscriptions/listen", protocol.MethodSubscribe, `{"uri":"x:1"}`, "", ""},
		{"allow anyone; deny anyone methods tools/list", protocol.MethodListTools, `{}`, "", ""},
		{"allow anyone; deny anyone methods resources/*", protocol.MethodListTemplates, `{}`, "", ""},
		{"allow anyone; deny anyone methods initialize", protocol.MethodDiscover, `{}`, "", ""},
		{"allow anyone; deny anyone methods server/discover", protocol.MethodInitialize, `{}`, "", ""},
		{"allow anyone tools a", "x-acme/admin", `{}`, "", ""},
		{"allow anyone tools a", protocol.MethodUnsubscribe, `{"uri":"x:1"}`, "", ""},
		{"allow anyone tools a methods tools/call, x-acme/admin", "x-acme/admin", `{}`, "x-acme/admin", "?"},
		{"allow anyone; deny anyone methods logging/setLevel", protocol.MethodCallTool, `{"name":"a","_meta":{"` + protocol.MetaLogLevel + `":"debug"}}`, `"name":"a"`, "logLevel"},
		{"allow anyone; deny anyone methods logging/setLevel", protocol.MethodSetLevel, `{"level":"debug"}`, "", ""},
		{"allow anyone tools a", protocol.MethodSetLevel, `{"level":"debug"}`, "debug", "?"},
	} {
		set(strings.Split(row.rules, ";")...)
		req, err := dragoman.Parse(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, row.method, row.params))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := p.Call(t.Context(), req, nil)
		if err != nil {
			t.Fatal(err)
		}
		asked := w.take()
		switch {
		case row.reaches == "" && (asked != "" || !resp.IsError()):
			t.Errorf("%s: %s is answered by %s, the server is asked %q", row.rules, req, resp, asked)
		case !strings.Contains(asked, row.reaches) || row.hidden != "" && strings.Contains(asked, row.hidden):
			t.Errorf("%s: of %s the server is asked %q, want %s and not %s", row.rules, req, asked, row.reaches, row.hidden)
		}
	}
	set("allow anyone", "deny anyone tools hush methods tools/list")
	if names := listed(t, p); fmt.Sprint(names) != "[a]" {
		t.Errorf("listed are %v", names)
	}
}

func TestTasksBelongToTheToolThatWasCalled(t *testing.T) {
	for era, row := range map[string]struct {
		call   string
		result func(tool string) object
	}{
		"modern": {`{"name":%q,"_meta":{"` + protocol.MetaProtocolVersion + `":"` + protocol.Latest.String() + `"}}`, func(tool string) object { return object{"resultType": protocol.ResultTask, "taskId": "of " + tool} }},
		"legacy": {`{"name":%q,"task":{}}`, func(tool string) object { return object{"task": object{"taskId": "of " + tool}} }},
	} {
		t.Run(era, func(t *testing.T) {
			w := &witness{answer: func(req *dragoman.Message) any {
				switch req.Method() {
				case protocol.MethodCallTool:
					return row.result(req.Name())
				case protocol.MethodListTasks:
					return object{"tasks": []object{{"taskId": "of a"}, {"taskId": "of b"}}}
				}
				return nil
			}}
			p, set := ruledBy(t, w, &config.Server{}, "allow anyone tools a, b")
			send := func(method, params string) *dragoman.Message {
				req, err := dragoman.Parse(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params))
				if err != nil {
					t.Fatal(err)
				}
				resp, err := p.Call(t.Context(), req, nil)
				if err != nil {
					t.Fatal(err)
				}
				return resp
			}
			for _, tool := range []string{"a", "b"} {
				if resp := send(protocol.MethodCallTool, fmt.Sprintf(row.call, tool)); resp.IsError() {
					t.Fatal(resp)
				}
			}
			set("allow anyone tools a, b", "deny anyone tools b")
			for id, allowed := range map[string]bool{"of a": true, "of b": false, "of a task that was made before": true} {
				for _, method := range []string{protocol.MethodGetTask, protocol.MethodTaskResult, protocol.MethodUpdateTask, protocol.MethodCancelTask} {
					w.take()
					resp := send(method, fmt.Sprintf(`{"taskId":%q}`, id))
					if asked := w.take(); resp.IsError() == allowed || (asked != "") != allowed {
						t.Errorf("%s %q: %s, the server is asked %q", method, id, resp, asked)
					}
				}
			}
			if resp := send(protocol.MethodListTasks, `{}`); strings.Contains(resp.String(), "of b") || !strings.Contains(resp.String(), "of a") {
				t.Errorf("the tasks are %s", resp)
			}
			w.take()
			send(protocol.MethodListen, `{"notifications":{"taskIds":["of a","of b"]}}`)
			if asked := w.take(); !strings.Contains(asked, `["of a"]`) {
				t.Errorf("of a subscription the server is asked %s", asked)
			}
			set("allow anyone resources *")
			if resp := send(protocol.MethodListTasks, `{}`); !resp.IsError() {
				t.Errorf("who may use no tool gets tasks: %s", resp)
			}
		})
	}
}

func TestToolsOfTheNewestTasksAreKnown(t *testing.T) {
	var known taskTools
	req, err := dragoman.NewRequest(dragoman.IntID(1), protocol.MethodCallTool, object{"name": "x", "task": object{}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxTaskTools + 10 {
		resp, err := req.Reply(object{"task": object{"taskId": fmt.Sprint(i)}})
		if err != nil {
			t.Fatal(err)
		}
		known.learn("x", req, resp)
	}
	if n := len(known.tools); n != maxTaskTools || len(known.order) != n || known.toolOf([]byte(`"9"`)) != "" || known.toolOf([]byte(`"10"`)) != "x" {
		t.Errorf("of %d tasks the tools are known", n)
	}
}
