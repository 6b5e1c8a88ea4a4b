package signature_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/cli/signature"
)

const readFile = `{"type":"object","required":["path"],"additionalProperties":false,"properties":{
	"path":{"type":"string"}, "limit":{"type":"integer"}, "ratio":{"type":["number","null"],"default":0.5}, "deep":{"type":"boolean"},
	"tags":{"type":"array","items":{"type":"string"}}, "sizes":{"type":"array","items":{"$ref":"#/$defs/size"}},
	"mode":{"enum":["r","w"],"default":"r"}, "where":{"anyOf":[{"type":"object"},{"type":"null"}]}, "zip":{"type":["string","integer"]}, "x":{}},
	"$defs":{"size":{"type":"integer"}}}`

func TestASignatureShowsHowAToolIsCalled(t *testing.T) {
	for _, test := range []struct{ schema, want string }{
		{readFile, "f(path:str, limit:int?, ratio:num=0.5, deep:bool?, tags:[str]?, sizes:[int]?, mode:r|w=r, where:obj?, zip:str|int?, x:any?)"},
		{`{"type":"object"}`, "f()"},
		{`true`, "f()"},
		{``, "f()"},
		{`{"properties":{"b":{"$ref":"#/$defs/loop"},"a":{"type":"string"}},"required":["a"],"$defs":{"loop":{"$ref":"#/$defs/loop"}}}`, "f(a:str, b:any?)"},
		{`{"properties":{"e":{"enum":[1,2,3,4,5,6]},"s":{"const":"two words"},"d":{"type":"string","default":"a very long default value"}}}`, `f(e:int?, s:"two words"?, d:str?)`},
		{`{"properties":{"p":{"allOf":[{"type":"integer"}]},"o":{"properties":{"q":{}}}}}`, "f(p:int?, o:obj?)"},
	} {
		if got := signature.New("f", json.RawMessage(test.schema)).String(); got != test.want {
			t.Errorf("%s\n got %s\nwant %s", test.schema, got, test.want)
		}
	}
}

func TestWordsHaveTheTypeThatTheSchemaSays(t *testing.T) {
	for _, test := range []struct{ words, want string }{
		{"path=a", `{"path":"a"}`},
		{"path=10 limit=10 ratio=1e3 deep=true", `{"deep":true,"limit":10,"path":"10","ratio":1e3}`},
		{"path= zip=10001", `{"path":"","zip":"10001"}`},
		{"path=a=b x=1", `{"path":"a=b","x":"1"}`},
		{"path=a x:=1", `{"path":"a","x":1}`},
		{"path=a ratio=null", `{"path":"a","ratio":null}`},
		{"path=a tags=x tags=y", `{"path":"a","tags":["x","y"]}`},
		{`path=a tags=["x","y"] sizes=3`, `{"path":"a","sizes":[3],"tags":["x","y"]}`},
		{`path=a where={"b":1}`, `{"path":"a","where":{"b":1}}`},
		{"path=a mode=w", `{"mode":"w","path":"a"}`},

		{"limit=1", "path is missing: f(path:str"},
		{"path=a limit=1.5", `limit cannot be "1.5": it is int`},
		{"path=a limit=1e999999999", `limit cannot be`},
		{"path=a limit=", `limit cannot be`},
		{"path=a deep=yes", "deep cannot be"},
		{"path=a path=b", "path is given twice"},
		{"path=a sizes=x", "sizes cannot be"},
		{"path=a x:=oops", "x is not JSON; for a text write x="},
		{"path=a where=b", "where cannot be"},
		{"path=a pth=b", "there is no argument pth: f(path:str"},
		{"path", "not of the form"},
		{"=a", "not of the form"},
	} {
		got, err := signature.New("f", json.RawMessage(readFile)).Arguments(nil, strings.Fields(test.words))
		text := string(got)
		if err != nil {
			text = err.Error()
		}
		if err == nil && text != test.want || err != nil && !strings.HasPrefix(text, test.want) && !strings.Contains(text, test.want) {
			t.Errorf("%s\n got %s\nwant %s", test.words, text, test.want)
		}
	}
}

func TestWordsGoOverJSON(t *testing.T) {
	tool := signature.New("f", json.RawMessage(readFile))
	got, err := tool.Arguments(json.RawMessage(`{"limit":1,"deep":true}`), []string{"limit=2"})
	if err != nil || string(got) != `{"deep":true,"limit":2}` {
		t.Errorf("got %s, %v", got, err)
	}
	for _, bad := range []string{"[]", "null", "1", "{"} {
		if got, err := tool.Arguments(json.RawMessage(bad), nil); err == nil {
			t.Errorf("%s is taken as %s", bad, got)
		}
	}
}

func FuzzWordsMakeAnObject(f *testing.F) {
	f.Add(readFile, "limit=1", "path=a")
	f.Add(`{"properties":{"a":{"$ref":"#/definitions/a"}},"definitions":{"a":{"anyOf":[{"$ref":"#/definitions/a"}]}}}`, "a=1", "a:=2")
	f.Fuzz(func(t *testing.T, schema, a, b string) {
		tool := signature.New("f", json.RawMessage(schema))
		_ = tool.String()
		got, err := tool.Arguments(nil, []string{a, b})
		if err == nil && !(json.Valid(got) && got[0] == '{') {
			t.Errorf("%q", got)
		}
	})
}

func TestKeysThatTheSchemaDoesNotNameAreTold(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"object","properties":{"a":{}}}`:                               "c",
		`{"type":"object","properties":{}}`:                                     "a c",
		`{"type":"object","properties":{"a":{}},"additionalProperties":true}`:   "",
		`{"type":"object","properties":{"a":{}},"additionalProperties":{}}`:     "",
		`{"type":"object","properties":{"a":{}},"patternProperties":{"^c":{}}}`: "",
		`{"type":"object","anyOf":[{"properties":{"c":{}}}],"properties":{}}`:   "",
		`{}`: "",
	} {
		if got := strings.Join(signature.New("f", json.RawMessage(schema)).Unknown([]string{"a=1", "c=2", "c:=3"}), " "); got != want {
			t.Errorf("%s: %q, want %q", schema, got, want)
		}
	}
	_, err := signature.New("f", json.RawMessage(`{"type":"object","properties":{"message":{}},"required":["message"]}`)).Arguments(nil, []string{"msg=hi"})
	if want := "message is missing, and there is no msg: f("; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}
