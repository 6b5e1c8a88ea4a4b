package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/protocol"
)

// addedTool is listed only after test_trigger_tool_change.
const addedTool = "test_added_tool"

// watched is the resource that update_resource changes.
const watched = "test://watched-resource"

// expected is what a tool does.
type expected struct {
	args     object
	kinds    string // types of its content; "text" if left out
	text     string // its first text contains this
	isError  bool
	raises   string // the message of its JSON-RPC error
	waits    bool   // until it is cancelled
	lost     bool   // the stream ends before its result
	progress int    // notifications
	logs     int    // notifications; negative if any number may come
}

// expectations has a row for every tool of the built-in server.
func expectations(rev protocol.Revision) map[string]expected {
	all := map[string]expected{
		"echo":                        {args: object{"text": "hello, wörld \n"}, text: "hello, wörld \n"},
		"add":                         {args: object{"a": 2, "b": 40.5}, text: `{"sum":42.5}`},
		"levels":                      {text: `"emergency"`},
		"reflect":                     {args: object{"n": 1, "text": "hello"}, text: `{"n":1,"text":"hello"}`},
		"large":                       {args: object{"bytes": large}, text: strings.Repeat("x", large)},
		"raise":                       {args: object{"code": 1234, "message": "as asked", "reason": "because"}, raises: "as asked"},
		"test_error_handling":         {isError: true, text: "intentionally"},
		"json_schema_2020_12_tool":    {args: object{"name": "n", "email": "e"}, text: `"email":"e"`},
		"test_x_mcp_header":           {args: object{"region": "west"}, text: "region=west"},
		"test_simple_text":            {text: "simple text"},
		"test_image_content":          {kinds: "image"},
		"test_audio_content":          {kinds: "audio"},
		"test_embedded_resource":      {kinds: "resource"},
		"test_multiple_content_types": {kinds: "text image resource"},
		"links":                       {kinds: "resource_link resource_link resource_link resource_link"},
		"annotated":                   {kinds: "text text", text: "For the user."},
		"session":                     {text: "revision=" + rev.String()},
		"slow":                        {args: object{"ms": 20, "steps": 2}, text: "20 ms in 2 steps", progress: 2},
		"wait":                        {waits: true},
		"test_tool_with_progress":     {text: "three times", progress: 3},
		"test_tool_with_logging":      {text: "Three messages", logs: 3},
		"test_logging_tool":           {text: "each level", logs: len(protocol.LogLevels)},
		"test_reconnection":           {text: "If this arrived"},

		"test_sampling":                            {args: object{"prompt": "What is the capital?"}, text: modelSays},
		"test_missing_capability":                  {text: "can be asked for sampling"},
		"test_input_required_result_sampling":      {text: modelSays},
		"test_input_required_result_list_roots":    {text: rootURI},
		"test_input_required_result_capabilities":  {text: "asked 3 questions"},
		"test_trigger_tool_change":                 {text: "tools has changed"},
		"test_trigger_prompt_change":               {text: "prompts has changed"},
		"test_trigger_resource_change":             {text: "resources has changed"},
		"update_resource":                          {text: watched},
		addedTool:                                  {text: "while the server ran"},
		"test_elicitation":                         {args: object{"message": "Who are you?"}, text: `"username":"some text"`},
		"test_elicitation_sep1034_defaults":        {text: "action=accept"},
		"test_elicitation_sep1330_enums":           {text: `"titledSingle":"value1"`},
		"test_elicitation_url":                     {text: "action=accept"},
		"test_streaming_elicitation":               {text: "action=accept", progress: 3},
		"test_input_required_result_elicitation":   {text: "Hello, some text!"},
		"test_input_required_result_request_state": {text: "state-ok: action=accept"},

		"test_input_required_result_tampered_state":  {text: "state-ok: action=accept"},
		"test_input_required_result_multiple_inputs": {text: modelSays + " some text (roots: 1)"},
		"test_input_required_result_multi_round":     {text: "some text likes some text."},
	}
	adapt(rev, all)
	return all
}

// adapt changes the rows of what a revision lacks.
func adapt(rev protocol.Revision, all map[string]expected) {
	change := func(name string, f func(*expected)) {
		e := all[name]
		f(&e)
		all[name] = e
	}
	if !rev.HasAudio() {
		change("test_audio_content", func(e *expected) { e.kinds = "resource" })
	}
	if !rev.HasResourceLinks() {
		change("links", func(e *expected) { e.kinds, e.text = "text text text text", "test://" })
	}
	if rev.HasInputRounds() {
		// What a tool does before its question, it does again in the second round.
		change("test_streaming_elicitation", func(e *expected) { e.progress = 5 })
	}
	if !rev.HasElicitation() {
		change("test_streaming_elicitation", func(e *expected) { e.progress = 2 })
		change("test_input_required_result_capabilities", func(e *expected) { e.text = "asked 2 questions" })
	}
	for name, e := range all {
		asksUser := strings.Contains(e.text, "action=accept") || strings.Contains(e.text, "some text") || name == "test_elicitation_sep1330_enums"
		if asksUser && !rev.HasElicitation() || name == "test_elicitation_url" && !rev.HasURLElicitation() {
			all[name] = expected{args: e.args, isError: true, text: "cannot ask the user", progress: all[name].progress}
		}
	}
}

// callEveryTool calls every tool of the built-in server.
func callEveryTool(t *testing.T, s *session) {
	t.Helper()
	names, err := s.tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := expectations(s.rev)
	for _, name := range names {
		if _, ok := want[name]; !ok {
			t.Errorf("the tool %s is new: say what is expected of it", name)
			continue
		}
		callTool(t, s, name, want[name])
	}
	for name := range want {
		if !slices.Contains(names, name) && name != addedTool {
			t.Errorf("the tool %s is not listed", name)
		}
	}
	// Only known after the change that one of the tools has made.
	s.notes.wait(t, 1, protocol.NoteToolsChanged, "")
	if names, err = s.tools(t.Context()); err != nil || !slices.Contains(names, addedTool) {
		t.Fatalf("tools after the change: %v, %v", names, err)
	}
	callTool(t, s, addedTool, want[addedTool])
	s.notes.wait(t, 1, protocol.NotePromptsChanged, "")
	s.notes.wait(t, 1, protocol.NoteResourcesChanged, "")
}

// callTool calls one tool and checks what comes of it.
func callTool(t *testing.T, s *session, name string, want expected) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if want.waits {
		callWaiting(t, s, name)
		return
	}
	logsBefore, _ := s.notes.count(protocol.NoteMessage, "")
	result, err := s.call(ctx, name, want.args, name)
	switch {
	case want.raises != "" && err != nil && strings.Contains(err.Error(), want.raises):
		return
	case err != nil:
		t.Errorf("%s: %v", name, err)
		return
	case want.raises != "":
		t.Errorf("%s: no error, want %q", name, want.raises)
		return
	}
	checkResult(t, name, result, want)
	// A client may hand out notifications after the result that followed them.
	s.notes.wait(t, want.progress, protocol.NoteProgress, `"`+name+`"`)
	s.notes.only(t, want.progress, protocol.NoteProgress, `"`+name+`"`)
	if want.logs >= 0 {
		s.notes.wait(t, logsBefore+want.logs, protocol.NoteMessage, "")
		s.notes.only(t, logsBefore+want.logs, protocol.NoteMessage, "")
	}
}

// callWaiting cancels a tool that would continue forever, and continues.
func callWaiting(t *testing.T, c sdkClient, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if result, err := c.call(ctx, name, nil, ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%s: %v, %v, want the end of its context", name, result, err)
	}
	result, err := c.call(t.Context(), "echo", object{"text": "still here"}, "")
	if err != nil {
		t.Fatalf("after a cancelled call: %v", err)
	}
	checkResult(t, "echo", result, expected{text: "still here"})
}

// checkResult compares a tool's result with what is expected.
func checkResult(t *testing.T, name string, result any, want expected) {
	t.Helper()
	got := decode[struct {
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
		Structured json.RawMessage `json:"structuredContent"`
		IsError    bool            `json:"isError"`
	}](t, result)
	var kinds, texts []string
	for _, c := range got.Content {
		kinds = append(kinds, c.Type)
		if c.Type == "text" {
			texts = append(texts, c.Text)
		}
	}
	if want.kinds == "" {
		want.kinds = "text"
	}
	if kinds == nil {
		kinds = []string{"none"}
	}
	if all := strings.Join(kinds, " "); all != want.kinds {
		t.Errorf("%s: content of types %s, want %s", name, all, want.kinds)
	}
	if len(texts) > 0 && !strings.Contains(texts[0], want.text) {
		t.Errorf("%s: says %.200q, want %.200q", name, texts[0], want.text)
	}
	if got.IsError != want.isError {
		t.Errorf("%s: isError is %v, want %v: %.200q", name, got.IsError, want.isError, texts)
	}
}

// callAtOnce makes many calls at once, some of which ask the client, and checks
// that each gets its own answer.
func callAtOnce(t *testing.T, c sdkClient, tools map[string]expected) {
	t.Helper()
	var calls sync.WaitGroup
	for range 10 {
		for name, want := range tools {
			calls.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				result, err := c.call(ctx, name, want.args, "")
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				checkResult(t, name, result, want)
			})
		}
	}
	calls.Wait()
}

// atOnce are tools of the built-in server that take more or less time.
func atOnce(rev protocol.Revision) map[string]expected {
	some := map[string]expected{"large": {args: object{"bytes": 32 << 10}, text: strings.Repeat("x", 32<<10)}}
	for name, e := range expectations(rev) {
		switch name {
		case "echo", "add", "slow", "test_image_content", "test_sampling", "test_elicitation",
			"test_input_required_result_list_roots", "test_input_required_result_multi_round":
			some[name] = e
		}
	}
	return some
}
