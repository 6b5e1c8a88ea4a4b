package aggregate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/aggregate"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	skillsCapability = `"resources":{},"extensions":{"io.modelcontextprotocol/skills":{"directoryRead":true}}`
	eventsCapability = `"events":{"listChanged":true},"extensions":{"io.modelcontextprotocol/events":{"listChanged":true},"com.example/x":{}}`
)

// having is a member with these capabilities that answers by results, as in answers. Methods
// of which it says nothing are not found.
func having(name, capabilities string, by map[string]any) *server {
	by[protocol.MethodDiscover] = `{"capabilities":{` + capabilities + `},"ttlMs":60000,"cacheScope":"public"}`
	return &server{name: name, peer: answers(by)}
}

// by answers with the name of the server and what a request names.
func by(name string) func(*dragoman.Message) any {
	return func(req *dragoman.Message) any {
		return object{"resultType": "complete", "by": name, "of": req.Name() + req.URI()}
	}
}

// skillful is a member with a skill of that name, and others that it does not list.
func skillful(name, skill string, unlisted ...string) *server {
	get := func(req *dragoman.Message) any {
		if slices.Contains(append(unlisted, skill), req.URI()) {
			return by(name)(req)
		}
		return &dragoman.Error{Code: protocol.CodeInvalidParams, Message: "No skill is served at " + req.URI()}
	}
	return having(name, skillsCapability, map[string]any{
		protocol.MethodListSkills:    object{"skills": []object{{"uri": skill, "frontmatter": object{"name": name}, "resources": "dynamic"}}, "ttlMs": 5000, "cacheScope": "public"},
		protocol.MethodGetSkill:      get,
		protocol.MethodReadDirectory: get,
	})
}

// eventful is a member with events of these names.
func eventful(name string, events ...string) *server {
	var list []object
	for _, e := range events {
		list = append(list, object{"name": e, "delivery": []string{"webhook"}})
	}
	return having(name, eventsCapability, map[string]any{
		protocol.MethodListEvents:      object{"events": list, "ttlMs": 5000, "cacheScope": "public"},
		protocol.MethodSubscribeEvents: by(name), protocol.MethodUnsubscribeEvents: by(name),
		protocol.MethodPollEvents: by(name), protocol.MethodStreamEvents: by(name),
	})
}

func TestSkillsOfAllMembersAreListedAndFound(t *testing.T) {
	plain := having("plain", `"resources":{}`, map[string]any{protocol.MethodListResources: object{"resources": []object{}, "ttlMs": 1, "cacheScope": "public"}})
	a := of(t, nil, plain, skillful("a", "skill://one/SKILL.md"), skillful("b", "skill://two/SKILL.md", "skill://three/SKILL.md", "skill://two/templates"))
	list := must(t, a, protocol.MethodListSkills, nil)
	if got := fmt.Sprint(texts(list, "skills", "uri")); got != "[skill://one/SKILL.md skill://two/SKILL.md]" || list["ttlMs"] != 5000.0 || list["cacheScope"] != "public" {
		t.Errorf("got %v", list)
	}
	for _, c := range []struct{ method, uri, by string }{
		{protocol.MethodGetSkill, "skill://one/SKILL.md", "a"},
		{protocol.MethodGetSkill, "skill://two/SKILL.md", "b"},
		{protocol.MethodGetSkill, "skill://three/SKILL.md", "b"},
		{protocol.MethodReadDirectory, "skill://two/templates", "b"},
	} {
		if got := must(t, a, c.method, object{"uri": c.uri}); got["by"] != c.by || got["of"] != c.uri {
			t.Errorf("%s of %s: got %v", c.method, c.uri, got)
		}
	}
	for _, method := range []string{protocol.MethodGetSkill, protocol.MethodReadDirectory} {
		if e := refusal(t, a, method, object{"uri": "skill://four/SKILL.md"}); e.Code != protocol.CodeInvalidParams {
			t.Errorf("%s: got %v", method, e)
		}
		if e := refusal(t, a, method, object{}); e.Code != protocol.CodeInvalidParams || !strings.Contains(e.Message, "params.uri") {
			t.Errorf("%s: got %v", method, e)
		}
	}
	for _, method := range []string{protocol.MethodListSkills, protocol.MethodGetSkill, protocol.MethodReadDirectory} {
		if n := plain.saw(method); n != 0 {
			t.Errorf("a server without skills got %s %d times", method, n)
		}
	}
}

func TestEventsAreTheirOwnersAndNoTools(t *testing.T) {
	tools := fake("tools", "message.created")
	prefix := ""
	tools.prefix = &prefix
	a := of(t, nil, tools, eventful("a", "message.created", "both"), eventful("b", "incident.created", "both"))
	names(t, a)
	if got := fmt.Sprint(texts(must(t, a, protocol.MethodListEvents, nil), "events", "name")); got != "[message.created both incident.created]" {
		t.Errorf("got %s", got)
	}
	for _, method := range []string{protocol.MethodSubscribeEvents, protocol.MethodUnsubscribeEvents, protocol.MethodPollEvents, protocol.MethodStreamEvents} {
		for event, owner := range map[string]string{"message.created": "a", "both": "a", "incident.created": "b"} {
			if got := must(t, a, method, object{"name": event, "arguments": object{}}); got["by"] != owner || got["of"] != event {
				t.Errorf("%s of %s: got %v", method, event, got)
			}
		}
		if n := tools.saw(method); n != 0 {
			t.Errorf("the server with a tool of that name got %s", method)
		}
		if e := refusal(t, a, method, object{"name": "message_created"}); e.Code != protocol.CodeInvalidParams || !strings.Contains(e.Message, `"message.created"`) {
			t.Errorf("%s: got %v", method, e)
		}
	}
}

func TestNoToolStandsForWhatAnotherMethodNames(t *testing.T) {
	s := fake("a", "x")
	a := of(t, nil, s)
	names(t, a)
	for _, method := range []string{"x-acme/run", "prompts/explain", "events/x", "skills/x", "resources/x"} {
		if e := refusal(t, a, method, object{"name": "a_x", "uri": "a_x"}); e.Code != protocol.CodeMethodNotFound {
			t.Errorf("%s: got %v", method, e)
		}
		if s.saw(method) != 0 {
			t.Errorf("the owner of a tool got %s", method)
		}
	}
}

func TestCompletionOfAMemberWithoutCompletionsIsEmpty(t *testing.T) {
	s := having("a", `"prompts":{}`, map[string]any{
		protocol.MethodListPrompts:   object{"prompts": []object{{"name": "p"}}},
		protocol.MethodListTemplates: object{"resourceTemplates": []object{{"uriTemplate": "t://{x}", "name": "t"}}},
	})
	a := of(t, nil, s)
	for _, ref := range []object{{"type": "ref/prompt", "name": "a_p"}, {"type": "ref/resource", "uri": "t://{x}"}} {
		result := must(t, a, protocol.MethodComplete, object{"ref": ref, "argument": object{"name": "n", "value": "v"}})
		completion, _ := result["completion"].(object)
		if values, ok := completion["values"].([]any); !ok || len(values) != 0 || result["resultType"] != protocol.ResultComplete {
			t.Errorf("%v: got %v", ref, result)
		}
	}
	if e := refusal(t, a, protocol.MethodComplete, object{"ref": object{"type": "ref/prompt", "name": "a_q"}}); e.Code != protocol.CodeInvalidParams {
		t.Errorf("of a prompt that is not there: %v", e)
	}
}

// methodsOf are the methods that a capability or extension stands for, with params that name
// what the members of the next test have.
var methodsOf = map[string]map[string]object{
	"tools":       {protocol.MethodListTools: nil, protocol.MethodCallTool: {"name": "all_x"}},
	"prompts":     {protocol.MethodListPrompts: nil, protocol.MethodGetPrompt: {"name": "all_p"}},
	"resources":   {protocol.MethodListResources: nil, protocol.MethodListTemplates: nil, protocol.MethodReadResource: {"uri": "r://r"}},
	"completions": {protocol.MethodComplete: {"ref": object{"type": "ref/prompt", "name": "all_p"}}},
	"logging":     nil,
	"events": {
		protocol.MethodListEvents: nil, protocol.MethodSubscribeEvents: {"name": "e"}, protocol.MethodUnsubscribeEvents: {"name": "e"},
		protocol.MethodPollEvents: {"name": "e"}, protocol.MethodStreamEvents: {"name": "e"},
	},
	protocol.ExtensionApps:   nil,
	protocol.ExtensionEvents: {protocol.MethodListEvents: nil, protocol.MethodSubscribeEvents: {"name": "e"}},
	protocol.ExtensionSkills: {protocol.MethodListSkills: nil, protocol.MethodGetSkill: {"uri": "skill://s/SKILL.md"}, protocol.MethodReadDirectory: {"uri": "skill://s"}},
	protocol.ExtensionTasks:  {protocol.MethodGetTask: {"taskId": "all:t"}, protocol.MethodUpdateTask: {"taskId": "all:t"}, protocol.MethodCancelTask: {"taskId": "all:t"}},
}

func TestWhatIsAdvertisedIsServed(t *testing.T) {
	const capabilities = `"tools":{},"prompts":{},"resources":{"subscribe":true},"completions":{},"logging":{},"events":{},"tasks":{"list":{}},"experimental":{"x":{}},"com.example":{},"extensions":{
		"io.modelcontextprotocol/ui":{},"io.modelcontextprotocol/skills":{"directoryRead":true},"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/events":{},
		"io.modelcontextprotocol/oauth-client-credentials":{},"com.example/x":{}}`
	all := map[string]any{
		protocol.MethodListTools: object{"tools": []object{{"name": "x"}}}, protocol.MethodListPrompts: object{"prompts": []object{{"name": "p"}}},
		protocol.MethodListResources: object{"resources": []object{{"uri": "r://r"}}}, protocol.MethodListTemplates: object{"resourceTemplates": []object{}},
		protocol.MethodListEvents: object{"events": []object{{"name": "e"}}}, protocol.MethodListSkills: object{"skills": []object{{"uri": "skill://s/SKILL.md"}}},
	}
	for _, methods := range methodsOf {
		for method := range methods {
			if all[method] == nil {
				all[method] = by("all")
			}
		}
	}
	a := of(t, nil, having("other", `"tools":{}`, map[string]any{}), having("all", capabilities, all))
	advertised := ask(t, a, protocol.MethodDiscover, nil).Get("capabilities")
	check := func(what string) {
		methods, known := methodsOf[what]
		if !known {
			t.Errorf("%s is advertised; what is served of it?", what)
		}
		for method, params := range methods {
			if resp := ask(t, a, method, params); resp.IsError() {
				t.Errorf("%s is advertised: %s: %v", what, method, resp.RPCError())
			}
		}
	}
	n := 0
	for name := range dragoman.Members(advertised) {
		if n++; name != "extensions" {
			check(name)
		}
	}
	for name := range dragoman.Members(dragoman.Member(advertised, "extensions")) {
		n++
		check(name)
	}
	if n != len(methodsOf)+1 {
		t.Errorf("advertised: %s", advertised)
	}
}

func TestSettingsThatAreNotServedAreNotAdvertised(t *testing.T) {
	a := of(t, nil, eventful("a", "x"), skillful("b", "skill://s/SKILL.md"))
	const want = `{"events":{},"extensions":{"io.modelcontextprotocol/events":{},"io.modelcontextprotocol/skills":{"directoryRead":true}},"resources":{"listChanged":true}}`
	if got := string(ask(t, a, protocol.MethodDiscover, nil).Get("capabilities")); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Members may offer one client what they do not offer another of the same caller.
func TestClientsWithOtherExtensionsAreOfferedOtherThings(t *testing.T) {
	s := &server{name: "a", peer: dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		tools := []object{{"name": "plain"}}
		if dragoman.Member(req.Meta(protocol.MetaClientCapabilities), "extensions") != nil {
			tools = append(tools, object{"name": "app"})
		}
		return req.Reply(object{"tools": tools, "content": []any{}})
	}}}
	a := of(t, &aggregate.Options{}, s)
	apps := object{"extensions": json.RawMessage(`{"io.modelcontextprotocol/ui":{}}`)}
	send := func(caps object, method string, params object) *dragoman.Message {
		t.Helper()
		resp, err := a.Call(t.Context(), request(t, method, caps, params), nil)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	for range 2 {
		if n := len(texts(decoded(t, send(apps, protocol.MethodListTools, nil)), "tools", "name")); n != 2 {
			t.Errorf("%d tools with the extension", n)
		}
		if n := len(texts(decoded(t, send(object{}, protocol.MethodListTools, nil)), "tools", "name")); n != 1 {
			t.Errorf("%d tools without it", n)
		}
		if resp := send(apps, protocol.MethodCallTool, call("a_app", nil)); resp.IsError() {
			t.Errorf("a tool for clients with the extension: %v", resp.RPCError())
		}
		if resp := send(object{}, protocol.MethodCallTool, call("a_app", nil)); !resp.IsError() {
			t.Error("a tool that was not offered was called")
		}
	}
}
