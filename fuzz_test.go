package dragoman_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
)

// messages are right ones of all kinds, to start the fuzz targets from.
var messages = []string{
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hé","n":1e3},"_meta":{"progressToken":7}}}`,
	`{"jsonrpc":"2.0","id":"a\u0062","method":"resources/read","params":{"uri":"file:///x","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","x":{}}}}`,
	`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"c"},"io.modelcontextprotocol/clientCapabilities" : {}, "io.modelcontextprotocol/logLevel":"info","progressToken":"p"}}}`,
	` { "params" : { "n\u0061me" : "x" , "x" : [ ] , "y" : { } } , "method" : "m" , "id" : -12345678901234567890 , "jsonrpc" : "2.0" } `,
	`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
	`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":0.5,"_meta":null}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"\ud83d\ude00 \ud800"}],"x":1,"x":2,"_meta":{}}}`,
	`{"jsonrpc":"2.0","id":"","result":[null,true,false,-0.0E-1]}`,
	`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no","data":{"reason":"x"}}}`,
	`{"jsonrpc":"2.0","error":{"code":1,"message":""},"extra":[[[]]]}`,
	"{\n\t\"jsonrpc\": \"2.0\",\r\n\t\"id\": 0,\n\t\"method\": \"ping\",\n\t\"params\": { }\n}",
	`{"method":"tools/list","jsonrpc":"2.0","id":1}`,
	`{"params":{"_meta":{}},"jsonrpc":"2.0","method":"tools/list","id":"last"}`,
}

func FuzzParse(f *testing.F) {
	for _, m := range messages {
		f.Add([]byte(m))
	}
	for _, c := range refused {
		if len(c.text) < 1<<10 {
			f.Add([]byte(c.text))
		}
	}
	for _, c := range grammar {
		f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":{"arguments":` + c.value + `}}`))
		f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":` + c.value + `}`))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		want := refParse(data)
		got, err := dragoman.Parse(data)
		want.compare(t, data, got, err)
	})
}

// An editStep is one call on an Edit.
type editStep struct {
	meta  bool
	name  string
	value string // "" drops
}

// editSteps makes steps of fuzzed bytes: each takes three of them.
func editSteps(script []byte, m *refMessage) (steps []editStep) {
	names := []string{"name", "_meta", "x", "y", "progressToken", "resultType", "Name", `a"\b`, "", "é", "n\\u0061me", "io.modelcontextprotocol/clientInfo"}
	values := []string{"", "", "1", `"new"`, ` { "a" : [ ] } `, "null", `"\ud800"`, "01", `1,"z":2`}
	for _, v := range slices.Concat(m.members, m.meta) {
		names = append(names, v.name)
	}
	for ; len(script) >= 3 && len(steps) < 8; script = script[3:] {
		steps = append(steps, editStep{script[0]%2 == 1, names[int(script[1])%len(names)], values[int(script[2])%len(values)]})
	}
	return steps
}

// FuzzEdit applies random changes. What comes out must be what was asked for,
// and what was not asked for must have kept its bytes and its order.
func FuzzEdit(f *testing.F) {
	for i, m := range messages {
		f.Add([]byte(m), byte(i), []byte{0, 2, 2, 1, 3, 3})
		f.Add([]byte(m), byte(i), []byte{0, 0, 0, 0, 12, 0, 0, 13, 0, 0, 14, 0, 1, 13, 3})
		f.Add([]byte(m), byte(0), []byte{1, 0, 0, 1, 12, 0, 1, 13, 0, 1, 14, 0, 0, 7, 4})
	}
	f.Fuzz(func(t *testing.T, data []byte, newID byte, script []byte) {
		before := refParse(data)
		if before.code != 0 {
			return
		}
		m, err := dragoman.Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		id := ""
		if newID != 0 {
			m = m.WithID(dragoman.StringID(string(rune(newID))))
			id = m.ID().String()
		}
		steps := editSteps(script, &before)
		got, err := applySteps(m.Edit(), steps)
		text, ok := refEdit(&before, id, steps)
		want := refParse([]byte(text))
		if possible := ok && want.code == 0; possible != (err == nil) {
			t.Fatalf("%q: edit %+v gave %v, %v\nwant %s", data, steps, got, err, text)
		}
		if err == nil {
			after := refParse(got.Bytes())
			after.compare(t, got.Bytes(), got, nil)
			sameMembers(t, &after, &want)
			sameAround(t, &before, string(data), &after, string(got.Bytes()))
		}
		if m.Len() != len(m.Bytes()) || string(m.AppendTo([]byte("x"))) != "x"+m.String() {
			t.Fatalf("%q: Len is %d, the message %s", data, m.Len(), m)
		}
	})
}

func applySteps(e *dragoman.Edit, steps []editStep) (*dragoman.Message, error) {
	for _, s := range steps {
		switch {
		case s.meta && s.value == "":
			e.DropMeta(s.name)
		case s.meta:
			e.SetMeta(s.name, []byte(s.value))
		case s.value == "":
			e.Drop(s.name)
		default:
			e.Set(s.name, []byte(s.value))
		}
	}
	return e.Message()
}

// refEdit returns a text with the members that the edited message must have,
// and false if such an edit is not possible.
func refEdit(m *refMessage, id string, steps []editStep) (string, bool) {
	body, meta := lastOfEach(steps, false), lastOfEach(steps, true)
	for _, s := range slices.Concat(body, meta) {
		if s.value != "" && !json.Valid([]byte(s.value)) {
			return "", false
		}
	}
	if len(steps) > 0 && (m.failed || m.body.value != "" && m.body.value[0] != '{') {
		return "", false
	}
	if s, ok := refStep(body, "_meta"); ok {
		if len(meta) > 0 || s.value != "" && strings.TrimSpace(s.value)[0] != '{' {
			return "", false
		}
	}
	if inner := refApply(m.meta, meta); len(meta) > 0 && (m.meta != nil || len(inner) > 0) {
		body = append(body, editStep{name: "_meta", value: refCompose(inner)})
	}
	envelope := m.envelope
	bodyAt := slices.IndexFunc(envelope, func(v refMember) bool { return v.start == m.body.start && m.body.value != "" })
	if members := refApply(m.members, body); len(steps) > 0 && bodyAt >= 0 {
		envelope = slices.Clone(envelope)
		envelope[bodyAt].value = refCompose(members)
	} else if len(members) > 0 && bodyAt < 0 {
		envelope = append(slices.Clone(envelope), refMember{name: "params", value: refCompose(members)})
	}
	if id != "" {
		envelope = refApply(envelope, []editStep{{name: "id", value: id}})
	}
	return refCompose(envelope), true
}

// lastOfEach returns the steps that count, at the place of the first of that
// name.
func lastOfEach(steps []editStep, meta bool) (list []editStep) {
	for _, s := range steps {
		if s.meta != meta {
			continue
		}
		if i := slices.IndexFunc(list, func(old editStep) bool { return old.name == s.name }); i >= 0 {
			list[i] = s
		} else {
			list = append(list, s)
		}
	}
	return list
}

func refStep(steps []editStep, name string) (editStep, bool) {
	i := slices.IndexFunc(steps, func(s editStep) bool { return s.name == name })
	if i < 0 {
		return editStep{}, false
	}
	return steps[i], true
}

// refApply returns the members that an object has after the steps.
func refApply(old []refMember, steps []editStep) (list []refMember) {
	for _, s := range steps {
		if _, has := refFind(old, s.name); !has && s.value != "" {
			list = append(list, refMember{name: s.name, value: s.value})
		}
	}
	placed := map[string]bool{}
	for _, v := range old {
		s, changed := refStep(steps, v.name)
		switch {
		case !changed:
			list = append(list, v)
		case s.value != "" && !placed[v.name]:
			list = append(list, refMember{name: v.name, value: s.value})
			placed[v.name] = true
		}
	}
	return list
}

func refCompose(list []refMember) string {
	parts := make([]string, len(list))
	for i, v := range list {
		name, err := json.Marshal(v.name)
		if err != nil {
			panic(err)
		}
		parts[i] = string(name) + ":" + v.value
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// sameMembers compares the three levels of a message. An object that was edited
// may have another text than the wanted one, so those are compared by members.
func sameMembers(t *testing.T, got, want *refMessage) {
	t.Helper()
	levels := []struct {
		what      string
		got, want []refMember
		inner     string // compared on its own
	}{
		{"envelope", got.envelope, want.envelope, want.bodyName()},
		{"body", got.members, want.members, "_meta"},
		{"_meta", got.meta, want.meta, ""},
	}
	for _, l := range levels {
		if len(l.got) != len(l.want) {
			t.Fatalf("%s has members %v, want %v", l.what, l.got, l.want)
		}
		for i, w := range l.want {
			g := l.got[i]
			object := g.value[0] == '{' && w.value[0] == '{'
			if g.name != w.name || g.value != w.value && !(object && w.name == l.inner) {
				t.Fatalf("%s has %q: %s, want %q: %s", l.what, g.name, g.value, w.name, w.value)
			}
		}
	}
}

func (m *refMessage) bodyName() string {
	switch {
	case m.kind != dragoman.Response:
		return "params"
	case m.failed:
		return "error"
	}
	return "result"
}

// sameAround compares what lies around the body, white space included.
func sameAround(t *testing.T, a *refMessage, before string, b *refMessage, after string) {
	t.Helper()
	if a.id == b.id && a.body.value != "" {
		before = before[:a.body.start] + before[a.body.end:]
		after = after[:b.body.start] + after[b.body.end:]
		if strings.Trim(before, " \t\r\n") != after {
			t.Fatalf("around the body is %s, was %s", after, before)
		}
	}
}
