package adapt_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

var fuzzMethods = []string{call, "tools/list", "prompts/get", "resources/read", "x/y"}

// adapted are the members of a result that a method's adaptation may change.
var adapted = map[string][]string{
	call:          {"content", "structuredContent"},
	"tools/list":  {"tools"},
	"prompts/get": {"messages"},
}

// A pair is a member of an object with its bytes.
type pair struct{ name, value string }

// pairs reads an object by means that the package does not use.
func pairs(t *testing.T, obj []byte) (list []pair) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(obj))
	if tok, err := d.Token(); err != nil || tok != json.Delim('{') {
		return nil
	}
	for d.More() {
		var value json.RawMessage
		name, err := d.Token()
		if err == nil {
			err = d.Decode(&value)
		}
		if err != nil {
			t.Fatalf("%s: %v", obj, err)
		}
		list = append(list, pair{name.(string), string(value)})
	}
	return list
}

func less(list []pair, names ...string) []pair {
	return slices.DeleteFunc(slices.Clone(list), func(p pair) bool { return slices.Contains(names, p.name) })
}

func find(list []pair, name string) string {
	for _, p := range slices.Backward(list) {
		if p.name == name {
			return p.value
		}
	}
	return ""
}

// checkResponse adapts a result and checks what holds for any.
func checkResponse(t *testing.T, body []byte, method string, client, server protocol.Revision) {
	t.Helper()
	resp, err := dragoman.Parse(slices.Concat([]byte(`{"jsonrpc":"2.0","id":"i","result":`), body, []byte(`}`)))
	if err != nil || resp.Kind() != dragoman.Response {
		return
	}
	r := route(client, server)
	got, err := r.Response(method, resp, []byte(`{"name":"s"}`))
	if client == server && got != resp {
		t.Fatalf("%s changed %s", client, body)
	}
	if err != nil {
		return
	}
	where := fmt.Sprintf("%s, client %s, server %s\n%s\n%s", method, client, server, body, got)
	if again, err := dragoman.Parse(got.Bytes()); err != nil || again.Kind() != dragoman.Response || again.ID() != resp.ID() {
		t.Fatalf("%s: no response: %v", where, err)
	}
	if again, err := r.Response(method, got, []byte(`{"name":"s"}`)); err != nil || again.String() != got.String() {
		t.Fatalf("%s: twice is %s, %v", where, again, err)
	}
	tags := append([]string{"resultType", "ttlMs", "cacheScope", "_meta"}, adapted[method]...)
	before, after := pairs(t, resp.Result()), pairs(t, got.Result())
	if !slices.Equal(less(before, tags...), less(after, tags...)) {
		t.Fatalf("%s: unknown members did not pass", where)
	}
	const info = protocol.MetaServerInfo
	if !slices.Equal(less(pairs(t, []byte(find(before, "_meta"))), info), less(pairs(t, []byte(find(after, "_meta"))), info)) {
		t.Fatalf("%s: members of _meta did not pass", where)
	}
	if len(after) > 0 && client.TagsResults() != (find(after, "resultType") != "") && client.Era() != server.Era() {
		t.Fatalf("%s: tags", where)
	}
	if method == call {
		checkContent(t, where, after, client, server)
	}
}

// checkContent checks that a result of a tool has nothing that the client does
// not know.
func checkContent(t *testing.T, where string, after []pair, client, server protocol.Revision) {
	t.Helper()
	if client == server {
		return
	}
	structured := find(after, "structuredContent")
	if structured != "" && !client.HasStructuredContent() || server.TagsResults() && !client.TagsResults() && structured != "" && structured[0] != '{' {
		t.Fatalf("%s: structured content", where)
	}
	var content []json.RawMessage
	if json.Unmarshal([]byte(find(after, "content")), &content) != nil {
		return
	}
	for _, block := range content {
		switch find(pairs(t, block), "type") {
		case `"audio"`:
			if !client.HasAudio() {
				t.Fatalf("%s: audio", where)
			}
		case `"resource_link"`:
			if !client.HasResourceLinks() {
				t.Fatalf("%s: a link", where)
			}
		}
	}
}

func FuzzResponse(f *testing.F) {
	for _, s := range []string{
		`{"content":[` + audio + `,` + linked + `,` + hello + `],"structuredContent":[1],"isError":false,"x":1e400}`,
		`{"resultType":"complete","content":[],"structuredContent":{"a":1},"_meta":{"x/y":[1.0],"io.modelcontextprotocol/serverInfo":{}}}`,
		`{"tools":[{"name":"a","outputSchema":{"type":"array","items":{"$ref":"#/a"}},"execution":{}},7]}`,
		`{"messages":[{"role":"user","content":` + audio + `}],"ttlMs":1}`,
		`{"content":[{"t\u0079pe":"\u0061udio"}],"content":[` + linked + `]}`, `null`, `[]`, `{ "content" : "x" , "structuredContent" : null }`,
	} {
		for i := range fuzzMethods {
			f.Add([]byte(s), uint8(i), uint8(i), uint8(i+1))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, method, client, server uint8) {
		revs := protocol.Revisions()
		checkResponse(t, body, fuzzMethods[int(method)%len(fuzzMethods)], revs[int(client)%len(revs)], revs[int(server)%len(revs)])
	})
}

// TestRandomResults makes results of known and unknown parts, for every method
// and route.
func TestRandomResults(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	g := generator{rand.New(rand.NewPCG(seed, 1))}
	for range 300 {
		method := fuzzMethods[g.IntN(len(fuzzMethods))]
		body := []byte(g.result(method))
		for _, client := range protocol.Revisions() {
			for _, server := range protocol.Revisions() {
				checkResponse(t, body, method, client, server)
			}
		}
	}
}

// A generator makes random JSON text.
type generator struct{ *rand.Rand }

func (g generator) pick(list ...string) string { return list[g.IntN(len(list))] }

func (g generator) result(method string) string {
	members := []string{`"resultType":"complete"`, g.named("ttlMs"), `"cacheScope":"public"`, `"_meta":` + g.object(2, g.named(protocol.MetaServerInfo), g.named("a/b")),
		g.named("x"), g.named("y"), g.named("nextCursor")}
	switch method {
	case call:
		members = append(members, `"content":`+g.list(g.block), g.named("structuredContent"), `"isError":true`)
	case "tools/list":
		members = append(members, `"tools":`+g.list(g.tool))
	case "prompts/get":
		members = append(members, `"messages":`+g.list(func() string { return g.object(1, `"role":"user"`, `"content":`+g.block()) }))
	}
	return g.object(1, members...)
}

// object joins about all but one in skip of the members, in any order.
func (g generator) object(skip int, members ...string) string {
	g.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	members = slices.DeleteFunc(members, func(string) bool { return g.IntN(4) < skip })
	return g.pick("{", "{ ", "{\n") + strings.Join(members, g.pick(",", " , ", ",\t")) + g.pick("}", " }")
}

func (g generator) named(name string) string { return `"` + name + `":` + g.value(2) }

func (g generator) list(element func() string) string {
	list := make([]string, g.IntN(4))
	for i := range list {
		list[i] = element()
	}
	return g.pick("[", "[ ") + strings.Join(list, g.pick(",", " ,", ", ")) + "]"
}

func (g generator) value(depth int) string {
	if depth > 0 && g.IntN(2) == 0 {
		if g.IntN(2) == 0 {
			return g.list(func() string { return g.value(depth - 1) })
		}
		return g.object(1, `"a":`+g.value(depth-1), `"type":`+g.value(0), `"\u0062\"":`+g.value(depth-1))
	}
	return g.pick(`null`, `true`, `1.0`, `-1e+400`, `12345678901234567890`, `""`, `"audio"`, `"\"resource_link\""`, `"\u0061\\"`, `"é"`)
}

func (g generator) block() string {
	return g.object(1, `"type":`+g.pick(`"text"`, `"audio"`, `"resource_link"`, `"\u0061udio"`, `"x"`), `"text":"{}"`, `"data":"AAAA"`, g.named("mimeType"), g.named("uri"), g.named("x"))
}

func (g generator) tool() string {
	return g.object(1, `"name":"a"`, g.named("execution"), `"outputSchema":`+g.pick(`{"type":"object"}`, `{"type":"array","items":{"$ref":"#"}}`, `{}`, `true`, g.value(2)), g.named("x"))
}
