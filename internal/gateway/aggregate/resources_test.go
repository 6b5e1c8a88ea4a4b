package aggregate_test

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/aggregate"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// library is a member with resources. What it reads says whose it is.
func library(name string, uris, templates, hidden []string) *server {
	elements := func(key string, keys []string) (all []object) {
		for _, k := range keys {
			all = append(all, object{key: k, "name": k})
		}
		return all
	}
	return &server{name: name, peer: answers(map[string]any{
		protocol.MethodListResources: object{"resources": elements("uri", uris), "ttlMs": 5, "cacheScope": "public"},
		protocol.MethodListTemplates: object{"resourceTemplates": elements("uriTemplate", templates)},
		protocol.MethodComplete:      object{"completion": object{"values": []string{name}}},
		protocol.MethodReadResource: func(req *dragoman.Message) any {
			for _, uri := range append(append([]string(nil), uris...), hidden...) {
				if uri == req.URI() {
					return object{"contents": []object{{"uri": uri, "text": name}}}
				}
			}
			return &dragoman.Error{Code: protocol.CodeInvalidParams, Message: "Resource not found", Data: []byte(`{"uri":"` + req.URI() + `"}`)}
		},
	})}
}

func whose(t *testing.T, p dragoman.Peer, uri string) string {
	t.Helper()
	contents := texts(must(t, p, protocol.MethodReadResource, object{"uri": uri}), "contents", "text")
	return strings.Join(contents, " ")
}

func TestResourcesAreReadWhereTheyAre(t *testing.T) {
	a := of(t, nil,
		library("a", []string{"x://1", "x://same", "z://0"}, []string{"y://{id}"}, []string{"y://a", "z://1/2/q"}),
		library("b", []string{"x://2", "x://same"}, []string{"y://{id}", "z://{p}/q"}, []string{"y://b", "x://hidden", "z://1/2/q"}),
		library("c", nil, nil, []string{"other://c"}))
	for uri, want := range map[string]string{
		"x://1": "a", "x://2": "b", "x://same": "a",
		"y://a": "a", "y://b": "b", // both may have it by their templates
		"z://1/2/q":  "b", // more than its template says, but it has one
		"x://hidden": "b", // in no list, but of a scheme that a and b have
	} {
		for range 2 {
			if got := whose(t, a, uri); got != want {
				t.Errorf("%s is read from %q, want %q", uri, got, want)
			}
		}
	}
	got := must(t, a, protocol.MethodListResources, nil)
	if uris := texts(got, "resources", "uri"); strings.Join(uris, " ") != "x://1 x://same z://0 x://2" {
		t.Errorf("got %q", uris)
	}
	// Nobody is asked for what nobody may have.
	if e := refusal(t, a, protocol.MethodReadResource, object{"uri": "other://c"}); e.Code != protocol.CodeInvalidParams || string(e.Data) != `{"uri":"other://c"}` {
		t.Errorf("got %v %s", e, e.Data)
	}
	if e := refusal(t, a, protocol.MethodReadResource, object{"uri": "y://none"}); e.Code != protocol.CodeInvalidParams || !strings.Contains(string(e.Data), "y://none") {
		t.Errorf("got %v", e)
	}
	if e := refusal(t, a, protocol.MethodReadResource, nil); e.Code != protocol.CodeInvalidParams {
		t.Errorf("got %v", e)
	}
}

func TestWhoKnewAResourceIsAskedFirstTheNextTime(t *testing.T) {
	first := library("a", nil, []string{"y://{id}"}, nil)
	a := of(t, nil, first, library("b", nil, []string{"y://{id}"}, []string{"y://b"}))
	whose(t, a, "y://b")
	n := first.saw(protocol.MethodReadResource)
	if got := whose(t, a, "y://b"); got != "b" || first.saw(protocol.MethodReadResource) != n {
		t.Errorf("got %q; the other one was asked again", got)
	}
}

// A server that could not be asked has not said that it has no such resource.
func TestWhoKnewAResourceIsNotRememberedWhileAServerBeforeItIsAway(t *testing.T) {
	first := library("a", nil, []string{"y://{id}"}, []string{"y://1"})
	there := first.peer
	a := of(t, nil, first, library("b", nil, []string{"y://{id}"}, []string{"y://1"}))
	must(t, a, protocol.MethodListTemplates, nil)
	must(t, a, protocol.MethodListResources, nil)
	first.becomes(away)
	if got := whose(t, a, "y://1"); got != "b" {
		t.Errorf("while it is away: got %q", got)
	}
	first.becomes(there)
	if got := whose(t, a, "y://1"); got != "a" {
		t.Errorf("when it is back: got %q", got)
	}
}

// A round of input goes to who asked for it, even if nothing is remembered.
func TestTheNextRoundOfAReadGoesToWhoAsked(t *testing.T) {
	strict := &server{name: "a", peer: answers(map[string]any{
		protocol.MethodListResources: `{"resources":[]}`,
		protocol.MethodListTemplates: `{"resourceTemplates":[{"uriTemplate":"y://{id}","name":"y"}]}`,
		protocol.MethodReadResource: func(req *dragoman.Message) any {
			if req.Get("requestState") != nil {
				return &dragoman.Error{Code: protocol.CodeInvalidParams, Message: "this requestState is none of mine"}
			}
			return &dragoman.Error{Code: protocol.CodeInvalidParams, Message: "not found"}
		},
	})}
	a := of(t, nil, strict, library("b", nil, []string{"y://{id}"}, []string{"y://b"}))
	got := must(t, a, protocol.MethodReadResource, object{"uri": "y://b", "requestState": "S"})
	if texts(got, "contents", "text")[0] != "b" {
		t.Errorf("got %v", got)
	}
}

func TestAResourceOfAServerThatIsAwayIsNotCalledUnknown(t *testing.T) {
	down := &dragoman.Error{Code: protocol.CodeUnavailable, Message: "down"}
	a := of(t, nil, library("a", []string{"x://1"}, nil, nil), &server{name: "b", peer: answers(map[string]any{
		protocol.MethodListResources: down, protocol.MethodListTemplates: down, protocol.MethodReadResource: down,
	})})
	if e := refusal(t, a, protocol.MethodReadResource, object{"uri": "x://2"}); e.Code != protocol.CodeUnavailable || !strings.Contains(e.Message, "no answer from b") {
		t.Errorf("got %v", e)
	}
	if whose(t, a, "x://1") != "a" {
		t.Error("not read")
	}
}

func TestRealResourcesPromptsAndCompletions(t *testing.T) {
	both(t, builtin.Options{Numbered: 3}, func(t *testing.T, c *client, _ *aggregate.Aggregate, member string) {
		for _, uri := range []string{"test://static-text", "test://numbered/2", "test://template/9/data", "test://greeting/Ada"} {
			if got := c.rounds(protocol.MethodReadResource, object{"uri": uri}); got["contents"] == nil {
				t.Errorf("%s: %v", uri, got)
			}
		}
		resp, err := c.call(t.Context(), protocol.MethodReadResource, object{"uri": "test://nothing"})
		want := protocol.CodeInvalidParams
		if c.era == protocol.Legacy {
			want = protocol.CodeResourceNotFound
		}
		if err != nil || !resp.IsError() || resp.RPCError().Code != want {
			t.Errorf("got %v, %v", resp, err)
		}
		prompt := c.rounds(protocol.MethodGetPrompt, object{"name": member + "_test_prompt_with_arguments", "arguments": object{"arg1": "1", "arg2": "2"}})
		if prompt["messages"] == nil {
			t.Errorf("got %v", prompt)
		}
		for _, ref := range []object{
			{"type": "ref/prompt", "name": member + "_test_prompt_with_arguments"},
			{"type": "ref/resource", "uri": "test://template/{id}/data"},
		} {
			arg := "arg1"
			if ref["uri"] != nil {
				arg = "id"
			}
			got := c.rounds(protocol.MethodComplete, object{"ref": ref, "argument": object{"name": arg, "value": ""}})
			if values := got["completion"].(object)["values"].([]any); len(values) == 0 {
				t.Errorf("%v: got %v", ref, got)
			}
		}
		for _, ref := range []object{{"type": "ref/prompt", "name": "none"}, {"type": "ref/resource", "uri": "none://{x}"}, {"type": "x"}, nil} {
			resp, err := c.call(t.Context(), protocol.MethodComplete, object{"ref": ref, "argument": object{"name": "a", "value": ""}})
			if err != nil || !resp.IsError() || resp.RPCError().Code != protocol.CodeInvalidParams {
				t.Errorf("%v: got %v, %v", ref, resp, err)
			}
		}
	})
}
