package builtin_test

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// find returns the entry of a list by a member's value.
func find(t *testing.T, list any, member, value string) object {
	t.Helper()
	for _, e := range list.([]any) {
		if e.(object)[member] == value {
			return e.(object)
		}
	}
	t.Fatalf("there is no %s %s", member, value)
	return nil
}

func TestToolListSaysWhatTheRevisionCanSay(t *testing.T) {
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		tools := open(t, builtin.New(nil), rev, nil).want(protocol.MethodListTools, nil)["tools"]
		echo := find(t, tools, "name", "echo")
		for _, member := range []struct {
			name string
			want bool
		}{
			{"name", true}, {"description", true}, {"inputSchema", true},
			{"annotations", rev.HasToolAnnotations()}, {"title", rev.HasTitles()}, {"icons", rev.HasIcons()},
		} {
			if _, ok := echo[member.name]; ok != member.want {
				t.Errorf("echo has %s: %v, want %v", member.name, ok, member.want)
			}
		}
		if out := find(t, tools, "name", "add")["outputSchema"]; (out != nil) != rev.HasStructuredContent() {
			t.Errorf("the outputSchema of add is %v", out)
		}
		want := "null"
		switch {
		case rev.HasAnyStructuredContent():
			want = `{"type":"array","items":{"type":"string"}}`
		case rev.HasStructuredContent():
			want = `{"type":"object","properties":{"result":{"type":"array","items":{"type":"string"}}},"required":["result"]}`
		}
		wantJSON(t, "the outputSchema of levels", find(t, tools, "name", "levels")["outputSchema"], want)
	})
}

func TestContentIsAdaptedToTheRevision(t *testing.T) {
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		d := open(t, builtin.New(nil), rev, nil)
		types := func(name string) string {
			var all []string
			for _, b := range d.tool(name, nil)["content"].([]any) {
				all = append(all, b.(object)["type"].(string))
			}
			return strings.Join(all, " ")
		}
		sound, links := "resource", "text text text text"
		if rev.HasAudio() {
			sound = "audio"
		}
		if rev.HasResourceLinks() {
			links = "resource_link resource_link resource_link resource_link"
		}
		for name, want := range map[string]string{
			"test_simple_text": "text", "test_image_content": "image", "test_embedded_resource": "resource",
			"test_multiple_content_types": "text image resource", "test_audio_content": sound, "links": links, "annotated": "text text",
		} {
			if got := types(name); got != want {
				t.Errorf("%s returns %q, want %q", name, got, want)
			}
		}
		sum, levels := d.tool("add", object{"a": 1.5, "b": 2}), d.tool("levels", nil)
		if got := textOf(t, sum); got != `{"sum":3.5}` {
			t.Errorf("add says %q", got)
		}
		switch {
		case rev.HasAnyStructuredContent():
			wantJSON(t, "add", sum["structuredContent"], `{"sum":3.5}`)
			wantJSON(t, "levels", levels["structuredContent"], `["debug","info","notice","warning","error","critical","alert","emergency"]`)
		case rev.HasStructuredContent():
			wantJSON(t, "add", sum["structuredContent"], `{"sum":3.5}`)
			wantJSON(t, "levels", levels["structuredContent"], `{"result":["debug","info","notice","warning","error","critical","alert","emergency"]}`)
		default:
			wantJSON(t, "add", sum["structuredContent"], `null`)
			wantJSON(t, "levels", levels["structuredContent"], `null`)
		}
	})
}

func TestToolArgumentsAreChecked(t *testing.T) {
	tests := []struct {
		name, tool string
		args       object
		want       string // in the text of the result
	}{
		{"missing", "echo", object{}, `"text" is missing`},
		{"left out", "echo", nil, `"text" is missing`},
		{"null", "echo", object{"text": nil}, `"text" must be of type string, not null`},
		{"mistyped", "echo", object{"text": 5}, `"text" must be of type string, not integer`},
		{"too small", "slow", object{"ms": -1}, `"ms" must be at least 0`},
		{"too large", "slow", object{"ms": 1e9}, `"ms" must be at most 3600000`},
		{"a fraction for an integer", "slow", object{"ms": 1.5}, `"ms" must be of type integer, not number`},
		{"not one of the choices", "json_schema_2020_12_tool", object{"contactMethod": "fax"}, "one of phone, email"},
		{"unknown to a closed schema", "json_schema_2020_12_tool", object{"age": 5}, `no argument "age"`},
		{"a resource that is not there", "update_resource", object{"uri": "test://nothing"}, "no resource test://nothing"},
	}
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		d := open(t, builtin.New(nil), rev, nil)
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				got := d.in(t).tool(test.tool, test.args)
				if got["isError"] != true || !strings.Contains(textOf(t, got), test.want) {
					t.Errorf("got %v, want an error that says %q", got, test.want)
				}
			})
		}
	})
}

func TestToolRequestsAreChecked(t *testing.T) {
	tests := []struct {
		name   string
		params object
	}{
		{"A01 no name", object{}},
		{"A01 name is no string", object{"name": 5}},
		{"A01 name is empty", object{"name": ""}},
		{"A01 arguments are no object", object{"name": "echo", "arguments": []string{"x"}}},
		{"unknown tool", object{"name": "no_such_tool"}},
		{"a tool that is not there yet", object{"name": "test_added_tool"}},
	}
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		d := open(t, builtin.New(nil), rev, nil)
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				d.in(t).wantError(protocol.CodeInvalidParams, protocol.MethodCallTool, test.params)
			})
		}
	})
}

func TestToolResults(t *testing.T) {
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		d := open(t, builtin.New(nil), rev, nil)
		t.Run("A02 every result of a tool has content", func(t *testing.T) {
			for _, name := range []string{"test_simple_text", "test_image_content", "links", "annotated", "levels", "test_error_handling"} {
				if err := protocol.CheckToolResponse(d.in(t).send(protocol.MethodCallTool, object{"name": name})); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
		t.Run("A03 a failing tool says so in its result", func(t *testing.T) {
			if got := d.in(t).tool("test_error_handling", nil); got["isError"] != true || textOf(t, got) == "" {
				t.Errorf("got %v", got)
			}
		})
		t.Run("E05 an error passes with its code, message and reason", func(t *testing.T) {
			e := d.in(t).wantError(-31999, protocol.MethodCallTool, object{
				"name": "raise", "arguments": object{"code": -31999, "message": "it broke", "reason": "no <disk>"},
			})
			if e.Message != "it broke" {
				t.Errorf("the message is %q", e.Message)
			}
			wantJSON(t, "data", e.Data, `{"reason":"no <disk>"}`)
		})
		t.Run("a mirrored argument is an argument", func(t *testing.T) {
			if got := d.in(t).toolText("test_x_mcp_header", object{"region": "eu", "level": 1}); got != "region=eu" {
				t.Errorf("got %q", got)
			}
		})
		t.Run("E06 a large result", func(t *testing.T) {
			if got := d.in(t).toolText("large", object{"bytes": 1 << 20}); len(got) != 1<<20 {
				t.Errorf("got %d bytes", len(got))
			}
		})
		t.Run("text comes back as it was", func(t *testing.T) {
			for _, want := range []string{"", "<&>", "line\nline\u2028", "日本語 🜁", `"quoted\"`} {
				if got := d.in(t).toolText("echo", object{"text": want}); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			}
		})
	})
}

func TestSchemaArrivesUnchanged(t *testing.T) {
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		tools := open(t, builtin.New(nil), rev, nil).want(protocol.MethodListTools, nil)["tools"]
		schema := find(t, tools, "name", "json_schema_2020_12_tool")["inputSchema"].(object)
		for _, keyword := range []string{"$schema", "$defs", "allOf", "if", "then", "else", "additionalProperties"} {
			if _, ok := schema[keyword]; !ok {
				t.Errorf("%s is gone", keyword)
			}
		}
		region := find(t, tools, "name", "test_x_mcp_header")["inputSchema"].(object)["properties"].(object)["region"].(object)
		if region["x-mcp-header"] != "Region" {
			t.Errorf("region is %v", region)
		}
	})
}

// The endpoint for single requests is safe to use without a way back.
func TestCallsWithoutAWayBack(t *testing.T) {
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		d := open(t, builtin.New(nil), rev, canAll)
		for _, test := range []struct{ tool, want string }{
			{"test_logging_tool", "One message of each level was logged."},
			{"slow", "Took 1 ms in 2 steps."},
		} {
			req := d.request(protocol.MethodCallTool, object{"name": test.tool, "arguments": object{"ms": 1, "steps": 2}, "_meta": object{"progressToken": 1}})
			resp, err := d.conn.Call(t.Context(), req, nil)
			if err != nil || !strings.Contains(resp.String(), test.want) {
				t.Errorf("%s: got %v, %v", test.tool, resp, err)
			}
		}
		if rev.ServerMayAsk() {
			req := d.request(protocol.MethodCallTool, object{"name": "test_sampling", "arguments": object{"prompt": "x"}})
			resp, err := d.conn.Call(t.Context(), req, nil)
			if err != nil || string(resp.Get("isError")) != "true" {
				t.Errorf("got %v, %v", resp, err)
			}
		}
	})
}

var _ dragoman.Acceptor = (*builtin.Server)(nil)
