package interop_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/protocol"
)

// goSDKTools says what each tool of the Go SDK's conformance server does.
func goSDKTools(rev protocol.Revision) map[string]expected {
	rows := map[string]expected{
		"test_simple_text":                  {text: "simple text"},
		"test_image_content":                {kinds: "image"},
		"test_audio_content":                {kinds: "audio"},
		"test_embedded_resource":            {kinds: "resource"},
		"test_multiple_content_types":       {kinds: "text image resource"},
		"test_tool_with_logging":            {text: "logging", logs: 3},
		"test_tool_with_progress":           {progress: 3},
		"test_error_handling":               {isError: true, text: "intentionally"},
		"test_sampling":                     {text: modelSays},
		"test_elicitation":                  {text: "action=accept, content=map[username:some text]"},
		"test_elicitation_sep1034_defaults": {text: "name:John Doe"},
		"test_elicitation_sep1330_enums":    {},
		"json_schema_2020_12_tool":          {args: object{"name": "n", "email": "e"}, text: `"email":"e"`},
		"test_reconnection":                 {text: "completed"},
		"test_x_mcp_header":                 {args: object{"region": "west"}, text: "region=west"},
		"test_missing_capability":           {text: "declared the sampling capability"},
		"test_streaming_elicitation":        {text: "result frames only"},
		"test_logging_tool":                 {text: "Log attempted", logs: 1},
		"test_trigger_tool_change":          {text: "published"},
		"test_trigger_prompt_change":        {text: "published"},

		"test_input_required_result_elicitation":     {text: "Hello, some text!"},
		"test_input_required_result_sampling":        {text: modelSays},
		"test_input_required_result_list_roots":      {text: rootURI},
		"test_input_required_result_request_state":   {text: "state-ok"},
		"test_input_required_result_multiple_inputs": {text: modelSays + " some text"},
		"test_input_required_result_multi_round":     {text: "some text likes some text"},
		"test_input_required_result_tampered_state":  {text: "state-ok"},
		"test_input_required_result_capabilities":    {text: "fulfilled"},
	}
	// The SDK refuses the form of its own fixture, once it is filled in.
	rows["test_elicitation_sep1330_enums"] = expected{isError: true, text: "elicitation failed"}
	if rev.HasSessions() {
		// To old clients the SDK puts the questions of one round only, and then
		// passes on those of the next as a result without content.
		rows["test_input_required_result_multi_round"] = expected{kinds: "none"}
	} else {
		// The fixtures of these ask by requests, which are of the old era.
		for _, name := range []string{"test_sampling", "test_elicitation", "test_elicitation_sep1034_defaults", "test_elicitation_sep1330_enums"} {
			rows[name] = expected{isError: true, text: "cannot be sent"}
		}
	}
	return rows
}

func TestD03_OurClientCallsEveryToolOfTheGoSDKServer(t *testing.T) {
	t.Parallel()
	for _, rev := range []protocol.Revision{protocol.V20260728, protocol.V20251125, protocol.V20250618} {
		t.Run(rev.String(), func(t *testing.T) {
			t.Parallel()
			c, hello := begin(t, goSDKProgram.command(t), rev)
			if hello["capabilities"] == nil {
				t.Errorf("the server says %v", hello)
			}
			if rev.HasSessions() {
				c.want(protocol.MethodSetLevel, object{"level": "debug"})
				c.want(protocol.MethodPing, object{})
			} else {
				c.level = "debug"
			}
			c.callAll(goSDKTools(rev))
			for _, method := range []string{protocol.MethodCreateMessage, protocol.MethodElicit, protocol.MethodListRoots} {
				if c.questions(method) == 0 {
					t.Errorf("the server never asked %s", method)
				}
			}
		})
	}
}

func TestE06_OurClientMakesManyCallsToTheGoSDKServerAtOnce(t *testing.T) {
	t.Parallel()
	c, _ := begin(t, goSDKProgram.command(t), protocol.V20251125)
	rows := goSDKTools(c.rev)
	some := map[string]expected{}
	for _, name := range []string{"test_simple_text", "test_image_content", "test_reconnection", "test_input_required_result_list_roots"} {
		some[name] = rows[name]
	}
	for _, row := range []struct{ name, key string }{{"test_sampling", "prompt"}, {"test_elicitation", "message"}} {
		some[row.name] = expected{args: object{row.key: "Who are you?"}, text: rows[row.name].text}
	}
	callAtOnce(t, c, some)
}

func TestOurClientReadsEverythingElseOfTheGoSDKServer(t *testing.T) {
	t.Parallel()
	for _, rev := range []protocol.Revision{protocol.V20260728, protocol.V20251125} {
		t.Run(rev.String(), func(t *testing.T) {
			t.Parallel()
			c, _ := begin(t, goSDKProgram.command(t), rev)
			if n := c.readAll(); n != 3 {
				t.Errorf("%d resources, want 3", n)
			}
			if n := c.promptAll(nil); n != 5 {
				t.Errorf("%d prompts, want 5", n)
			}
			if n := len(c.list(protocol.MethodListTemplates, "resourceTemplates")); n != 1 {
				t.Errorf("%d templates, want 1", n)
			}
			c.want(protocol.MethodReadResource, object{"uri": "test://template/7/data"})
			c.want(protocol.MethodComplete, object{
				"ref":      object{"type": "ref/prompt", "name": "test_prompt_with_arguments"},
				"argument": object{"name": "arg1", "value": "par"},
			})
			// The SDK has the modern code in the old era too.
			c.wantError(protocol.CodeInvalidParams, protocol.MethodReadResource, object{"uri": "test://nowhere"})
		})
	}
}

func TestOurClientHearsOfChangesOfTheGoSDKServer(t *testing.T) {
	t.Parallel()
	t.Run(protocol.V20251125.String(), func(t *testing.T) {
		t.Parallel()
		c, _ := begin(t, goSDKProgram.command(t), protocol.V20251125)
		c.want(protocol.MethodSubscribe, object{"uri": watched})
		c.tool("test_trigger_tool_change")
		c.tool("test_trigger_prompt_change")
		c.notes.wait(t, 1, protocol.NoteToolsChanged, "")
		c.notes.wait(t, 1, protocol.NotePromptsChanged, "")
		c.notes.wait(t, 1, protocol.NoteResourceUpdated, watched) // the server tells every 3 seconds
		c.want(protocol.MethodUnsubscribe, object{"uri": watched})
	})
	t.Run(protocol.V20260728.String(), func(t *testing.T) {
		t.Parallel()
		c, _ := begin(t, goSDKProgram.command(t), protocol.V20260728)
		stop := c.listen(object{"toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": []string{watched}})
		c.tool("test_trigger_tool_change")
		c.tool("test_trigger_prompt_change")
		c.notes.wait(t, 1, protocol.NoteToolsChanged, protocol.MetaSubscriptionID)
		c.notes.wait(t, 1, protocol.NotePromptsChanged, protocol.MetaSubscriptionID)
		c.notes.wait(t, 1, protocol.NoteResourceUpdated, watched)
		stop()
		c.tool("test_simple_text")
	})
}

func TestOurClientGoesOnAfterACancelledCallToTheGoSDKServer(t *testing.T) {
	t.Parallel()
	for _, rev := range []protocol.Revision{protocol.V20260728, protocol.V20251125} {
		t.Run(rev.String(), func(t *testing.T) {
			t.Parallel()
			c, _ := begin(t, goSDKProgram.command(t), rev)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			// It takes 100 ms, so on a very busy machine it may come in time.
			if _, err := c.call(ctx, "test_reconnection", nil, ""); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the cancelled call returned %v", err)
			}
			c.tool("test_simple_text")
		})
	}
}

func TestE03_GoSDKServerSpeaksTheEraItIsSpokenToIn(t *testing.T) {
	t.Parallel()
	c, hello := begin(t, goSDKProgram.command(t), protocol.V20260728)
	versions, _ := hello["supportedVersions"].([]any)
	if len(versions) == 0 || versions[0] != protocol.V20260728.String() {
		t.Errorf("discover says %v", hello)
	}
	c.tool("test_simple_text")
	c, hello = begin(t, goSDKProgram.command(t), protocol.V20241105)
	if hello["protocolVersion"] != protocol.V20241105.String() {
		t.Errorf("initialize says %v", hello)
	}
	c.tool("test_simple_text")
}
