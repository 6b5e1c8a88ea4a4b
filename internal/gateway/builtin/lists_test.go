package builtin_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestPages(t *testing.T) {
	lists := []struct{ method, kind, member string }{
		{protocol.MethodListTools, "tools", "name"},
		{protocol.MethodListPrompts, "prompts", "name"},
		{protocol.MethodListResources, "resources", "uri"},
		{protocol.MethodListTemplates, "resourceTemplates", "uriTemplate"},
	}
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		whole := open(t, builtin.New(&builtin.Options{Numbered: 23, PageSize: -1}), rev, nil)
		paged := open(t, builtin.New(&builtin.Options{Numbered: 23, PageSize: 4}), rev, nil)
		for _, list := range lists {
			t.Run(list.kind, func(t *testing.T) {
				names := func(d *testClient) (all []string, pages int) {
					params := object{}
					for {
						got := d.in(t).want(list.method, params)
						for _, e := range got[list.kind].([]any) {
							all = append(all, e.(object)[list.member].(string))
						}
						pages++
						next, more := got["nextCursor"]
						if !more {
							return all, pages
						}
						params = object{"cursor": next}
					}
				}
				want, one := names(whole)
				got, many := names(paged)
				if strings.Join(got, " ") != strings.Join(want, " ") {
					t.Errorf("got %q, want %q", got, want)
				}
				if one != 1 || many != (len(want)+3)/4 {
					t.Errorf("there are %d and %d pages of %d entries", one, many, len(want))
				}
			})
		}
	})
}

func TestCursors(t *testing.T) {
	for _, rev := range []protocol.Revision{protocol.LatestLegacy, protocol.Latest} {
		d := open(t, builtin.New(&builtin.Options{PageSize: 2}), rev, nil)
		foreign := d.want(protocol.MethodListTools, nil)["nextCursor"]
		for _, cursor := range []any{"nonsense", foreign, 5, "cmVzb3VyY2VzIDk5OTk", "cmVzb3VyY2VzIC0x"} {
			t.Run(fmt.Sprintf("%s bad cursor %v", rev, cursor), func(t *testing.T) {
				d.in(t).wantError(protocol.CodeInvalidParams, protocol.MethodListResources, object{"cursor": cursor})
			})
		}
		t.Run(rev.String()+" the empty cursor is the first page", func(t *testing.T) {
			got := d.in(t).want(protocol.MethodListResources, object{"cursor": ""})
			find(t, got["resources"], "uri", "test://static-text")
		})
	}
}

func TestReadResource(t *testing.T) {
	tests := []struct{ uri, want string }{
		{"test://static-text", `"mimeType":"text/plain","text":"This is the content of the static text resource."`},
		{"test://static-binary", `"mimeType":"image/png","blob":"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mM4IScHAAK2AQUKW6YGAAAAAElFTkSuQmCC"`},
		{"test://template/1\\\"2/data", `"mimeType":"application/json","text":"{\"data\":\"Data for ID: 1\\\"2\",\"id\":\"1\\\"2\",\"templateTest\":true}"`},
		{"test://greeting/Ada", `"mimeType":"text/plain","text":"Hello, Ada!"`},
		{"test://numbered/3", `"mimeType":"text/plain","text":"Resource number 3"`},
		{watched, `"mimeType":"text/plain","text":"Watched resource content, version 0"`},
	}
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		d := open(t, builtin.New(&builtin.Options{Numbered: 3}), rev, nil)
		for _, test := range tests {
			uri := strings.ReplaceAll(test.uri, `\`, "")
			got := d.want(protocol.MethodReadResource, object{"uri": uri})
			wantJSON(t, uri, got["contents"], `[{"uri":"`+test.uri+`",`+test.want+`}]`)
		}
		d.tool("update_resource", nil)
		got := d.want(protocol.MethodReadResource, object{"uri": watched})
		wantJSON(t, "after an update", got["contents"], `[{"uri":"`+watched+`","mimeType":"text/plain","text":"Watched resource content, version 1"}]`)

		for _, uri := range []string{"test://no-such", "test://numbered/4", "test://template//data", "test://template/1/2/data", "test://added-resource"} {
			e := d.wantError(rev.CodeNoResource(), protocol.MethodReadResource, object{"uri": uri})
			wantJSON(t, "data", e.Data, `{"uri":"`+uri+`"}`)
		}
		d.wantError(protocol.CodeInvalidParams, protocol.MethodReadResource, object{})
		d.wantError(protocol.CodeInvalidParams, protocol.MethodReadResource, object{"uri": 5})
	})
}

func TestGetPrompt(t *testing.T) {
	tests := []struct {
		name string
		args object
		want string // messages, or "error"
	}{
		{"test_simple_prompt", nil, `[{"role":"user","content":{"type":"text","text":"This is a simple prompt for testing."}}]`},
		{"test_prompt_with_arguments", object{"arg1": "a", "arg2": "b"},
			`[{"role":"user","content":{"type":"text","text":"Prompt with arguments: arg1='a', arg2='b'"}}]`},
		{"test_prompt_with_embedded_resource", object{"resourceUri": "test://x"},
			`[{"role":"user","content":{"type":"resource","resource":{"uri":"test://x","mimeType":"text/plain","text":"Embedded resource content for testing."}}},
			{"role":"user","content":{"type":"text","text":"Please process the embedded resource above."}}]`},
		{"test_prompt_with_arguments", object{"arg1": "a"}, "error"},
		{"test_prompt_with_arguments", object{"arg1": "a", "arg2": 5}, "error"},
		{"test_added_prompt", nil, "error"},
		{"no_such_prompt", nil, "error"},
		{"", nil, "error"},
	}
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		d := open(t, builtin.New(nil), rev, nil)
		for _, test := range tests {
			params := object{"name": test.name}
			if test.args != nil {
				params["arguments"] = test.args
			}
			if test.want == "error" {
				d.wantError(protocol.CodeInvalidParams, protocol.MethodGetPrompt, params)
				continue
			}
			wantJSON(t, test.name, d.want(protocol.MethodGetPrompt, params)["messages"], test.want)
		}
		list := d.want(protocol.MethodListPrompts, nil)["prompts"]
		if _, ok := find(t, list, "name", "test_simple_prompt")["title"]; ok != rev.HasTitles() {
			t.Errorf("a prompt has a title: %v", ok)
		}
	})
}

func TestComplete(t *testing.T) {
	prompt := object{"type": "ref/prompt", "name": "test_prompt_with_arguments"}
	template := object{"type": "ref/resource", "uri": "test://template/{id}/data"}
	tests := []struct {
		name      string
		ref       any
		arg, typd string
		known     object
		want      string // "error", or the completion
	}{
		{"by prefix", prompt, "arg1", "par", nil, `{"values":["paris","park","party"],"total":3,"hasMore":false}`},
		{"without context", prompt, "arg2", "", nil, `{"values":["one","two"],"total":2,"hasMore":false}`},
		{"with context", prompt, "arg2", "", object{"arg1": "paris"}, `{"values":["paris-one","paris-two"],"total":2,"hasMore":false}`},
		{"unknown argument", prompt, "arg9", "", nil, `{"values":[],"total":0,"hasMore":false}`},
		{"template", template, "id", "14", nil, `{"values":["14","140","141","142","143","144","145","146","147","148","149"],"total":11,"hasMore":false}`},
		{"unknown prompt", object{"type": "ref/prompt", "name": "no"}, "a", "", nil, "error"},
		{"unknown template", object{"type": "ref/resource", "uri": "test://no"}, "a", "", nil, "error"},
		{"unknown kind", object{"type": "ref/tool", "name": "echo"}, "a", "", nil, "error"},
		{"no object", "x", "a", "", nil, "error"},
	}
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		d := open(t, builtin.New(nil), rev, nil)
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				params := object{"ref": test.ref, "argument": object{"name": test.arg, "value": test.typd}}
				if test.known != nil {
					params["context"] = object{"arguments": test.known}
				}
				if test.want == "error" {
					d.in(t).wantError(protocol.CodeInvalidParams, protocol.MethodComplete, params)
					return
				}
				wantJSON(t, "completion", d.in(t).want(protocol.MethodComplete, params)["completion"], test.want)
			})
		}
		d.in(t).wantError(protocol.CodeInvalidParams, protocol.MethodComplete, object{"ref": prompt})
		got := d.want(protocol.MethodComplete, object{"ref": template, "argument": object{"name": "id", "value": ""}})["completion"].(object)
		if len(got["values"].([]any)) != 100 || got["total"] != 150.0 || got["hasMore"] != true {
			t.Errorf("got %v", got)
		}
	})
}
