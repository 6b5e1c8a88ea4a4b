package jsonschema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/util/jsonschema"
)

const (
	of4    = `"$schema":"http://json-schema.org/draft-04/schema#",`
	of6    = `"$schema":"http://json-schema.org/draft-06/schema#",`
	of7    = `"$schema":"https://json-schema.org/draft-07/schema",`
	of2019 = `"$schema":"https://json-schema.org/draft/2019-09/schema",`
)

// TestEachKeyword has for each of them a value that fits and one that does not.
func TestEachKeyword(t *testing.T) {
	for _, test := range []struct {
		schema, fits, not string
		want              string // the error of what does not fit; if it is "", that fits as well
	}{
		{`{"type":"null"}`, `null`, `0`, "arguments is a number, not null"},
		{`{"type":["string","array"]}`, `[]`, `{}`, "arguments is an object, not a string or array"},
		{`{"type":"integer"}`, `1.0`, `1.5`, "arguments is a number, not an integer"},
		{`{"type":"number"}`, `1`, `true`, "arguments is a boolean, not a number"},
		{`{"const":{"a":[1,null]}}`, `{"a":[1.0,null]}`, `{"a":[1,false]}`, `arguments must be {"a":[1,null]}`},
		{`{"enum":[1,"a",[true]]}`, `[true]`, `[1]`, `arguments must be one of 1, "a", [true]`},
		{`{"minimum":-2}`, `-2`, `-2.1`, "arguments is less than -2"},
		{`{"maximum":2.5}`, `2.50`, `3`, "arguments is more than 2.5"},
		{`{"exclusiveMinimum":2}`, `2.01`, `2`, "arguments is not more than 2"},
		{`{"exclusiveMaximum":2}`, `1`, `2e0`, "arguments is not less than 2"},
		{`{` + of4 + `"minimum":2,"exclusiveMinimum":true}`, `3`, `2`, "arguments is not more than 2"},
		{`{` + of4 + `"maximum":2,"exclusiveMaximum":false}`, `2`, `3`, "arguments is more than 2"},
		{`{"multipleOf":0.01}`, `4.35`, `4.351`, "arguments is not a multiple of 0.01"},
		{`{"minLength":2}`, `"éé"`, `"é"`, "arguments has 1 characters; at least 2 are needed"},
		{`{"maxLength":2}`, `"éé"`, `"abc"`, "arguments has 3 characters; at most 2 are allowed"},
		{`{"pattern":"b+"}`, `"abc"`, `"ac"`, "arguments does not match the pattern b+"},
		{`{"minItems":1}`, `[0]`, `[]`, "arguments has 0 items; at least 1 are needed"},
		{`{"maxItems":1}`, `[0]`, `[0,0]`, "arguments has 2 items; at most 1 are allowed"},
		{`{"uniqueItems":true}`, `[1,"1",[1],{"a":1}]`, `[2,{"a":1,"b":[]},{"b":[],"a":1.0}]`, "arguments has the same item at 1 and 2"},
		{`{"prefixItems":[{"type":"string"}],"items":{"type":"null"}}`, `["",null]`, `[1,1]`, "arguments[0] is a number, not a string; arguments[1] is a number, not null"},
		{`{` + of2019 + `"items":[{"type":"string"}],"additionalItems":{"type":"null"}}`, `["",null]`, `["",1]`, "arguments[1] is a number, not null"},
		{`{` + of7 + `"items":[{}],"additionalItems":false}`, `[1]`, `[1,2]`, "arguments[1] is not allowed"},
		{`{` + of7 + `"items":{},"additionalItems":false}`, `[1]`, `[1,2]`, ""},
		{`{"contains":{"type":"null"}}`, `[1,null]`, `[1]`, "arguments has 0 items of the form that it must contain; at least 1 are needed"},
		{`{"contains":{"type":"null"},"minContains":0,"maxContains":1}`, `[]`, `[null,null]`, "arguments has 2 items of the form that it must contain; at most 1 are allowed"},
		{`{"unevaluatedItems":false,"prefixItems":[{}],"contains":{"type":"null"}}`, `[1,null]`, `[1,null,2]`, "arguments[2] is not allowed"},
		{`{` + of2019 + `"unevaluatedItems":false,"contains":{}}`, `0`, `[1]`, "arguments[0] is not allowed"},
		{`{"minProperties":1}`, `{"a":1}`, `{}`, "arguments has 0 members; at least 1 are needed"},
		{`{"maxProperties":0}`, `{}`, `{"a":1}`, "arguments has 1 members; at most 0 are allowed"},
		{`{"required":["b","a"]}`, `{"a":1,"b":1}`, `{}`, "arguments.b is missing; arguments.a is missing"},
		{`{"properties":{"b":false,"a":{"type":"null"}}}`, `{"a":null}`, `{"b":1,"a":2}`, "arguments.a is a number, not null; arguments.b is not allowed"},
		{`{"patternProperties":{"^x":{"type":"null"}},"additionalProperties":{"type":"string"}}`, `{"x1":null,"y":""}`, `{"x1":"","y":null}`, "arguments.x1 is a string, not null; arguments.y is null, not a string"},
		{`{"propertyNames":{"maxLength":1}}`, `{"a":1}`, `{"abc":1}`, "arguments.abc has a name that has 3 characters; at most 1 are allowed"},
		{`{"dependentRequired":{"a":["b"]}}`, `{"c":1}`, `{"a":1}`, "arguments.b is missing, and needed beside a"},
		{`{"dependentSchemas":{"a":{"maxProperties":1}}}`, `{"a":1}`, `{"a":1,"b":2}`, "arguments has 2 members; at most 1 are allowed"},
		{`{` + of7 + `"dependencies":{"a":["b"],"c":{"required":["d"]}}}`, `{"b":1}`, `{"a":1,"c":1}`, "arguments.b is missing, and needed beside a; arguments.d is missing"},
		{`{"unevaluatedProperties":false,"anyOf":[{"properties":{"a":{"type":"null"}}},{"properties":{"b":true}}]}`, `{"a":null,"b":1}`, `{"a":1,"b":1}`, "arguments.a is not allowed"},
		{`{"unevaluatedProperties":{"type":"null"},"if":{"required":["a"]},"then":{"properties":{"a":true}}}`, `{"a":1,"b":null}`, `{"b":1}`, "arguments.b is a number, not null"},
		{`{"unevaluatedProperties":false,"required":["a"]}`, `0`, `{"b":1}`, "arguments.a is missing"},
		{`{"allOf":[{"minimum":2},{"maximum":1}]}`, `""`, `1.5`, "arguments is less than 2; arguments is more than 1"},
		{`{"anyOf":[{"type":"null"},{"properties":{"a":{"anyOf":[{"type":"null"},{"const":1}]}}}]}`, `{"a":1}`, `{"a":2}`, "arguments fits none of the forms that are allowed: arguments is an object, not null, or arguments.a fits none of the forms that are allowed: arguments.a is a number, not null, or arguments.a must be 1"},
		{`{"oneOf":[{"minimum":2},{"maximum":3}]}`, `4`, `3`, "arguments fits more than one of the forms of which one is allowed"},
		{`{"not":{"type":"null"}}`, `0`, `null`, "arguments has a form that is not allowed"},
		{`{"if":{"type":"string"},"then":{"minLength":1},"else":{"const":0}}`, `"a"`, `1`, "arguments must be 0"},
		{`{"if":{"type":"string"},"then":{"minLength":1},"else":{"const":0}}`, `0`, `""`, "arguments has 0 characters; at least 1 are needed"},
		{`{"$ref":"#/$defs/a~1b%25","maximum":3,"$defs":{"a/b%":{"minimum":1}}}`, `2`, `4`, "arguments is more than 3"},
		{`{` + of7 + `"$ref":"#/definitions/a","maximum":3,"definitions":{"a":{"minimum":1}}}`, `4`, `0`, "arguments is less than 1"},
		{`{"$ref":"#here","$defs":{"a":{"$anchor":"here","type":"null"}}}`, `null`, `0`, "arguments is a number, not null"},
		{`{"$id":"https://example.com/a/b","$ref":"c","$defs":{"c":{"$id":"/a/c","$ref":"#/$defs/d","$defs":{"d":{"type":"null"}}}}}`, `null`, `0`, "arguments is a number, not null"},
		{`{` + of6 + `"$ref":"#here","definitions":{"a":{"$id":"#here","type":"null"}}}`, `null`, `0`, "arguments is a number, not null"},
		{`{` + of4 + `"$ref":"x","definitions":{"a":{"id":"x","type":"null"}}}`, `null`, `0`, "arguments is a number, not null"},
		{`{"$ref":"#/x","x":{"type":"null"}}`, `null`, `0`, "arguments is a number, not null"},
		{`{"properties":{"l":{"$ref":"#"},"v":{"type":"null"}}}`, `{"l":{"l":{"v":null}}}`, `{"l":{"l":{"v":0}}}`, "arguments.l.l.v is a number, not null"},
		{`{"$defs":{"unused":{"$ref":"https://example.com/"}},"type":"null"}`, `null`, `0`, "arguments is a number, not null"},
		{`false`, `0`, `0`, "arguments is not allowed"},

		{`{"minLength":1e30,"maxItems":1e30}`, `[1,2]`, `"a"`, "arguments has 1 characters; at least 2147483647 are needed"},
		{`{"uniqueItems":true}`, `[null,false,0,"",[],{}]`, `[null,0,-0.0]`, "arguments has the same item at 1 and 2"},

		// These say nothing.
		{`{"title":"","description":"","$comment":"","contentMediaType":"","contentSchema":{},"readOnly":true,"writeOnly":true,"deprecated":true,"examples":[],"default":1}`, `0`, `1`, ""},
		{`{"$schema":"http://json-schema.org/schema","$vocabulary":{"x":true},"$recursiveAnchor":"a","$dynamicAnchor":"b"}`, `0`, `1`, ""},
		{`{"format":"email","contentEncoding":"base64"}`, `"a@b"`, `"-"`, ""},
		{`{` + of7 + `"format":"ipv4"}`, `"1.2.3.4"`, `"-"`, ""},
		{`{` + of4 + `"const":1,"propertyNames":false,"if":true,"then":false}`, `1`, `{"a":2}`, ""},
		{`{"pattern":"^(?!x)"}`, `"y"`, `"x"`, ""},
		{`{"pattern":"(.)\\1","maxLength":1}`, `"y"`, `"xy"`, "arguments has 2 characters; at most 1 are allowed"},
		{`{"patternProperties":{"^(?!x)":false},"additionalProperties":false}`, `{}`, `{"x":1}`, ""},
		{`{"not":{"pattern":"^(?!x)"}}`, `"y"`, `"x"`, ""},
		{`{"not":{"not":{"pattern":"^(?!x)"}}}`, `"y"`, `"x"`, ""},
		{`{"not":{"pattern":"^(?!x)","maxLength":1}}`, `"y"`, `"xx"`, ""},
		{`{"oneOf":[{"pattern":"^(?!x)"},{"pattern":"(?=x)"}]}`, `"y"`, `"x"`, ""},
		{`{"oneOf":[{"pattern":"^(?!x)"},{"minLength":1},{"maxLength":1}]}`, `""`, `"x"`, "arguments fits more than one of the forms of which one is allowed"},
		{`{"if":{"pattern":"^(?!x)"},"then":false,"else":false}`, `"y"`, `"x"`, ""},
		{`{"contains":{"pattern":"^(?!x)"},"minContains":1,"maxContains":1}`, `["y",1,"x"]`, `["y",1,1]`, "arguments has 2 items of the form that it must contain; at most 1 are allowed"},
		{`{"$ref":"#"}`, `0`, `1`, ""},
		{`{"allOf":[{"$ref":"https://json-schema.org/draft/2020-12/schema"}],"type":"null"}`, `null`, `0`, "arguments is a number, not null"},
		{`{"allOf":[{"$ref":"https://json-schema.org/draft/2020-12/schema"}]}`, `{}`, `0`, ""},
		{`{` + of2019 + `"$recursiveRef":"#","maximum":1}`, `1`, `2`, ""},
	} {
		t.Run(test.schema, func(t *testing.T) {
			if err := jsonschema.Valid(json.RawMessage(test.schema)); err != nil {
				t.Fatal(err)
			}
			var c jsonschema.Checker
			if err := c.Check(json.RawMessage(test.schema), json.RawMessage(test.fits)); err != nil && test.fits != test.not {
				t.Errorf("%s does not fit: %v", test.fits, err)
			}
			err := c.Check(json.RawMessage(test.schema), json.RawMessage(test.not))
			if got := fmt.Sprint(err); err == nil && test.want != "" || err != nil && got != test.want {
				t.Errorf("Check(%s)\n got %v\nwant %s", test.not, err, test.want)
			}
		})
	}
}

func TestWhatIsWrongWithASchema(t *testing.T) {
	for _, test := range []struct{ schema, want string }{
		{`{`, "it is not JSON: unexpected EOF"},
		{`5`, "5 is not a schema"},
		{`{"properties":{"x":{"type":"strange"}}}`, `/properties/x/type: "strange" is not a type`},
		{`{"type":[]}`, "/type: [] is not a type"},
		{`{"type":["null","null"]}`, `/type: "null" is there twice`},
		{`{"type":{}}`, "/type: {} is not a type"},
		{`{"enum":1}`, "/enum: 1 is not a list"},
		{`{` + of7 + `"enum":[1,1.0]}`, "/enum: 1 is there twice"},
		{`{` + of7 + `"enum":[]}`, "/enum: there is nothing in the list"},
		{`{"enum":[[1e9999]]}`, "/enum: [0][0] is a number with more digits than can be checked"},
		{`{"const":1e9999}`, "/const: is a number with more digits than can be checked"},
		{`{"minimum":1e9999}`, "/minimum: is a number with more digits than can be checked"},
		{`{"minimum":"5"}`, `/minimum: "5" is not a number`},
		{`{"exclusiveMinimum":true}`, "/exclusiveMinimum: true is not a number"},
		{`{` + of4 + `"exclusiveMinimum":true}`, "/exclusiveMinimum: there is no limit that it is about"},
		{`{` + of4 + `"maximum":1,"exclusiveMaximum":5}`, "/exclusiveMaximum: 5 is not true or false"},
		{`{"multipleOf":0}`, "/multipleOf: 0 is not more than 0"},
		{`{"maxLength":-1}`, "/maxLength: -1 is not a whole number from 0 on"},
		{`{"minItems":1.5}`, "/minItems: 1.5 is not a whole number from 0 on"},
		{`{"pattern":"("}`, `/pattern: "(" is not a regular expression`},
		{`{"pattern":1}`, "/pattern: 1 is not a string"},
		{`{"patternProperties":{"[z-a]":{}}}`, `/patternProperties: "[z-a]" is not a regular expression`},
		{`{"required":"a"}`, `/required: "a" is not a list`},
		{`{"required":["a",1]}`, "/required/1: 1 is not a string"},
		{`{"required":["a","a"]}`, `/required: "a" is there twice`},
		{`{` + of4 + `"required":[]}`, "/required: there is nothing in the list"},
		{`{"properties":[]}`, "/properties: [] is not an object"},
		{`{"properties":{"a/b":1}}`, "/properties/a~1b: 1 is not a schema"},
		{`{"items":[{}]}`, "/items: [{}] is not a schema"},
		{`{` + of4 + `"items":true}`, "/items: true is not a schema of draft 4"},
		{`{` + of7 + `"items":[]}`, "/items: [] is not a list of schemas"},
		{`{"allOf":{}}`, "/allOf: {} is not a list of schemas"},
		{`{"uniqueItems":"yes"}`, `/uniqueItems: "yes" is not true or false`},
		{`{"dependentRequired":{"a":"b"}}`, `/dependentRequired/a: "b" is not a list`},
		{`{"title":1}`, "/title: 1 is not a string"},
		{`{"examples":1}`, "/examples: 1 is not a list"},
		{`{"$vocabulary":{"x":1}}`, "/$vocabulary/x: 1 is not true or false"},
		{`{"$schema":"https://example.com/dialect"}`, `/$schema: "https://example.com/dialect" is not a dialect that is known`},
		{`{"$ref":1}`, "/$ref: 1 is not a string"},
		{`{"$ref":"%"}`, `/$ref: "%" is not a URL`},
		{`{"not":{"$ref":"#/$defs/a"}}`, `/not/$ref: "#/$defs/a" leads nowhere`},
		{`{"$ref":"#%zz"}`, `/$ref: "#%zz" is not a URL`},
		{`{"$ref":"#/allOf/1","allOf":[{}]}`, `/$ref: "#/allOf/1" leads nowhere`},
		{`{"$ref":"#/title/1","title":""}`, `/$ref: "#/title/1" leads nowhere`},
		{`{"$ref":"#a"}`, `/$ref: "#a" leads nowhere`},
		{`{"$ref":"#/required","required":[]}`, "/required: [] is not a schema"},
		{`{"$ref":"https://example.com/"}`, `/$ref: "https://example.com/" is in another document, and none is loaded`},
		{`{"$id":"a#b"}`, `/$id: "a#b" is not a URL without a fragment`},
		{`{"$anchor":"1"}`, `/$anchor: "1" is not a name of letters, digits and -._`},
		{`{"not":{"$anchor":"a"},"items":{"$anchor":"a"}}`, "/not: another schema has the anchor a as well"},
		{`{"not":{"$id":"a"},"items":{"$id":"a"}}`, "/not: another schema has the URL schema:///a as well"},
		{`{"$id":"` + strings.Repeat("x", 2000) + `"}`, "its URL has more than 1024 bytes"},
		{`{"anyOf":[` + strings.Repeat(`{},`, 10_000) + `{}]}`, "/anyOf/9999: there are more than 10000 schemas"},
	} {
		if err := jsonschema.Valid(json.RawMessage(test.schema)); err == nil || err.Error() != test.want {
			t.Errorf("Valid(%s)\n got %v\nwant %s", test.schema, err, test.want)
		}
	}
}
