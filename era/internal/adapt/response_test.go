package adapt_test

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	call   = protocol.MethodCallTool
	audio  = `{"type":"audio","data":"UklGRg==","mimeType":"audio/wav","annotations":{"priority":0.50}}`
	asBlob = `{"type":"resource","annotations":{"priority":0.50},"resource":{"uri":"dragoman:audio/1","mimeType":"audio/wav","blob":"UklGRg=="}}`
	linked = `{"type":"resource_link","uri":"file:///a","name":"a","title":"The A","description":"All about A","mimeType":"text/plain","size":3,"x":1}`
	asText = `{"type":"text","x":1,"text":"The A: file:///a\nAll about A"}`
	hello  = `{"type":"text","text":"hello"}`
	tags   = `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}},`
)

func TestResponse(t *testing.T) {
	t.Parallel()
	for _, c := range []row{
		{"B-2 tagged", v5, v4, call, `{"content":[` + hello + `],"x":1.0}`,
			`{"resultType":"complete",` + tags + `"content":[` + hello + `],"x":1.0}`},
		{"B-2 tagged from the oldest", v5, v1, "completion/complete", `{"completion":{"values":[]}}`,
			`{"resultType":"complete",` + tags + `"completion":{"values":[]}}`},
		{"B-2 with cache hints", v5, v3, "resources/read", `{"contents":[]}`,
			`{"resultType":"complete","ttlMs":0,"cacheScope":"private",` + tags + `"contents":[]}`},
		{"B-2 an empty result", v5, v3, "x/y", `{}`, `{"resultType":"complete",` + strings.TrimSuffix(tags, ",") + `}`},
		{"a legacy server knows nothing of tags", v5, v3, "prompts/list", `{"resultType":"input_required","ttlMs":9,"cacheScope":"public","prompts":[],"_meta":{"a":1}}`,
			`{"resultType":"complete","ttlMs":0,"cacheScope":"private","prompts":[],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"},"a":1}}`},
		{"null stands for nothing to say", v5, v2, "x/y", `null`, `{"resultType":"complete",` + strings.TrimSuffix(tags, ",") + `}`},
		{"B-2 stripped", v4, v5, "tools/list", `{` + tags + `"resultType":"complete","tools":[],"ttlMs":60000,"cacheScope":"public","nextCursor":""}`,
			`{"_meta":{},"tools":[],"nextCursor":""}`},
		{"B-2 stripped for the oldest", v1, v5, "resources/list", `{"resources":[],"resultType":"complete","_meta":{"a":1,"io.modelcontextprotocol/serverInfo":{}}}`,
			`{"resources":[],"_meta":{"a":1}}`},
		{"an escaped type is one too", v4, v5, call, `{"resultType":"c\u006fmplete","content":[]}`, `{"content":[]}`},
		{"a task keeps its time", v4, v5, "tasks/get", `{"resultType":"complete","taskId":"t","ttlMs":5}`, `{"taskId":"t","ttlMs":5}`},
		{"no object in the legacy era", v3, v4, "x/y", `[1]`, ``},

		{"3.4 audio", v1, v5, call, `{"resultType":"complete","content":[` + hello + `,` + audio + `]}`, `{"content":[` + hello + `,` + asBlob + `]}`},
		{"3.4 audio, legacy server", v1, v2, call, `{"content":[` + audio + `, ` + hello + `]}`, `{"content":[` + asBlob + `, ` + hello + `]}`},
		{"3.4 two sounds have two names", v1, v4, call, `{"content":[{"type":"audio","data":"","mimeType":"a/b"},{"type":"audio","data":""}]}`,
			`{"content":[{"type":"resource","resource":{"uri":"dragoman:audio/1","mimeType":"a/b","blob":""}},{"type":"resource","resource":{"uri":"dragoman:audio/2","blob":""}}]}`},
		{"3.4 audio without data", v1, v4, call, `{"content":[{"type":"audio","mimeType":"a/b"}]}`, `{"content":[{"type":"text","text":"[audio of type a/b]"}]}`},
		{"3.4 audio with escapes", v1, v4, call, `{"content":[{"t\u0079pe":"\u0061udio","data":"AAAA"}]}`,
			`{"content":[{"t\u0079pe":"resource","resource":{"uri":"dragoman:audio/1","blob":"AAAA"}}]}`},
		{"3.4 audio is fine", v2, v4, call, `{"content":[` + audio + `]}`, ``},
		{"3.4 audio is fine for a modern client", v5, v2, call, `{"content":[` + audio + `]}`, `{"resultType":"complete",` + tags + `"content":[` + audio + `]}`},
		{"3.4 audio is only mentioned", v1, v4, call, `{"content":[{"type":"text","text":"\"audio\" and \"resource_link\" \u0061"}]}`, ``},
		{"3.4 audio in a prompt", v1, v4, "prompts/get", `{"messages":[{"role":"user","content":` + audio + `},{"role":"user","content":` + hello + `}]}`,
			`{"messages":[{"role":"user","content":` + asBlob + `},{"role":"user","content":` + hello + `}]}`},
		{"3.4 link", v2, v5, call, `{"resultType":"complete","content":[` + linked + `]}`, `{"content":[` + asText + `]}`},
		{"3.4 link, legacy server", v1, v3, call, `{"content":[` + linked + `]}`, `{"content":[` + asText + `]}`},
		{"3.4 link without a name", v1, v3, call, `{"content":[{"uri":"u:\"1\"","type":"resource_link"}]}`, `{"content":[{"type":"text","text":"u:\"1\""}]}`},
		{"3.4 link in a prompt", v2, v3, "prompts/get", `{"messages":[{"content":` + linked + `,"role":"user"}]}`, `{"messages":[{"content":` + asText + `,"role":"user"}]}`},
		{"3.4 link is fine", v3, v4, call, `{"content":[` + linked + `]}`, ``},
		{"3.4 link to a modern client", v5, v4, "prompts/get", `{"messages":[]}`, `{"resultType":"complete",` + tags + `"messages":[]}`},

		{"3.4 structured content has a copy", v1, v5, call, `{"resultType":"complete","content":[{"type":"text","text":" {\"b\":1,\n\"a\":[]}"}],"structuredContent":{"a":[],"b":1}}`,
			`{"content":[{"type":"text","text":" {\"b\":1,\n\"a\":[]}"}]}`},
		{"3.4 structured content gets a copy", v2, v5, call, `{"content":[` + hello + `],"structuredContent":{"n":12345678901234567890},"resultType":"complete"}`,
			`{"content":[` + hello + `,{"type":"text","text":"{\"n\":12345678901234567890}"}]}`},
		{"3.4 and is the only content", v2, v4, call, `{"structuredContent":{"a":"é<"},"content":[]}`, `{"content":[{"type":"text","text":"{\"a\":\"é<\"}"}]}`},
		{"3.4 and there was no content", v1, v3, call, `{"structuredContent":{"a":1},"isError":false}`, `{"content":[{"type":"text","text":"{\"a\":1}"}],"isError":false}`},
		{"3.4 a copy after the blocks", v1, v5, call, `{"content":[ ` + audio + ` ],"structuredContent":"s"}`, `{"content":[ ` + asBlob + `,{"type":"text","text":"\"s\""} ]}`},
		{"3.4 null needs no copy", v1, v5, call, `{"content":[],"structuredContent":null}`, `{"content":[]}`},
		{"3.4 structured content is an object", v3, v5, call, `{"content":[],"structuredContent":{"a":1}}`, ``},
		{"3.4 a list is wrapped", v3, v5, call, `{"content":[],"structuredContent":[1.0, 2]}`, `{"content":[],"structuredContent":{"result":[1.0, 2]}}`},
		{"3.4 a word is wrapped", v4, v5, call, `{"content":[],"structuredContent":"w","resultType":"complete"}`, `{"content":[],"structuredContent":{"result":"w"}}`},
		{"3.4 null is wrapped", v4, v5, call, `{"content":[],"structuredContent":null}`, `{"content":[],"structuredContent":{"result":null}}`},
		{"3.4 an escaped name", v4, v5, call, `{"content":[],"struct\u0075redContent":7}`, `{"content":[],"struct\u0075redContent":{"result":7}}`},
		{"3.4 structured content for a modern client", v5, v4, call, `{"structuredContent":{}}`, `{"resultType":"complete",` + tags + `"structuredContent":{}}`},
		{"3.4 only tools have structured content", v1, v5, "x/y", `{"structuredContent":1}`, ``},

		{"3.4 output schema", v2, v5, "tools/list", `{"tools":[{"name":"a","outputSchema":{"type":"object"},"x":1e2}, {"name":"b","annotations":{"title":"B"}}]}`,
			`{"tools":[{"name":"a","x":1e2}, {"name":"b","annotations":{"title":"B"}}]}`},
		{"3.4 output schema, legacy server", v1, v3, "tools/list", `{"tools":[{"outputSchema":{},"name":"a"}]}`, `{"tools":[{"name":"a"}]}`},
		{"3.4 output schema of an object", v3, v5, "tools/list", `{"tools":[{"name":"a","outputSchema":{"type":"object"}}]}`, ``},
		{"3.4 output schema of a list", v4, v5, "tools/list", `{"tools":[{"name":"a","outputSchema":{"type":"array"},"icons":[]}]}`,
			`{"tools":[{"name":"a","outputSchema":{"type":"object","properties":{"result":{"type":"array"}},"required":["result"]},"icons":[]}]}`},
		{"execution is gone in the modern era", v5, v4, "tools/list", `{"tools":[{"name":"a","execution":{"taskSupport":"optional"}},{"name":"b","n":10000000000000000000000}]}`,
			`{"resultType":"complete","ttlMs":0,"cacheScope":"private",` + tags + `"tools":[{"name":"a"},{"name":"b","n":10000000000000000000000}]}`},
		{"execution means nothing before tasks", v3, v4, "tools/list", `{"tools":[{"name":"a","execution":{}}]}`, `{"tools":[{"name":"a"}]}`},
		{"3.4 what is ignored passes", v1, v4, "tools/list", `{"tools":[{"name":"a","title":"A","icons":[],"annotations":{"readOnlyHint":true},"_meta":{}}]}`, ``},
		{"the same revision", v1, v1, call, `{"content":[` + audio + `],"structuredContent":1,"resultType":"x"}`, ``},
		{"the same modern revision", v5, v5, call, `{"resultType":"task","structuredContent":1}`, ``},
	} {
		resp := result(t, c.in)
		r := route(c.client, c.server)
		info := []byte(`{"name":"s","version":"1"}`)
		got, err := r.Response(c.method, resp, info)
		if err != nil {
			c.expect(t, resp, got, nil, err)
			continue
		}
		c.expect(t, resp, got, got.Result(), nil)
		again, err := r.Response(c.method, got, info)
		if err != nil || again.String() != got.String() {
			t.Errorf("%s: twice is %s, %v", c.name, again, err)
		}
	}
}

func TestWrappingTwiceIsWrappingOnce(t *testing.T) {
	t.Parallel()
	r := route(v4, v5)
	for method, in := range map[string]string{
		call:         `{"structuredContent":[1]}`,
		"tools/list": `{"tools":[{"outputSchema":{"type":"string"}},{"outputSchema":{}},{"outputSchema":{"$ref":"#/$defs/a","$defs":{"a":{"type":"object"}}}}]}`,
	} {
		once, err := r.Response(method, result(t, in), nil)
		if err != nil {
			t.Fatal(err)
		}
		if twice, err := r.Response(method, once, nil); err != nil || twice != once {
			t.Errorf("%s: got %s, %v", once, twice, err)
		}
	}
}

func TestResultThatIsNotCompleteIsNotForALegacyClient(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{`"input_required"`, `"task"`, `"\u0069nput_required"`, `null`, `1`} {
		got, err := route(v4, v5).Response(call, result(t, `{"resultType":`+kind+`}`), nil)
		if err == nil || !strings.Contains(err.Error(), "means nothing to a client of 2025-11-25") {
			t.Errorf("%s: got %s, %v", kind, got, err)
		}
	}
}

func TestResultThatIsNoObjectIsNotForAModernClient(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`1`, `[]`, `"x"`, `true`} {
		if got, err := route(v5, v4).Response(call, result(t, body), nil); err == nil {
			t.Errorf("%s: got %s", body, got)
		}
	}
}

func TestIDOnItsWayStays(t *testing.T) {
	t.Parallel()
	resp := result(t, `{"content":[]}`)
	other := parse(t, `{"jsonrpc":"2.0","id":"other","method":"x"}`)
	got, err := route(v5, v4).Response(call, resp.WithID(other.ID()), nil)
	if err != nil || got.ID() != other.ID() || !strings.Contains(got.String(), `"id":"other"`) {
		t.Errorf("got %s, %v", got, err)
	}
	fail := parse(t, `{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"m"}}`)
	got, err = route(v5, v4).Response(call, fail.WithID(other.ID()), nil)
	if err != nil || got.ID() != other.ID() || got.RPCError().Code != protocol.CodeInvalidParams {
		t.Errorf("got %s, %v", got, err)
	}
}
