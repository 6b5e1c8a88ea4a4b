package down_test

import (
	"encoding/json"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// everyRevision runs a test against the server of everything in each legacy
// revision, over both kinds of conversations.
func everyRevision(t *testing.T, opts builtin.Options, f func(t *testing.T, rev protocol.Revision, r *rig)) {
	for _, rev := range legacyRevisions() {
		t.Run(rev.String(), func(t *testing.T) {
			both(t, func(t *testing.T, wrap func(dragoman.Conn, dragoman.Peer) dragoman.Conn) {
				f(t, rev, newRig(t, legacy(rev, opts), wrap, nil))
			})
		})
	}
}

func TestQuestionsBecomeRounds(t *testing.T) {
	tests := []struct {
		tool   string
		args   object
		want   string
		rounds int
		most   int // if not rounds: three questions at once are as many rounds where they come late
		elicit bool
		url    bool
	}{
		{"echo", object{"text": "hello"}, "hello", 0, 0, false, false},
		{"test_sampling", object{"prompt": "Hello?"}, "LLM response: Hi!", 1, 0, false, false},
		{"test_elicitation", object{"message": "Who?"}, `User response: action=accept, content={"email":"Ada","username":"Ada"}`, 1, 0, true, false},
		{"test_elicitation_url", nil, "The user was sent to the page: action=accept", 1, 0, true, true},
		{"test_streaming_elicitation", nil, `Elicitation completed: action=accept, content={"ok":true}`, 1, 0, true, false},
		{"test_missing_capability", nil, "The client can be asked for sampling.", 0, 0, false, false},
		{"test_input_required_result_list_roots", nil, "The client's roots: file:///a, file:///b", 1, 0, false, false},
		{"test_input_required_result_multiple_inputs", nil, "Hi! Ada (roots: 2)", 1, 3, true, false},
		{"test_input_required_result_multi_round", nil, "Ada likes Ada.", 2, 0, true, false},
	}
	everyRevision(t, builtin.Options{}, func(t *testing.T, rev protocol.Revision, r *rig) {
		for _, test := range tests {
			r.t = t
			resp, rounds := r.rounds(t.Context(), protocol.MethodCallTool, canAll, callParams(test.tool, test.args), obliging)
			got := complete(t, resp)
			if test.elicit && !rev.HasElicitation() || test.url && !rev.HasURLElicitation() {
				if got["isError"] != true {
					t.Errorf("%s: got %v, want the server's word that it cannot ask", test.tool, got)
				}
				continue
			}
			if said(t, got) != test.want || rounds < test.rounds || rounds > max(test.rounds, test.most) {
				t.Errorf("%s: got %q after %d rounds, want %q after %d", test.tool, said(t, got), rounds, test.want, test.rounds)
			}
		}
		if n := r.dial.opened(); n != 1 {
			t.Errorf("one client's requests, one after the other, opened %d sessions", n)
		}
	})
}

func TestPromptsAndResourcesAskToo(t *testing.T) {
	everyRevision(t, builtin.Options{}, func(t *testing.T, rev protocol.Revision, r *rig) {
		if !rev.HasElicitation() {
			return
		}
		resp, n := r.rounds(t.Context(), protocol.MethodReadResource, canAll, object{"uri": "test://asking-resource"}, obliging)
		got := complete(t, resp)
		if n != 1 || got["ttlMs"] != 0.0 || got["cacheScope"] != "private" {
			t.Errorf("after %d rounds: %v", n, got)
		}
		resp, n = r.rounds(t.Context(), protocol.MethodGetPrompt, canAll, object{"name": "test_input_required_result_prompt"}, obliging)
		if complete(t, resp); n != 1 {
			t.Errorf("%d rounds, want 1", n)
		}
	})
}

func TestDiscoverSaysWhatInitializeSaid(t *testing.T) {
	everyRevision(t, builtin.Options{}, func(t *testing.T, rev protocol.Revision, r *rig) {
		got := complete(t, r.send(t.Context(), r.request(protocol.MethodDiscover, nil, nil), nil))
		versions, _ := json.Marshal(got["supportedVersions"])
		if string(versions) != `["2026-07-28"]` || got["ttlMs"] != 0.0 || got["cacheScope"] != "private" || got["instructions"] == "" {
			t.Errorf("got %v", got)
		}
		caps := got["capabilities"].(object)
		if caps["tools"] == nil || caps["resources"].(object)["subscribe"] != true || caps["tasks"] != nil {
			t.Errorf("capabilities %v", caps)
		}
		if info := got["_meta"].(object)[protocol.MetaServerInfo].(object); info["name"] != "dragoman-everything" {
			t.Errorf("serverInfo %v", info)
		}
	})
}

func TestEveryResultHasItsTags(t *testing.T) {
	everyRevision(t, builtin.Options{}, func(t *testing.T, _ protocol.Revision, r *rig) {
		for _, test := range []struct {
			method string
			params object
			cached bool
		}{
			{protocol.MethodListTools, nil, true},
			{protocol.MethodListPrompts, nil, true},
			{protocol.MethodListResources, nil, true},
			{protocol.MethodListTemplates, nil, true},
			{protocol.MethodReadResource, object{"uri": "test://static-text"}, true},
			{protocol.MethodGetPrompt, object{"name": "test_simple_prompt"}, false},
			{protocol.MethodComplete, object{
				"ref":      object{"type": "ref/prompt", "name": "test_prompt_with_arguments"},
				"argument": object{"name": "arg1", "value": "p"},
			}, false},
			{protocol.MethodCallTool, callParams("echo", object{"text": "x"}), false},
		} {
			got := complete(t, r.send(t.Context(), r.request(test.method, nil, test.params), nil))
			if (got["ttlMs"] == 0.0 && got["cacheScope"] == "private") != test.cached {
				t.Errorf("%s: %v", test.method, got)
			}
			if got["_meta"].(object)[protocol.MetaServerInfo] == nil {
				t.Errorf("%s: no serverInfo", test.method)
			}
		}
	})
}
