package dragoman_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

func TestEdit(t *testing.T) {
	const head = `{"jsonrpc":"2.0","id":1,"method":"m"`
	type edit = dragoman.Edit
	cases := []struct {
		name, before string
		edit         func(*edit)
		after        string
	}{
		{"nothing", head + `,"params":{"a":1}}`, func(e *edit) {}, head + `,"params":{"a":1}}`},
		{"set", head + `,"params":{"a":1, "b" : 2 ,"c":3}}`, func(e *edit) { e.Set("b", []byte(`[]`)) }, head + `,"params":{"a":1, "b" : [] ,"c":3}}`},
		{"set a known one", head + `,"params":{"name":"x"}}`, func(e *edit) { e.Set("name", []byte(`"y"`)) }, head + `,"params":{"name":"y"}}`},
		{"set a new one", head + `,"params":{ "a":1}}`, func(e *edit) { e.Set("b", []byte(`2`)) }, head + `,"params":{"b":2, "a":1}}`},
		{"set several", head + `,"params":{"a":1}}`, func(e *edit) { e.Set("b", []byte(`2`)).Set("a", []byte(`3`)).Set("c", []byte(`4`)) }, head + `,"params":{"b":2,"c":4,"a":3}}`},
		{"set in an empty object", head + `,"params":{ }}`, func(e *edit) { e.Set("b", []byte(`2`)) }, head + `,"params":{"b":2 }}`},
		{"set without params", head + ` }`, func(e *edit) { e.Set("b", []byte(`2`)) }, head + ` ,"params":{"b":2}}`},
		{"set a name with quotes", head + `}`, func(e *edit) { e.Set("a\"\\\n\x01é", []byte(`2`)) }, head + `,"params":{"a\"\\\n\u0001é":2}}`},
		{"set an escaped name", head + `,"params":{"\u0061":1}}`, func(e *edit) { e.Set("a", []byte(`2`)) }, head + `,"params":{"\u0061":2}}`},
		{"set what only looks like an escaped name", head + `,"params":{"\u0061":1}}`, func(e *edit) { e.Set(`\u0061`, []byte(`2`)) }, head + `,"params":{"\\u0061":2,"\u0061":1}}`},
		{"set to nil", head + `,"params":{"a":1}}`, func(e *edit) { e.Set("a", nil) }, head + `,"params":{}}`},
		{"the last change counts", head + `,"params":{"a":1}}`, func(e *edit) { e.Drop("a").Set("a", []byte("2")).Set("b", []byte("1")).Drop("b") }, head + `,"params":{"a":2}}`},

		{"drop the first", head + `,"params":{ "a":1 , "b":2}}`, func(e *edit) { e.Drop("a") }, head + `,"params":{ "b":2}}`},
		{"drop the last", head + `,"params":{"a":1 , "b":2 }}`, func(e *edit) { e.Drop("b") }, head + `,"params":{"a":1  }}`},
		{"drop the middle", head + `,"params":{"a":1, "b":2 ,"c":3}}`, func(e *edit) { e.Drop("b") }, head + `,"params":{"a":1, "c":3}}`},
		{"drop the only", head + `,"params":{ "a":1 }}`, func(e *edit) { e.Drop("a") }, head + `,"params":{  }}`},
		{"drop first and last", head + `,"params":{"a":1,"b":2,"c":3}}`, func(e *edit) { e.Drop("a", "c") }, head + `,"params":{"b":2}}`},
		{"drop the last two", head + `,"params":{"a":1,"b":2,"c":3}}`, func(e *edit) { e.Drop("c", "b") }, head + `,"params":{"a":1}}`},
		{"drop all", head + `,"params":{"a":1 , "b":2,"name":3}}`, func(e *edit) { e.Drop("name", "a", "b") }, head + `,"params":{}}`},
		{"drop all and set", head + `,"params":{"a":1,"b":2}}`, func(e *edit) { e.Drop("a", "b").Set("c", []byte("3")) }, head + `,"params":{"c":3}}`},
		{"drop one and set one", head + `,"params":{"a":1,"b":2}}`, func(e *edit) { e.Drop("b").Set("c", []byte("3")) }, head + `,"params":{"c":3,"a":1}}`},
		{"drop an absent one", head + `,"params":{"a":1}}`, func(e *edit) { e.Drop("b", "name") }, head + `,"params":{"a":1}}`},
		{"drop without params", head + `}`, func(e *edit) { e.Drop("b").DropMeta("c") }, head + `}`},

		{"set in _meta", head + `,"params":{"_meta":{"x" : 1}}}`, func(e *edit) { e.SetMeta("x", []byte("2")).SetMeta("y", []byte("3")) }, head + `,"params":{"_meta":{"y":3,"x" : 2}}}`},
		{"set the progress token", head + `,"params":{"_meta":{"progressToken":"a"}}}`, func(e *edit) { e.SetMeta("progressToken", []byte("7")) }, head + `,"params":{"_meta":{"progressToken":7}}}`},
		{"set in an absent _meta", head + `,"params":{"a":1}}`, func(e *edit) { e.SetMeta("x", []byte("1")).SetMeta("y", []byte("2")) }, head + `,"params":{"_meta":{"x":1,"y":2},"a":1}}`},
		{"set in _meta and params", head + `,"params":{"_meta":{},"a":1}}`, func(e *edit) { e.SetMeta("x", []byte("1")).Set("b", []byte("2")).Drop("a") }, head + `,"params":{"b":2,"_meta":{"x":1}}}`},
		{"set in _meta without params", head + `}`, func(e *edit) { e.SetMeta("x", []byte("1")) }, head + `,"params":{"_meta":{"x":1}}}`},
		{"set in a _meta that is null", head + `,"params":{"_meta":null,"a":1}}`, func(e *edit) { e.SetMeta("x", []byte("1")) }, head + `,"params":{"_meta":{"x":1},"a":1}}`},
		{"drop from _meta", head + `,"params":{"_meta":{"x":1,"y":2}}}`, func(e *edit) { e.DropMeta("x", "z") }, head + `,"params":{"_meta":{"y":2}}}`},
		{"drop all of _meta", head + `,"params":{"_meta":{"x":1}}}`, func(e *edit) { e.DropMeta("x") }, head + `,"params":{"_meta":{}}}`},
		{"drop _meta", head + `,"params":{"_meta":{"x":1},"a":1}}`, func(e *edit) { e.Drop("_meta") }, head + `,"params":{"a":1}}`},
		{"set _meta whole", head + `,"params":{"_meta":{"x":1}}}`, func(e *edit) { e.Set("_meta", []byte(` {"y":2}`)) }, head + `,"params":{"_meta": {"y":2}}}`},
		{"set a _meta that was absent", head + `}`, func(e *edit) { e.Set("_meta", []byte(`{}`)) }, head + `,"params":{"_meta":{}}}`},
		{"white space around", " \n" + head + ",\n \"params\" : { \"_meta\" : { \"x\" : 1 } } }\n", func(e *edit) { e.SetMeta("x", []byte("2")) }, head + ",\n \"params\" : { \"_meta\" : { \"x\" : 2 } } }"},

		{"set in a result", `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`, func(e *edit) { e.Set("resultType", []byte(`"complete"`)) }, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[]}}`},
		{"set what a result has twice", `{"jsonrpc":"2.0","id":1,"result":{"x":1,"y":2,"x":3}}`, func(e *edit) { e.Set("x", []byte(`4`)) }, `{"jsonrpc":"2.0","id":1,"result":{"x":4,"y":2}}`},
		{"drop what a result has twice", `{"jsonrpc":"2.0","id":1,"result":{"x":1,"\u0078":2}}`, func(e *edit) { e.Drop("x") }, `{"jsonrpc":"2.0","id":1,"result":{}}`},
		{"what is behind the result stays", `{"result":{"a":1},"x":[1],"id":1,"jsonrpc":"2.0"}`, func(e *edit) { e.Drop("a") }, `{"result":{},"x":[1],"id":1,"jsonrpc":"2.0"}`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := peertest.Parse(t, c.before)
			before := m.String()
			e := m.Edit()
			c.edit(e)
			got, err := e.Message()
			if err != nil {
				t.Fatal(err)
			}
			if got.String() != c.after {
				t.Errorf("got  %s\nwant %s", got, c.after)
			}
			if m.String() != before {
				t.Errorf("the message itself became %s", m)
			}
			// With another id at the same time, all else is the same.
			e = m.WithID(dragoman.StringID("new")).Edit()
			c.edit(e)
			got, err = e.Message()
			if err != nil {
				t.Fatal(err)
			}
			if want := strings.Replace(c.after, `"id":1`, `"id":"new"`, 1); got.String() != want || got.ID() != dragoman.StringID("new") {
				t.Errorf("with an id: got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestEditThatCannotBe(t *testing.T) {
	const request = `{"jsonrpc":"2.0","id":1,"method":"m","params":{"name":"x","_meta":{}}}`
	type edit = dragoman.Edit
	cases := []struct {
		name, message string
		edit          func(*edit)
		want          string
	}{
		{"error response", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}`, func(e *edit) { e.Set("a", []byte("1")) }, "an error response has no result to edit"},
		{"_meta of an error response", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}`, func(e *edit) { e.DropMeta("a") }, "an error response has no result to edit"},
		{"result that is no object", `{"jsonrpc":"2.0","id":1,"result":[1]}`, func(e *edit) { e.Set("a", []byte("1")) }, "the result to edit is not an object"},
		{"result that is null", `{"jsonrpc":"2.0","id":1,"result":null}`, func(e *edit) { e.SetMeta("a", []byte("1")) }, "the result to edit is not an object"},
		{"value that is not JSON", request, func(e *edit) { e.Set("a", []byte("01")) }, `new value of "a" is not JSON: more text behind the value at byte 1`},
		{"value with members behind it", request, func(e *edit) { e.Set("a", []byte(`1,"b":2`)) }, `new value of "a" is not JSON: more text behind the value at byte 1`},
		{"value that closes the object", request, func(e *edit) { e.SetMeta("a", []byte(`1},"b":{}`)) }, `new value of "a" is not JSON`},
		{"empty value", request, func(e *edit) { e.Set("a", []byte{}) }, `new value of "a" is not JSON: unexpected end`},
		{"value that is not UTF-8", request, func(e *edit) { e.Set("a", []byte("\"\xff\"")) }, `invalid UTF-8`},
		{"value that is too deep", request, func(e *edit) { e.Set("a", []byte(nested("", 127, ""))) }, "nested deeper"},
		{"_meta and its members", request, func(e *edit) { e.Drop("_meta").SetMeta("a", []byte("1")) }, "changes _meta and members of it"},
		{"_meta that is no object", request, func(e *edit) { e.Set("_meta", []byte("1")) }, "_meta must be an object"},
		{"name that can be mistaken", request, func(e *edit) { e.Set("Name", []byte("1")) }, `can be mistaken for "name"`},
		{"half a pair", request, func(e *edit) { e.Set("name", []byte(`"\ud800"`)) }, "half a surrogate pair"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			e := peertest.Parse(t, c.message).Edit()
			c.edit(e)
			m, err := e.Message()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, %v; want an error with %q", m, err, c.want)
			}
		})
	}
	deep := peertest.Parse(t, request).Edit().Set("a", []byte(nested("", 126, "")))
	if _, err := deep.Message(); err != nil {
		t.Errorf("126 levels in params: %v", err)
	}
}

func TestWithID(t *testing.T) {
	cases := []struct{ name, before, id, after string }{
		{"number for string", `{"jsonrpc":"2.0", "id" : "abc" ,"method":"m"}`, "7", `{"jsonrpc":"2.0", "id" : 7 ,"method":"m"}`},
		{"string for number", `{"id":1,"jsonrpc":"2.0","result":{}}`, `"a\u0062"`, `{"id":"a\u0062","jsonrpc":"2.0","result":{}}`},
		{"error response", `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x","more":[1]}}`, "1", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x","more":[1]}}`},
		{"error response without an id", `{ "jsonrpc":"2.0","error":{"code":1.0,"message":"x","more":[1]}}`, "1", `{"id":1, "jsonrpc":"2.0","error":{"code":1.0,"message":"x","more":[1]}}`},
		{"notification", `{"jsonrpc":"2.0","method":"m"}`, "1", `{"id":1,"jsonrpc":"2.0","method":"m"}`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			id, ok := dragoman.ParseID([]byte(c.id))
			if !ok {
				t.Fatal(c.id)
			}
			m := peertest.Parse(t, c.before)
			got := m.WithID(dragoman.IntID(99)).WithID(id)
			if got.String() != c.after || got.ID() != id || got.Len() != len(c.after) || string(got.AppendTo([]byte("x"))) != "x"+c.after {
				t.Errorf("got  %s with %d bytes\nwant %s", got, got.Len(), c.after)
			}
			if string(m.AppendWithID(nil, id)) != c.after {
				t.Errorf("AppendWithID gives %s", m.AppendWithID(nil, id))
			}
			again := peertest.Parse(t, got.String())
			if again.ID() != id || again.Kind() != got.Kind() || again.IsError() != got.IsError() || again.Method() != got.Method() {
				t.Errorf("read back it is a %v with id %v", again.Kind(), again.ID())
			}
			if b, err := json.Marshal(got); err != nil || !json.Valid(b) {
				t.Errorf("json.Marshal gives %s, %v", b, err)
			}
			if m.String() != c.before {
				t.Errorf("the message itself became %s", m)
			}
		})
	}
}

func TestOneLine(t *testing.T) {
	text := []byte("{\n\r\"a\":\"\\n\"\n}\n")
	dragoman.OneLine(text)
	if want := "{  \"a\":\"\\n\" } "; string(text) != want {
		t.Errorf("got %q, want %q", text, want)
	}
}
