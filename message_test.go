package dragoman_test

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

func TestE04_NumberAndStringIdsComeBackAsTheyWere(t *testing.T) {
	for _, text := range []string{
		`0`, `1`, `-1`, `-0`, `9007199254740993`, `18446744073709551615`, `12345678901234567890`, `-99999999999999999999`,
		`""`, `"1"`, `"abc"`, `"a b"`, `"\u0061"`, `"\"\\\/\n"`, `"é"`, `"\u0000"`, `"\ud83d\ude00"`, `"null"`, `"` + strings.Repeat("x", 1000) + `"`,
	} {
		req := peertest.Parse(t, `{"jsonrpc":"2.0","id": `+text+` ,"method":"m"}`)
		if req.ID().String() != text {
			t.Errorf("id %s was read as %s", text, req.ID())
		}
		resp, err := req.Reply(map[string]any{})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []*dragoman.Message{resp, req.Fail(&dragoman.Error{Code: 1, Message: "x"}), resp.WithID(dragoman.IntID(5)).WithID(req.ID())} {
			if again := peertest.Parse(t, m.String()); again.ID() != req.ID() {
				t.Errorf("id %s comes back as %s", text, again.ID())
			}
		}
		if id, ok := dragoman.ParseID([]byte(text)); !ok || id != req.ID() || id.Clone() != id {
			t.Errorf("ParseID(%s) is %s, %t", text, id, ok)
		}
		if b, err := json.Marshal(req.ID()); err != nil || string(b) != text {
			t.Errorf("json.Marshal of %s gives %s, %v", text, b, err)
		}
	}
}

func TestA04_ResponsesCarryTheIdOfTheirRequest(t *testing.T) {
	req, err := dragoman.NewRequest(dragoman.StringID("r-1"), "tools/call", json.RawMessage(`{"name":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	ok, err := req.Reply(nil)
	if err != nil {
		t.Fatal(err)
	}
	failed := req.Fail(&dragoman.Error{Code: -32603, Message: "no"})
	_, err = dragoman.Parse([]byte(`{"jsonrpc":"2.0","id":"r-1","method":7}`))
	var p *dragoman.ParseError
	if !errors.As(err, &p) {
		t.Fatal(err)
	}
	for _, m := range []*dragoman.Message{ok, failed, p.Response()} {
		if m.Kind() != dragoman.Response || m.ID() != req.ID() {
			t.Errorf("%s does not carry the id", m)
		}
	}
}

func TestE05_ErrorsPassUnchanged(t *testing.T) {
	const text = `{"jsonrpc":"2.0","id":7,"error":{"code":-32010,"message":"out of paper","data":{"reason":"tray \u0031 empty","n":1.50},"more":null}}`
	m := peertest.Parse(t, text)
	if m.String() != text {
		t.Errorf("became %s", m)
	}
	if got, want := m.WithID(dragoman.StringID("c")).String(), strings.Replace(text, "7", `"c"`, 1); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	e := m.RPCError()
	if e.Code != -32010 || e.Message != "out of paper" || string(e.Data) != `{"reason":"tray \u0031 empty","n":1.50}` {
		t.Errorf("the error is %+v", e)
	}
	again := dragoman.NewFailure(dragoman.IntID(1), e)
	if string(again.RPCError().Data) != string(e.Data) {
		t.Errorf("data became %s", again.RPCError().Data)
	}
}

func TestOddErrorObjects(t *testing.T) {
	cases := []struct {
		object, message string
		code            int
	}{
		{`{"code":-1,"message":"x"}`, "x", -1},
		{`{"code":-32000.0,"message":"x"}`, "x", -32000},
		{`{"code":1e3,"message":"x"}`, "x", 1000},
		{`{"code":1.5,"message":"x"}`, "x", 0},
		{`{"code":"E1","message":"x"}`, "x", 0},
		{`{"code":null,"message":"x"}`, "x", 0},
		{`{"code":1e400,"message":"x"}`, "x", 0},
		{`{"code":99999999999999999999999,"message":"x"}`, "x", 0},
		{`{"Code":1,"message":"x","Message":"y"}`, "x", 0},
		{`{"c\u006fde":3,"m\u0065ssage":"\u0078"}`, "x", 3},
		{`{}`, "error without a message: {}", 0},
		{`{"code":2,"message":null}`, `error without a message: {"code":2,"message":null}`, 2},
		{`{"code":2,"message":{"x":1}}`, `error without a message: {"code":2,"message":{"x":1}}`, 2},
	}
	for _, c := range cases {
		m := peertest.Parse(t, `{"jsonrpc":"2.0","id":1,"error":`+c.object+`}`)
		if e := m.RPCError(); e.Code != c.code || e.Message != c.message {
			t.Errorf("%s: %d %q, want %d %q", c.object, e.Code, e.Message, c.code, c.message)
		}
		if m.Get("code") != nil || m.Get("name") != nil || m.Meta("x") != nil || m.Result() != nil || m.Params() != nil {
			t.Errorf("%s: an error response has a body", c.object)
		}
		if err := m.Decode(&struct{}{}); err != nil {
			t.Errorf("%s: %v", c.object, err)
		}
	}
	if e := peertest.Parse(t, messages[0]).RPCError(); e != nil {
		t.Errorf("a request has the error %v", e)
	}
}

func TestParseIDTakesOnlyIds(t *testing.T) {
	for _, text := range []string{
		``, ` `, `null`, `true`, `{}`, `[]`, `1.5`, `1e3`, `-`, `01`, `+1`, `1 `, ` 1`, `1,2`, `"a`, `"`, `"\`, `"\u`, `"\ud800"`, `"a"b`, `"a""b"`, "\"\xff\"", "\"\n\"", `abc`, "1\n",
	} {
		if id, ok := dragoman.ParseID([]byte(text)); ok || !id.IsZero() {
			t.Errorf("ParseID(%q) is %s", text, id)
		}
	}
}

func TestIDs(t *testing.T) {
	var zero dragoman.ID
	if !zero.IsZero() || zero.IsNull() || zero.String() != "" {
		t.Error("the zero ID is something")
	}
	if b, err := json.Marshal(zero); err != nil || string(b) != "null" {
		t.Errorf("the zero ID is encoded as %s, %v", b, err)
	}
	if !dragoman.NullID.IsNull() || dragoman.NullID.IsZero() {
		t.Error("NullID is not null")
	}
	if dragoman.IntID(1) == dragoman.StringID("1") {
		t.Error(`1 is "1"`)
	}
	for _, n := range []int64{0, -1, math.MaxInt64, math.MinInt64} {
		if got, ok := dragoman.IntID(n).Int(); !ok || got != n {
			t.Errorf("%d became %d, %t", n, got, ok)
		}
	}
	for _, id := range []dragoman.ID{dragoman.StringID("7"), dragoman.NullID, zero, peertest.Parse(t, `{"jsonrpc":"2.0","id":9223372036854775808,"method":"m"}`).ID()} {
		if n, ok := id.Int(); ok {
			t.Errorf("%v is the number %d", id, n)
		}
	}
	if id := dragoman.StringID("a\xffb\"\\\x00\n\u2028"); !json.Valid([]byte(id.String())) || id.String() != "\"a\ufffdb\\\"\\\\\\u0000\\n\u2028\"" {
		t.Errorf("StringID gives %s", id)
	}
}

func TestKeyMakesEqualIdsEqual(t *testing.T) {
	key := func(text string) dragoman.ID {
		id, ok := dragoman.ParseID([]byte(text))
		if !ok {
			t.Fatalf("%s is no id", text)
		}
		return id.Key()
	}
	for _, same := range [][]string{
		{`"a/b"`, `"a\/b"`, `"\u0061/b"`, `"\u0061\u002Fb"`, `"\u0061\u002fb"`},
		{`"\n"`, `"\u000a"`, `"\u000A"`},
		{`"😀"`, `"\ud83d\ude00"`, `"\uD83D\uDE00"`},
		{`"\\"`, `"\u005c"`},
		{`"\""`, `"\u0022"`},
	} {
		for _, text := range same[1:] {
			if key(text) != key(same[0]) {
				t.Errorf("the key of %s is %s, that of %s is %s", text, key(text), same[0], key(same[0]))
			}
			if key(text).Key() != key(text) {
				t.Errorf("the key of a key differs for %s", text)
			}
		}
	}
	for _, other := range []string{`"a"`, `1`, `"1"`, `""`} {
		if key(other).String() != other {
			t.Errorf("the key of %s is %s", other, key(other))
		}
	}
}

func TestKinds(t *testing.T) {
	for text, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"method":"m"}`:  "request",
		`{"jsonrpc":"2.0","method":"m"}`:         "notification",
		`{"jsonrpc":"2.0","id":1,"result":0}`:    "response",
		`{"jsonrpc":"2.0","id":null,"error":{}}`: "response",
	} {
		if got := peertest.Parse(t, text).Kind().String(); got != want {
			t.Errorf("%s is a %s, want %s", text, got, want)
		}
	}
	var m dragoman.Message
	if m.Kind().String() != "invalid" {
		t.Errorf("the zero message is %v", m.Kind())
	}
}

func TestReadingParts(t *testing.T) {
	m := peertest.Parse(t, `{"jsonrpc":"2.0","id":1,"method":"tools\/call","params":{"n\u0061me":"a\nb","uri":7,"x":[1],"\u0079":2,"_meta":{"progressToken":"p","\u007a":"s","n":1}}}`)
	for what, got := range map[string][2]string{
		"method":              {m.Method(), "tools/call"},
		"name":                {m.Name(), "a\nb"},
		"uri":                 {m.URI(), ""},
		"Get(uri)":            {string(m.Get("uri")), "7"},
		"Get(x)":              {string(m.Get("x")), "[1]"},
		"Get(y)":              {string(m.Get("y")), "2"},
		`Get(\u0079)`:         {string(m.Get(`\u0079`)), ""},
		"Meta(progressToken)": {string(m.Meta("progressToken")), `"p"`},
		"Meta(z)":             {string(m.Meta("z")), `"s"`},
		"MetaText(z)":         {m.MetaText("z"), "s"},
		"MetaText(n)":         {m.MetaText("n"), ""},
		"MetaText(absent)":    {m.MetaText("absent"), ""},
	} {
		if got[0] != got[1] {
			t.Errorf("%s is %q, want %q", what, got[0], got[1])
		}
	}
	var p struct {
		X []int `json:"x"`
	}
	if err := m.Decode(&p); err != nil || len(p.X) != 1 {
		t.Errorf("Decode: %v, %v", p, err)
	}
	if err := peertest.Parse(t, `{"jsonrpc":"2.0","method":"m"}`).Decode(&p); err != nil || len(p.X) != 1 {
		t.Errorf("Decode of nothing: %v, %v", p, err)
	}
	null := peertest.Parse(t, `{"jsonrpc":"2.0","method":"m","params":{"_meta":null}}`)
	if null.Meta("x") != nil || null.Meta("progressToken") != nil || string(null.Get("_meta")) != "null" {
		t.Error("a _meta that is null has members")
	}
	number := peertest.Parse(t, `{"jsonrpc":"2.0","id":1,"result":7}`)
	if number.Get("x") != nil || number.Get("name") != nil || number.Meta("x") != nil || string(number.Result()) != "7" {
		t.Error("a number has members")
	}
}

func TestWhatIsReturnedCannotGrowIntoTheMessage(t *testing.T) {
	m := peertest.Parse(t, messages[0])
	before := m.String()
	for _, part := range [][]byte{m.Params(), m.Get("arguments"), m.Meta("progressToken"), m.Bytes()} {
		_ = append(part, "garbage"...)
	}
	if m.String() != before {
		t.Errorf("the message became %s", m)
	}
}

func TestBuiltMessages(t *testing.T) {
	id := dragoman.IntID(1)
	type args struct {
		A string `json:"a"`
	}
	cases := []struct {
		name  string
		build func() (*dragoman.Message, error)
		want  string // "" if it must fail
	}{
		{"request", func() (*dragoman.Message, error) { return dragoman.NewRequest(id, "m", nil) }, `{"jsonrpc":"2.0","id":1,"method":"m"}`},
		{"request with text", func() (*dragoman.Message, error) { return dragoman.NewRequest(id, "m", []byte(" {\"a\": 1}\n")) }, `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a": 1}}`},
		{"request with a value", func() (*dragoman.Message, error) { return dragoman.NewRequest(id, "m", args{"<&>"}) }, `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"<&>"}}`},
		{"request with an odd method", func() (*dragoman.Message, error) { return dragoman.NewRequest(id, "a\"\n", nil) }, `{"jsonrpc":"2.0","id":1,"method":"a\"\n"}`},
		{"request with nil text", func() (*dragoman.Message, error) { return dragoman.NewRequest(id, "m", json.RawMessage(nil)) }, `{"jsonrpc":"2.0","id":1,"method":"m"}`},
		{"request without an id", func() (*dragoman.Message, error) { return dragoman.NewRequest(dragoman.ID{}, "m", nil) }, ""},
		{"request with id null", func() (*dragoman.Message, error) { return dragoman.NewRequest(dragoman.NullID, "m", nil) }, ""},
		{"request without a method", func() (*dragoman.Message, error) { return dragoman.NewRequest(id, "", nil) }, ""},
		{"request with params that are no object", func() (*dragoman.Message, error) { return dragoman.NewRequest(id, "m", []int{1}) }, ""},
		{"request with bad text", func() (*dragoman.Message, error) { return dragoman.NewRequest(id, "m", []byte(`{`)) }, ""},
		{"request with members behind the params", func() (*dragoman.Message, error) { return dragoman.NewRequest(id, "m", []byte(`{},"x":1`)) }, ""},
		{"request with a value that cannot be encoded", func() (*dragoman.Message, error) { return dragoman.NewRequest(id, "m", math.NaN()) }, ""},
		{"notification", func() (*dragoman.Message, error) {
			return dragoman.NewNotification("n", map[string]int{"b": 1, "a": 2})
		}, `{"jsonrpc":"2.0","method":"n","params":{"a":2,"b":1}}`},
		{"result", func() (*dragoman.Message, error) { return dragoman.NewResult(id, nil) }, `{"jsonrpc":"2.0","id":1,"result":{}}`},
		{"result with text", func() (*dragoman.Message, error) { return dragoman.NewResult(id, json.RawMessage(`[1, 2]`)) }, `{"jsonrpc":"2.0","id":1,"result":[1, 2]}`},
		{"result with empty text", func() (*dragoman.Message, error) { return dragoman.NewResult(id, []byte{}) }, ""},
		{"result without an id", func() (*dragoman.Message, error) { return dragoman.NewResult(dragoman.ID{}, nil) }, ""},
		{"result with an error behind it", func() (*dragoman.Message, error) { return dragoman.NewResult(id, []byte(`{},"x":{}`)) }, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m, err := c.build()
			switch {
			case c.want == "" && err == nil:
				t.Errorf("made %s", m)
			case c.want != "" && err != nil:
				t.Error(err)
			case c.want != "" && m.String() != c.want:
				t.Errorf("got  %s\nwant %s", m, c.want)
			case c.want == "" && m != nil:
				t.Errorf("returned %s with the error %v", m, err)
			}
		})
	}
}

func TestFailureIsAlwaysMade(t *testing.T) {
	for _, c := range []struct {
		id   dragoman.ID
		e    dragoman.Error
		want string
	}{
		{dragoman.IntID(1), dragoman.Error{Code: 1, Message: "a<b"}, `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"a<b"}}`},
		{dragoman.ID{}, dragoman.Error{Code: 1, Data: json.RawMessage(`1.0`)}, `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"","data":1.0}}`},
		{dragoman.NullID, dragoman.Error{Code: 1, Message: "bad data", Data: json.RawMessage(`{`)}, `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"bad data"}}`},
		{dragoman.IntID(1), dragoman.Error{Message: "deep data", Data: json.RawMessage(nested("", 200, ""))}, `{"jsonrpc":"2.0","id":1,"error":{"code":0,"message":"deep data"}}`},
		{dragoman.IntID(1), dragoman.Error{Message: "\xff"}, `{"jsonrpc":"2.0","id":1,"error":{"code":0,"message":"` + "\ufffd" + `"}}`},
	} {
		got := dragoman.NewFailure(c.id, &c.e).String()
		got = strings.ReplaceAll(got, `\ufffd`, "\ufffd") // Go 1.26 escapes it, Go 1.27 does not
		if got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

func TestErrors(t *testing.T) {
	if err := dragoman.Closed(nil); !errors.Is(err, dragoman.ErrClosed) || err.Error() != "dragoman: conversation closed" {
		t.Errorf("Closed(nil) is %v", err)
	}
	err := dragoman.Closed(io.EOF)
	if !errors.Is(err, dragoman.ErrClosed) || !errors.Is(err, io.EOF) || err.Error() != "dragoman: conversation closed: EOF" {
		t.Errorf("Closed(EOF) is %v", err)
	}
	if again := dragoman.Closed(err); again.Error() != err.Error() {
		t.Errorf("Closed of a closed error is %v", again)
	}
	if got := (&dragoman.Error{Code: -1, Message: "x"}).Error(); got != "MCP error -1: x" {
		t.Errorf("the error says %q", got)
	}
}

func TestElements(t *testing.T) {
	for text, want := range map[string][]string{
		`[]`:                            nil,
		" [ \n] ":                       nil,
		`[1]`:                           {"1"},
		` [ {"a":[1,2]} ,"x,]" , [] ] `: {`{"a":[1,2]}`, `"x,]"`, `[]`},
	} {
		parts, err := dragoman.Elements([]byte(text))
		if err != nil || len(parts) != len(want) {
			t.Errorf("%s: %q, %v", text, parts, err)
			continue
		}
		for i, part := range parts {
			if string(part) != want[i] || cap(part) != len(part) {
				t.Errorf("%s: element %d is %s", text, i, part)
			}
		}
	}
	for text, code := range map[string]int{
		``: -32600, ` `: -32600, `{}`: -32600, `1`: -32600,
		`[`: -32700, `[,]`: -32700, `[1`: -32700, `[1,`: -32700, `[1,]`: -32700, `[1 2]`: -32700, `[1}`: -32700, `[1]]`: -32700, `[] x`: -32700, "[\"\xff\"]": -32700,
		nested("", 129, ""): -32600,
	} {
		parts, err := dragoman.Elements([]byte(text))
		var p *dragoman.ParseError
		if parts != nil || !errors.As(err, &p) || p.Code != code {
			t.Errorf("%q: %q, %v; want code %d", text, parts, err, code)
		}
	}
}

func TestSpan(t *testing.T) {
	const message = " \n{\"a\":[1,-2.5e+3,true,\"é\\u00e9\\\\\"]}"
	for i := range len(message) {
		if got := dragoman.Span([]byte(message[:i])); got != 0 {
			t.Errorf("%q: %d, want 0, because more may come", message[:i], got)
		}
	}
	for _, behind := range []string{"", " ", "{", "\xff", "garbage"} {
		if got := dragoman.Span([]byte(message + behind)); got != len(message) {
			t.Errorf("%q: %d, want %d", message+behind, got, len(message))
		}
	}
	for _, text := range []string{"1", `"a"`, "x", "{x", "[1}", "{\"a\":\"\xff\xff\"}", "[01]", nested("", 129, "")} {
		if got := dragoman.Span([]byte(text)); got != -1 {
			t.Errorf("%q: %d, want -1", text, got)
		}
	}
}
