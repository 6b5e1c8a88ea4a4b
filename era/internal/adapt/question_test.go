package adapt_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	elicit = protocol.MethodElicit
	sample = protocol.MethodCreateMessage
)

func form(fields string) string {
	return `{"message":"?","requestedSchema":{"type":"object","properties":{` + fields + `},"required":["a"]}}`
}

func TestQuestion(t *testing.T) {
	t.Parallel()
	colours := `"oneOf":[{"const":"r","title":"Red <1>"},{"title":"Gr\u00fcn","const":"g"},{"const":"b"}]`
	for _, c := range []row{
		{"3.3 what a modern client gets", v5, v4, elicit, `{"_meta":{"progressToken":1},"message":"?","mode":"url","url":"u","elicitationId":"e","task":{"ttl":1},"x":1.0}`,
			`{"message":"?","mode":"url","url":"u","x":1.0}`},
		{"3.3 roots", v5, v1, "roots/list", `{"_meta":{"a":1}}`, `{}`},
		{"3.3 sampling", v5, v3, sample, `{"messages":[],"maxTokens":1.0}`, ``},
		{"3.4 a form", v3, v5, elicit, `{"mode":"form","message":"?","requestedSchema":{"type":"object","properties":{}}}`, `{"message":"?","requestedSchema":{"type":"object","properties":{}}}`},
		{"3.4 a rich form is fine", v4, v5, elicit, form(`"a":{"type":"string","default":"d",` + colours + `}`), ``},
		{"3.4 choices with titles", v3, v5, elicit, form(`"a":{"type":"string","title":"T",` + colours + `,"default":"r"}`),
			form(`"a":{"type":"string","title":"T","enum":["r","g","b"],"enumNames":["Red <1>","Gr\u00fcn","b"]}`)},
		{"3.4 choices with titles, legacy server", v3, v4, elicit, form(`"a":{` + colours + `,"type":"string"}`),
			form(`"a":{"type":"string","enum":["r","g","b"],"enumNames":["Red <1>","Gr\u00fcn","b"]}`)},
		{"3.4 choices twice", v3, v4, elicit, form(`"a":{"enum":["x"],"enumNames":["X"],"oneOf":[{"const":"y"}],"type":"string"}`), form(`"a":{"type":"string","enum":["y"],"enumNames":["y"]}`)},
		{"3.4 plain choices", v3, v4, elicit, form(`"a":{"type":"string","enum":["x"],"enumNames":["X"]}`), ``},
		{"3.4 defaults only on booleans", v3, v5, elicit,
			form(`"a":{"type":"string","default":"d"},"b":{"default":1,"type":"integer"},"c":{"type":"number","default":0.5,"maximum":1e2},"d":{"type":"boolean","default":true},"e":{"type":"string","enum":["e"],"default":"e"}`),
			form(`"a":{"type":"string"},"b":{"type":"integer"},"c":{"type":"number","maximum":1e2},"d":{"type":"boolean","default":true},"e":{"type":"string","enum":["e"]}`)},
		{"3.4 a URL without an id for a modern client", v5, v4, elicit, `{"mode":"url","url":"u","message":"m"}`, ``},
		{"3.4 a URL that has an id keeps it", v4, v5, elicit, `{"mode":"url","url":"u","elicitationId":"e"}`, ``},
		{"3.4 tools", v4, v5, sample, `{"messages":[],"tools":[{"name":"a","outputSchema":{"type":"object"}}],"toolChoice":{"mode":"auto"}}`, ``},
		{"3.4 tools with output", v4, v5, sample, `{"messages":[],"tools":[{"name":"a","outputSchema":{"type":"null"}}]}`,
			`{"messages":[],"tools":[{"name":"a","outputSchema":{"type":"object","properties":{"result":{"type":"null"}},"required":["result"]}}]}`},
		{"3.4 tools for a modern client", v5, v4, sample, `{"messages":[],"tools":[{"name":"a","execution":{}}]}`, `{"messages":[],"tools":[{"name":"a"}]}`},
		{"3.4 output of tools", v4, v5, sample,
			`{"messages":[{"role":"user","content":[{"type":"tool_result","toolUseId":"1","content":[],"structuredContent":[1]},` + hello + `]},{"role":"user","content":{"type":"tool_result","structuredContent":{"a":1.0}}}]}`,
			`{"messages":[{"role":"user","content":[{"type":"tool_result","toolUseId":"1","content":[],"structuredContent":{"result":[1]}},` + hello + `]},{"role":"user","content":{"type":"tool_result","structuredContent":{"a":1.0}}}]}`},
		{"3.4 several blocks", v3, v5, sample, `{"messages":[{"role":"user","content":[` + hello + `, ` + audio + `]},{"content":[` + hello + `],"role":"user"},{"role":"user","content":[]}],"maxTokens":9}`,
			`{"messages":[{"role":"user","content":` + hello + `},{"role":"user","content":` + audio + `},{"content":` + hello + `,"role":"user"},{"role":"user","content":{"type":"text","text":""}}],"maxTokens":9}`},
		{"3.4 audio cannot be embedded in sampling", v1, v4, sample, `{"messages":[{"role":"user","content":` + audio + `}]}`,
			`{"messages":[{"role":"user","content":{"type":"text","annotations":{"priority":0.50},"text":"[audio of type audio/wav, 6 bytes]"}}]}`},
		{"3.4 one block is fine", v1, v4, sample, `{"messages":[{"role":"user","content":` + hello + `},{"role":"user"}]}`, ``},
		{"a task is dropped for a client without", v3, v4, sample, `{"task":{},"messages":[]}`, `{"messages":[]}`},
		{"other questions of the legacy era", v1, v4, "ping", `{}`, ``},
		{"the same revision", v3, v3, elicit, form(`"a":{"type":"array"}`), ``},
		{"the same modern revision", v5, v5, elicit, `{"elicitationId":"e"}`, ``},
	} {
		q := request(t, c.method, c.in)
		got, refusal := route(c.client, c.server).ServerRequest(q)
		if refusal != nil {
			t.Errorf("%s: %v", c.name, refusal)
			continue
		}
		c.expect(t, q, got, got.Params(), nil)
		if again, refusal := route(c.client, c.server).ServerRequest(got); refusal != nil || again != got {
			t.Errorf("%s: twice is %s, %v", c.name, again, refusal)
		}
	}
}

func TestQuestionThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	const notFound, invalid = protocol.CodeMethodNotFound, protocol.CodeInvalidParams
	for _, c := range []struct {
		row
		code int
	}{
		{row{"3.4 elicitation", v1, v5, elicit, form(``), "speaks 2024-11-05 and cannot ask its user"}, notFound},
		{row{"3.4 elicitation, legacy server", v2, v4, elicit, form(``), "speaks 2025-03-26 and cannot ask its user"}, notFound},
		{row{"3.4 a URL", v3, v5, elicit, `{"mode":"url","url":"u"}`, "cannot send its user to a URL"}, invalid},
		{row{"3.4 a URL with escapes", v3, v4, elicit, `{"mode":"\u0075rl","url":"u"}`, "cannot send its user to a URL"}, invalid},
		{row{"a mode of the future", v4, v5, elicit, `{"mode":"song"}`, `in mode "song"`}, invalid},
		{row{"a mode that is none", v5, v4, elicit, `{"mode":1}`, `in mode 1`}, invalid},
		{row{"3.4 several choices", v3, v5, elicit, form(`"b":{"type":"string"},"a":{"type":"array","items":{"type":"string","enum":["x"]}}`), `field "a" of the form: it asks for several choices`}, invalid},
		{row{"choices that are no words", v3, v5, elicit, form(`"a":{"type":"string","oneOf":[{"const":1}]}`), "not all words"}, invalid},
		{row{"no choices", v3, v5, elicit, form(`"a":{"type":"string","oneOf":[]}`), "not all words"}, invalid},
		{row{"an object in a form", v3, v5, elicit, form(`"a":{"type":"object"}`), "neither a text"}, invalid},
		{row{"a field that is no schema", v3, v5, elicit, form(`"a":true`), "not an object"}, invalid},
		{row{"3.4 tools", v3, v5, sample, `{"messages":[],"tools":[]}`, "cannot offer tools"}, invalid},
		{row{"3.4 a choice of tools", v1, v4, sample, `{"messages":[],"toolChoice":{}}`, "cannot offer tools"}, invalid},
		{row{"3.4 use of a tool", v3, v5, sample, `{"messages":[{"role":"user","content":{"type":"tool_use"}}]}`, "cannot show tool_use"}, invalid},
		{row{"3.4 result of a tool", v3, v4, sample, `{"messages":[{"role":"user","content":[{"type":"tool_result"}]}]}`, "cannot show tool_result"}, invalid},
		{row{"a question that the modern era lacks", v5, v4, "ping", `{}`, `cannot be asked "ping"`}, notFound},
		{row{"a question that nobody knows", v5, v4, "x/y", `{}`, `cannot be asked "x/y"`}, notFound},
	} {
		got, refusal := route(c.client, c.server).ServerRequest(request(t, c.method, c.in))
		if got != nil || refusal == nil || refusal.Code != c.code || !strings.Contains(refusal.Message, c.want) {
			t.Errorf("%s: got %s, %v, want %d %q", c.name, got, refusal, c.code, c.want)
		}
	}
}

func TestVisitGetsAnID(t *testing.T) {
	t.Parallel()
	q := request(t, elicit, `{"mode":"url","message":"m","url":"u"}`)
	seen := make(map[string]bool)
	for range 100 {
		got, refusal := route(v4, v5).ServerRequest(q)
		if refusal != nil {
			t.Fatal(refusal)
		}
		id := string(got.Get("elicitationId"))
		if seen[id] || !regexp.MustCompile(`^"[A-Z2-7]{26,}"$`).MatchString(id) {
			t.Fatalf("id %s", id)
		}
		seen[id] = true
	}
}

// Whatever a plain form accepts, the form that the server wrote accepts too.
func TestAnswerToAPlainFormIsOneToTheRichForm(t *testing.T) {
	t.Parallel()
	rich := form(`"a":{"type":"string","default":"r","oneOf":[{"const":"r","title":"Red"},{"const":"g","title":"Green"}]},"b":{"type":"integer","default":3}`)
	got, refusal := route(v3, v5).ServerRequest(request(t, elicit, rich))
	if refusal != nil {
		t.Fatal(refusal)
	}
	var plain struct {
		RequestedSchema struct {
			Properties struct {
				A struct{ Enum []string }
			}
		}
	}
	if err := json.Unmarshal(got.Params(), &plain); err != nil || len(plain.RequestedSchema.Properties.A.Enum) != 2 {
		t.Fatalf("%s: %v", got, err)
	}
	for _, choice := range plain.RequestedSchema.Properties.A.Enum {
		if !strings.Contains(rich, `"const":"`+choice+`"`) {
			t.Errorf("%q was no choice", choice)
		}
		answer := result(t, `{"action":"accept","content":{"a":"`+choice+`"}}`)
		if back, err := route(v3, v5).Answer(elicit, answer); err != nil || back != answer {
			t.Errorf("got %s, %v", back, err)
		}
	}
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range []row{
		{"an answer is bare", v5, v4, elicit, `{"resultType":"complete","action":"accept","content":{"n":1.0}}`, `{"action":"accept","content":{"n":1.0}}`},
		{"also up", v4, v5, "roots/list", `{"roots":[],"resultType":"complete","x":1}`, `{"roots":[],"x":1}`},
		{"3.4 audio", v4, v1, sample, `{"role":"assistant","content":` + audio + `,"model":"m"}`,
			`{"role":"assistant","content":{"type":"text","annotations":{"priority":0.50},"text":"[audio of type audio/wav, 6 bytes]"},"model":"m"}`},
		{"3.4 audio is fine", v5, v2, sample, `{"content":` + audio + `}`, ``},
		{"3.4 one block in a list", v5, v3, sample, `{"content":[ ` + hello + ` ],"model":"m"}`, `{"content":` + hello + `,"model":"m"}`},
		{"3.4 several blocks", v4, v3, sample, `{"content":[` + hello + `,{"type":"image","data":"AAAA","mimeType":"image/png"}]}`,
			`{"content":{"type":"text","text":"hello\n[image of type image/png, 3 bytes]"}}`},
		{"3.4 no block", v4, v3, sample, `{"content":[]}`, `{"content":{"type":"text","text":""}}`},
		{"3.4 several blocks are fine", v5, v4, sample, `{"content":[` + hello + `,` + hello + `]}`, ``},
		{"no content", v4, v3, sample, `{"model":"m"}`, ``},
		{"no object", v4, v5, sample, `null`, ``},
		{"the same revision", v5, v5, sample, `{"resultType":"x"}`, ``},
	} {
		resp := result(t, c.in)
		got, err := route(c.client, c.server).Answer(c.method, resp)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		c.expect(t, resp, got, got.Result(), nil)
	}
	refused := parse(t, `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}`)
	if got, err := route(v4, v5).Answer(sample, refused); err != nil || got != refused {
		t.Errorf("got %s, %v", got, err)
	}
}
