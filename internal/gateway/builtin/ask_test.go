package builtin_test

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// answeringClient answers every question the way a friendly user would.
func answeringClient(method string, params object) any {
	switch method {
	case protocol.MethodCreateMessage:
		return object{"role": "assistant", "content": object{"type": "text", "text": "Hi!"}, "model": "m"}
	case protocol.MethodListRoots:
		return object{"roots": []any{object{"uri": "file:///a"}, object{"uri": "file:///b"}}}
	}
	if params["mode"] == "url" {
		return object{"action": "accept"}
	}
	content := object{}
	for name, field := range params["requestedSchema"].(object)["properties"].(object) {
		f := field.(object)
		switch f["type"] {
		case "string":
			content[name] = "Ada"
			if choices, ok := f["enum"].([]any); ok {
				content[name] = choices[0]
			}
			if choices, ok := f["oneOf"].([]any); ok {
				content[name] = choices[0].(object)["const"]
			}
		case "boolean":
			content[name] = true
		case "array":
			content[name] = []string{}
		default:
			content[name] = 7
		}
	}
	return object{"action": "accept", "content": content}
}

func TestQuestions(t *testing.T) {
	tests := []struct {
		tool   string
		args   object
		want   string
		rounds int // of the modern era
		elicit bool
		url    bool
	}{
		{"test_sampling", object{"prompt": "Hello?"}, "LLM response: Hi!", 1, false, false},
		{"test_elicitation", object{"message": "Who?"}, `User response: action=accept, content={"email":"Ada","username":"Ada"}`, 1, true, false},
		{"test_elicitation_sep1034_defaults", nil,
			`Elicitation completed: action=accept, content={"age":7,"name":"Ada","score":7,"status":"active","verified":true}`, 1, true, false},
		{"test_elicitation_url", nil, "The user was sent to the page: action=accept", 1, true, true},
		{"test_streaming_elicitation", nil, `Elicitation completed: action=accept, content={"ok":true}`, 1, true, false},
		{"test_missing_capability", nil, "The client can be asked for sampling.", 0, false, false},
		{"test_input_required_result_elicitation", nil, "Hello, Ada!", 1, true, false},
		{"test_input_required_result_sampling", nil, "The model says: Hi!", 1, false, false},
		{"test_input_required_result_list_roots", nil, "The client's roots: file:///a, file:///b", 1, false, false},
		{"test_input_required_result_request_state", nil, `state-ok: action=accept, content={"ok":true}`, 1, true, false},
		{"test_input_required_result_multiple_inputs", nil, "Hi! Ada (roots: 2)", 1, true, false},
		{"test_input_required_result_multi_round", nil, "Ada likes Ada.", 2, true, false},
	}
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		d := open(t, builtin.New(nil), rev, canAll)
		d.answer = answeringClient
		for _, test := range tests {
			t.Run(test.tool, func(t *testing.T) {
				d.in(t).rounds = 0
				got := d.tool(test.tool, test.args)
				if test.elicit && !rev.HasElicitation() || test.url && !rev.HasURLElicitation() {
					if got["isError"] != true || !strings.Contains(textOf(t, got), "newer") {
						t.Errorf("got %v, want a word about the revision", got)
					}
					return
				}
				if textOf(t, got) != test.want {
					t.Errorf("got %q, want %q", textOf(t, got), test.want)
				}
				if rev.HasInputRounds() && d.rounds != test.rounds {
					t.Errorf("it took %d rounds, want %d", d.rounds, test.rounds)
				}
			})
		}
	})
}

func TestQuestionsOfPromptsAndResources(t *testing.T) {
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		d := open(t, builtin.New(nil), rev, canAll)
		d.answer = answeringClient
		prompt, resource := object{"name": "test_input_required_result_prompt"}, object{"uri": "test://asking-resource"}
		if !rev.HasElicitation() {
			d.wantError(protocol.CodeInvalidRequest, protocol.MethodGetPrompt, prompt)
			return
		}
		got := d.want(protocol.MethodGetPrompt, prompt)
		wantJSON(t, "messages", got["messages"], `[{"role":"user","content":{"type":"text","text":"Context: Ada"}}]`)
		got = d.want(protocol.MethodReadResource, resource)
		wantJSON(t, "contents", got["contents"], `[{"uri":"test://asking-resource","mimeType":"text/plain","text":"Hello, Ada!"}]`)
		if rev.HasInputRounds() && (got["cacheScope"] != "private" || got["ttlMs"] != 0.0) {
			t.Errorf("an answer of a user may be cached: %v", got)
		}
		open(t, builtin.New(nil), rev, nil).wantError(protocol.CodeMissingCapability, protocol.MethodGetPrompt, prompt)
	})
}

func TestDeclinedQuestions(t *testing.T) {
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		if !rev.HasElicitation() {
			t.Skip("no elicitation")
		}
		d := open(t, builtin.New(nil), rev, canAll)
		for _, action := range []string{"decline", "cancel"} {
			d.answer = func(string, object) any { return object{"action": action} }
			if got, want := d.toolText("test_elicitation", object{"message": "x"}), "User response: action="+action; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	})
}

func TestCapabilitiesAreRespected(t *testing.T) {
	tests := []struct {
		name, tool string
		caps       object
		need       string // as the modern era names it; "" if it works
	}{
		{"no sampling", "test_input_required_result_sampling", object{"elicitation": object{}}, `{"sampling":{}}`},
		{"sampling", "test_input_required_result_sampling", object{"sampling": object{}}, ""},
		{"no roots", "test_input_required_result_list_roots", object{}, `{"roots":{}}`},
		{"no elicitation", "test_input_required_result_elicitation", object{"sampling": object{}}, `{"elicitation":{}}`},
		{"elicitation as such is by form", "test_input_required_result_elicitation", object{"elicitation": object{}}, ""},
		{"elicitation by URL is not by form", "test_input_required_result_elicitation", object{"elicitation": object{"url": object{}}}, `{"elicitation":{}}`},
		{"elicitation by form is not by URL", "test_elicitation_url", object{"elicitation": object{"form": object{}}}, `{"elicitation":{"url":{}}}`},
		{"one of three is missing", "test_input_required_result_multiple_inputs", object{"sampling": object{}, "elicitation": object{}}, `{"roots":{}}`},
		{"no question, but a need", "test_missing_capability", object{}, `{"sampling":{}}`},
	}
	for _, rev := range []protocol.Revision{protocol.LatestLegacy, protocol.Latest} {
		for _, test := range tests {
			t.Run(rev.String()+" "+test.name, func(t *testing.T) {
				d := open(t, builtin.New(nil), rev, test.caps)
				d.answer = answeringClient
				if test.need != "" {
					e := d.wantError(protocol.CodeMissingCapability, protocol.MethodCallTool, object{"name": test.tool})
					wantJSON(t, "data", e.Data, `{"requiredCapabilities":`+test.need+`}`)
				} else if got := d.tool(test.tool, nil); got["isError"] == true {
					t.Errorf("got %v", got)
				}
			})
		}
	}
}

func TestOnlyPossibleQuestionsAreAsked(t *testing.T) {
	for _, rev := range []protocol.Revision{protocol.LatestLegacy, protocol.Latest} {
		t.Run(rev.String(), func(t *testing.T) {
			d := open(t, builtin.New(nil), rev, object{"sampling": object{}})
			var asked []string
			d.answer = func(method string, params object) any {
				asked = append(asked, method)
				return answeringClient(method, params)
			}
			if got := d.toolText("test_input_required_result_capabilities", nil); got != "The client was asked 1 questions." {
				t.Errorf("got %q", got)
			}
			if len(asked) != 1 || asked[0] != protocol.MethodCreateMessage {
				t.Errorf("asked %q", asked)
			}
		})
	}
}

func TestUnusableAnswersOfALegacyClient(t *testing.T) {
	const user, model, files = "test_elicitation", "test_sampling", "test_input_required_result_list_roots"
	tests := []struct {
		name, tool string
		answer     any
		want       string
	}{
		{"an error", user, &dragoman.Error{Code: -1, Message: "User rejected the request"}, "error -1: User rejected the request"},
		{"no object", user, "yes", "it must be an object"},
		{"no action", user, object{}, "action must be accept, decline or cancel"},
		{"a mistyped action", user, object{"action": 1}, "action must be accept, decline or cancel"},
		{"a missing field", user, accept(object{"username": "a"}), "content.email is missing"},
		{"a mistyped field", user, accept(object{"username": "a", "email": 1}), "content.email is of type integer"},
		{"not one of the choices", "test_elicitation_sep1034_defaults", accept(object{"status": "lost"}), `"lost" is none of the choices`},
		{"not among several choices", "test_elicitation_sep1330_enums", accept(object{"titledMulti": []string{"value1", "value9"}}), `"value9" is none of the choices`},
		{"a message without a role", model, object{"content": object{"type": "text", "text": "x"}}, "it must have role, content and model"},
		{"a message without content", model, object{"role": "assistant", "model": "m"}, "it must have role, content and model"},
		{"no roots", files, object{}, "it must have an array of roots"},
		{"a root without a uri", files, object{"roots": []any{object{"name": "a"}}}, "it must have an array of roots"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := open(t, builtin.New(nil), protocol.LatestLegacy, canAll)
			d.answer = func(string, object) any { return test.answer }
			got := d.tool(test.tool, object{"message": "x", "prompt": "x"})
			if got["isError"] != true || !strings.Contains(textOf(t, got), test.want) {
				t.Errorf("got %v, want an error that says %q", got, test.want)
			}
		})
	}
}

func TestMessagesOfSeveralParts(t *testing.T) {
	for _, rev := range []protocol.Revision{protocol.LatestLegacy, protocol.Latest} {
		d := open(t, builtin.New(nil), rev, canAll)
		d.answer = func(string, object) any {
			return object{"role": "assistant", "model": "m", "content": []any{
				object{"type": "text", "text": "See:"}, object{"type": "image", "data": "", "mimeType": "image/png"},
			}}
		}
		if got := d.toolText("test_sampling", object{"prompt": "x"}); got != "LLM response: See:\n(image)" {
			t.Errorf("got %q", got)
		}
	}
}

func TestFormsAreAdaptedToTheRevision(t *testing.T) {
	const plain, titled = `["option1","option2","option3"]`, `[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]`
	const values, titles = `["value1","value2","value3"]`, `["First Option","Second Option","Third Option"]`
	old := `{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["Option One","Option Two","Option Three"]}`
	rich := `{"type":"object","properties":{
		"untitledSingle":{"type":"string","enum":` + plain + `},"titledSingle":{"type":"string","oneOf":` + titled + `},"legacyEnum":` + old + `,
		"untitledMulti":{"type":"array","items":{"type":"string","enum":` + plain + `}},"titledMulti":{"type":"array","items":{"anyOf":` + titled + `}}}}`
	poor := `{"type":"object","properties":{
		"untitledSingle":{"type":"string","enum":` + plain + `},"titledSingle":{"type":"string","enum":` + values + `,"enumNames":` + titles + `},"legacyEnum":` + old + `,
		"untitledMulti":{"type":"string","enum":` + plain + `},"titledMulti":{"type":"string","enum":` + values + `,"enumNames":` + titles + `}}}`
	for rev, want := range map[protocol.Revision]string{protocol.V20250618: poor, protocol.V20251125: rich, protocol.V20260728: rich} {
		t.Run(rev.String(), func(t *testing.T) {
			d := open(t, builtin.New(nil), rev, canAll)
			d.answer = func(method string, params object) any {
				wantJSON(t, "form", params["requestedSchema"], want)
				return answeringClient(method, params)
			}
			if got := d.tool("test_elicitation_sep1330_enums", nil); got["isError"] == true {
				t.Errorf("got %v", got)
			}
			d.answer = func(method string, params object) any {
				fields := params["requestedSchema"].(object)["properties"].(object)
				if _, ok := fields["age"].(object)["default"]; ok != rev.HasRichForms() {
					t.Errorf("the fields are %v", fields)
				}
				if fields["verified"].(object)["default"] != true {
					t.Errorf("the fields are %v", fields)
				}
				return answeringClient(method, params)
			}
			d.tool("test_elicitation_sep1034_defaults", nil)
		})
	}
}
