package toollist_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/wire/toollist"
)

func TestSchemaNamesTheArgumentsThatHeadersRepeat(t *testing.T) {
	for _, test := range []struct {
		name, schema string
		want         []toollist.ParamHeader
	}{
		{"none", `{"type":"object","properties":{"a":{"type":"string"}}}`, nil},
		{"each type, in order", `{"properties":{
			"z":{"type":"string","x-mcp-header":"Region"},
			"n":{"x-mcp-header":"Count","type":"integer"},
			"b":{"type":"boolean","x-mcp-header":"Method"}}}`,
			[]toollist.ParamHeader{{"Region", []string{"z"}, "string"}, {"Count", []string{"n"}, "integer"}, {"Method", []string{"b"}, "boolean"}}},
		{"nested", `{"properties":{"a":{"type":"object","properties":{"b.c":{"properties":{"d":{"type":"string","x-mcp-header":"D"}}}}}}}`,
			[]toollist.ParamHeader{{"D", []string{"a", "b.c", "d"}, "string"}}},
		{"every character of a token", "{\"properties\":{\"a\":{\"type\":\"string\",\"x-mcp-header\":\"!#$%&'*+-.^_`|~09azAZ\"}}}",
			[]toollist.ParamHeader{{"!#$%&'*+-.^_`|~09azAZ", []string{"a"}, "string"}}},
		{"spelt with escapes", `{"properties":{"\u0061":{"type":"string","x\u002dmcp-header":"A"}}}`,
			[]toollist.ParamHeader{{"A", []string{"a"}, "string"}}},
		{"an argument of that name", `{"properties":{"x-mcp-header":{"type":"string"},"properties":{"type":"string","x-mcp-header":"P"}}}`,
			[]toollist.ParamHeader{{"P", []string{"properties"}, "string"}}},
		{"values are no schemas", `{"properties":{"a":{"default":{"x-mcp-header":"A"},"const":{"x-mcp-header":1},"enum":[{"x-mcp-header":""}],"examples":[[{"x-mcp-header":""}]]}}}`, nil},
		{"a definition of that name", `{"$defs":{"x-mcp-header":{"type":"string"}},"patternProperties":{"x-mcp-header":true}}`, nil},
		{"something twice, but nothing asked for", `{"type":"object","type":"object","title":"x-mcp-header"}`, nil},
		{"no object", `["x-mcp-header"]`, nil},
		{"a schema that is true", `{"properties":{"a":true,"x-mcp-header":false}}`, nil},
		{"properties that are none", `{"properties":["x-mcp-header"],"$defs":null}`, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := toollist.ParamHeaders([]byte(test.schema))
			if err != nil || !reflect.DeepEqual(got, test.want) {
				t.Errorf("ParamHeaders is %v, %v, want %v", got, err, test.want)
			}
		})
	}
}

func TestS15_InvalidAnnotationIsExplained(t *testing.T) {
	const ok = `{"type":"string","x-mcp-header":"A"}`
	below := func(keyword, schema string) string {
		return `{"properties":{"good":{"type":"string","x-mcp-header":"Good"},"a":{"` + keyword + `":` + schema + `}}}`
	}
	type test struct{ name, schema, where, why string }
	tests := []test{
		{"empty", `{"properties":{"a":{"type":"string","x-mcp-header":""}}}`, "properties.a", "empty"},
		{"with a space", `{"properties":{"a":{"type":"string","x-mcp-header":"a b"}}}`, "properties.a", `"a b"`},
		{"with a line end", `{"properties":{"a":{"type":"string","x-mcp-header":"a\r\nb"}}}`, "properties.a", `"a\r\nb"`},
		{"not ASCII", `{"properties":{"a":{"type":"string","x-mcp-header":"é"}}}`, "properties.a", "header name"},
		{"a number", `{"properties":{"a":{"type":"string","x-mcp-header":5}}}`, "properties.a", "not a string"},
		{"null", `{"properties":{"a":{"type":"string","x-mcp-header":null}}}`, "properties.a", "not a string"},
		{"an object", `{"properties":{"a":{"type":"string","x-mcp-header":{"a":["b"]}}}}`, "properties.a", "not a string"},
		{"twice", `{"properties":{"a":` + ok + `,"b":{"properties":{"c":{"type":"string","x-mcp-header":"a"}}}}}`, "properties.b.properties.c", "argument a has too"},
		{"on a number", `{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}`, "properties.a", "type"},
		{"on an array", `{"properties":{"a":{"type":"array","x-mcp-header":"A"}}}`, "properties.a", "type"},
		{"on several types", `{"properties":{"a":{"type":["string","null"],"x-mcp-header":"A"}}}`, "properties.a", "type"},
		{"on no type", `{"properties":{"a":{"x-mcp-header":"A"}}}`, "properties.a", "type"},
		{"on the root", ok, "its root", "not on a property"},
		{"type twice", `{"properties":{"a":{"type":"string","type":"integer","x-mcp-header":"A"}}}`, "properties.a.type", "twice"},
		{"property twice", `{"properties":{"a":` + ok + `,"a":{"type":"object"}}}`, "properties.a", "twice"},
		{"not JSON", `{"x-mcp-header":`, "", "not valid JSON"},
	}
	for _, keyword := range []string{"items", "not", "if", "then", "else", "additionalProperties", "additionalItems", "contains", "propertyNames",
		"unevaluatedItems", "unevaluatedProperties", "contentSchema", "anything"} {
		tests = append(tests, test{"below " + keyword, below(keyword, ok), "properties.a." + keyword, "properties alone"})
	}
	for _, keyword := range []string{"oneOf", "anyOf", "allOf", "prefixItems", "items"} {
		tests = append(tests, test{"in " + keyword, below(keyword, "[true,"+ok+"]"), "properties.a." + keyword, "properties alone"})
	}
	for _, keyword := range []string{"$defs", "definitions", "patternProperties", "dependentSchemas"} {
		tests = append(tests, test{"in " + keyword, below(keyword, `{"x":`+ok+`}`), "properties.a." + keyword + ".x", "properties alone"})
	}
	tests = append(tests, test{"properties below items", below("items", `{"properties":{"x":`+ok+`}}`), "properties.a.items.properties.x", "properties alone"})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := toollist.ParamHeaders([]byte(test.schema))
			if err == nil {
				t.Fatalf("ParamHeaders is %v, want an error", got)
			}
			if text := err.Error(); !strings.Contains(text, test.where) || !strings.Contains(text, test.why) {
				t.Errorf("the error %q does not say %q and %q", text, test.where, test.why)
			}
		})
	}
}

func TestS04_HostileSchemasCostLittle(t *testing.T) {
	nest := func(n int, open, inner, end string) string {
		return strings.Repeat(open, n) + inner + strings.Repeat(end, n)
	}
	long := strings.Repeat("n", 1<<20)
	many := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"p%d":{"type":"string","x-mcp-header":"H%d"},`, i, i)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	for _, test := range []struct {
		name, schema string
		ok           bool
	}{
		{"as deep as allowed", nest(63, `{"properties":{"a":`, `{"type":"string","x-mcp-header":"A"}`, `}}`), true},
		{"too deep", nest(64, `{"properties":{"a":`, `{"type":"string","x-mcp-header":"A"}`, `}}`), false},
		{"far too deep", nest(4000, `{"anyOf":[`, `{"x-mcp-header":"A"}`, `]}`), false},
		{"too deep for any reader", nest(1<<20, `[`, `"x-mcp-header"`, `]`), false},
		{"deep inside a value", `{"properties":{"a":{"type":"string","x-mcp-header":"A","default":` + nest(5000, `[`, ``, `]`) + `}}}`, true},
		{"many arguments below a long name", `{"properties":{"` + long + `":{"properties":{` + many(100) + `}}}}`, true},
		{"as many headers as allowed", `{"properties":{` + many(128) + `}}`, true},
		{"too many headers", `{"properties":{` + many(20_000) + `}}`, false},
		{"many members", `{"properties":{` + strings.ReplaceAll(many(20_000), "x-mcp-header", "title") + `,"a":{"type":"string","x-mcp-header":"A"}}}`, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := toollist.ParamHeaders([]byte(test.schema))
			if (err == nil) != test.ok {
				t.Errorf("ParamHeaders: %v", err)
			}
			if err != nil && len(err.Error()) > 1000 {
				t.Errorf("the error is %d bytes long", len(err.Error()))
			}
		})
	}
}

func TestArgumentIsReadAtItsPath(t *testing.T) {
	for _, test := range []struct {
		name, path, arguments string
		want                  string
		present, ok           bool
	}{
		{"a string", "a", `{"a":"eu\u002dnorth"}`, "eu-north", true, true},
		{"an empty string", "a", `{"a":""}`, "", true, true},
		{"an integer", "a", ` { "b" : [1,{"a":2}] , "a" : -7 } `, "-7", true, true},
		{"an integer with a fraction of zero", "a", `{"a":42.0}`, "42", true, true},
		{"an integer with an exponent", "a", `{"a":1.5E+3}`, "1500", true, true},
		{"the largest integer", "a", `{"a":9007199254740991}`, "9007199254740991", true, true},
		{"minus zero", "a", `{"a":-0}`, "0", true, true},
		{"true", "a", `{"a":true}`, "true", true, true},
		{"false", "a", `{"a":false}`, "false", true, true},
		{"nested", "a/b", `{"b":1,"a":{"a":2,"b":"x"},"c":{"b":3}}`, "x", true, true},
		{"null", "a", `{"a":null}`, "", false, true},
		{"absent", "a", `{"A":"x"}`, "", false, true},
		{"absent below", "a/b", `{"a":{}}`, "", false, true},
		{"nothing below a string", "a/b", `{"a":"b"}`, "", false, true},
		{"nothing below an array", "a/b", `{"a":[{"b":1}],"b":2}`, "", false, true},
		{"nothing below null", "a/b", `{"a":null}`, "", false, true},
		{"no arguments", "a", ``, "", false, true},
		{"arguments that are null", "a", `null`, "", false, true},
		{"arguments that are no object", "a", `["a"]`, "", false, true},
		{"twice", "a", `{"a":"x","a":"x"}`, "", false, false},
		{"twice, in another spelling", "a", `{"a":"x","\u0061":"y"}`, "", false, false},
		{"twice above", "a/b", `{"a":{"b":1},"a":{}}`, "", false, false},
		{"twice elsewhere", "a", `{"b":1,"b":2,"a":"x"}`, "x", true, true},
		{"a fraction", "a", `{"a":1.5}`, "", false, false},
		{"an integer that not all can hold", "a", `{"a":9007199254740992}`, "", false, false},
		{"an exponent beyond all", "a", `{"a":1e999999999999999999999}`, "", false, false},
		{"zero with such an exponent", "a", `{"a":0e999999999999999999999}`, "0", true, true},
		{"an exponent just below all", "a", `{"a":1e-999999999999999999999}`, "", false, false},
		{"an object", "a", `{"a":{}}`, "", false, false},
		{"an array", "a", `{"a":["x"]}`, "", false, false},
		{"broken", "a", `{"a":"x"`, "", false, false},
		{"broken elsewhere", "a", `{"b":[1,`, "", false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := toollist.ParamHeader{Name: "Region", Path: strings.Split(test.path, "/")}
			value, present, err := p.Value([]byte(test.arguments))
			if value != test.want || present != test.present || (err == nil) != test.ok {
				t.Errorf("Value is %q, %t, %v, want %q, %t", value, present, err, test.want, test.present)
			}
		})
	}
	if got := (toollist.ParamHeader{Name: "Region"}).Header(); got != "Mcp-Param-Region" {
		t.Errorf("the header is %q", got)
	}
}

func TestHeaderEqualsTheBody(t *testing.T) {
	for _, test := range []struct {
		header, body, typ string
		want              bool
	}{
		{"x", "x", "string", true},
		{"X", "x", "string", false},
		{"42.0", "42", "string", false},
		{"42", "42", "integer", true},
		{"42.0", "42", "integer", true},
		{"4.2e1", "42", "integer", true},
		{"0.42E2", "42", "integer", true},
		{"420e-1", "42", "integer", true},
		{"-0", "0", "integer", true},
		{"42.5", "42", "integer", false},
		{"42.00000000000000000001", "42", "integer", false},
		{"042", "42", "integer", false},
		{"+42", "42", "integer", false},
		{"0x2a", "42", "integer", false},
		{"42 ", "42", "integer", false},
		{"-42", "42", "integer", false},
		{"", "42", "integer", false},
		{"NaN", "42", "integer", false},
		{"9007199254740993", "9007199254740992", "integer", false},
		{"1e99", "42", "integer", false},
		{"true", "true", "boolean", true},
		{"True", "true", "boolean", false},
		{"1", "true", "boolean", false},
	} {
		if got := toollist.Equal(test.header, test.body, test.typ); got != test.want {
			t.Errorf("Equal(%q, %q, %s) is %t", test.header, test.body, test.typ, got)
		}
	}
}

// Integers are compared as math/big would.
func FuzzEqual(f *testing.F) {
	for _, s := range []string{"42", "42.0", "4.2e1", "420e-1", "-0", "0.0e5", "1e-1", "00", "1e400", "9007199254740991.0"} {
		f.Add(s, int64(42))
	}
	f.Fuzz(func(t *testing.T, header string, n int64) {
		const maxSafe = 1<<53 - 1
		if n %= maxSafe + 1; len(header) > 20 || strings.ContainsAny(header, "eE") && len(header) > 6 {
			return // an exponent that big.Rat would take long for
		}
		var number json.Number
		want := false
		if json.Unmarshal([]byte(header), &number) == nil && string(number) == header {
			r, ok := new(big.Rat).SetString(header)
			want = ok && r.Cmp(new(big.Rat).SetInt64(n)) == 0
		}
		if got := toollist.Equal(header, strconv.FormatInt(n, 10), "integer"); got != want {
			t.Errorf("Equal(%q, %d) is %t", header, n, got)
		}
	})
}

// Whatever a schema is, its headers can be sent, and their arguments be read.
func FuzzParamHeaders(f *testing.F) {
	f.Add([]byte(`{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}`), []byte(`{"a":1}`))
	f.Add([]byte(`{"properties":{"a":{"properties":{"b":{"type":"integer","x-mcp-header":"B"}}}}}`), []byte(`{"a":{"b":1.0}}`))
	f.Add([]byte(`{"items":[{"x-mcp-header":"A"}]}`), []byte(`{`))
	f.Fuzz(func(t *testing.T, schema, arguments []byte) {
		found, err := toollist.ParamHeaders(schema)
		if err != nil && found != nil {
			t.Errorf("both %v and %v", found, err)
		}
		seen := make(map[string]bool)
		for _, p := range found {
			if seen[strings.ToLower(p.Name)] || p.Name == "" || len(p.Path) == 0 {
				t.Errorf("%q of %q", p.Name, p.Path)
			}
			seen[strings.ToLower(p.Name)] = true
			value, present, err := p.Value(arguments)
			if err == nil && present && json.Valid(arguments) && !toollist.Equal(value, value, p.Type) {
				t.Errorf("%q is not equal to itself", value)
			}
		}
	})
}
