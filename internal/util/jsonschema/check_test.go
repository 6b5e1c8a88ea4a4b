package jsonschema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/util/jsonschema"
)

func TestArgumentsAreCheckedAndTheErrorSaysWhere(t *testing.T) {
	const order = `{"type":"object","properties":{
		"id":{"type":"integer","minimum":10,"maximum":9007199254740993},
		"kind":{"enum":["a","b"]},
		"name":{"type":"string","minLength":2,"maxLength":3,"pattern":"^[a-z]+$"},
		"items":{"type":"array","maxItems":3,"items":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}},
		"odd name":{"const":1},
		"one":{"oneOf":[{"type":"string"},{"type":"boolean"}]},
		"two":{"oneOf":[{"type":"integer"},{"minimum":0}]}},
		"required":["id"],"additionalProperties":false}`
	for _, test := range []struct {
		name, schema, value string
		want                string // the whole error, or "" if there is none
	}{
		{"fits", order, `{"id":12,"kind":"a","name":"abc","items":[{"name":"x"}],"odd name":1,"one":true}`, ""},
		{"no arguments", `{"type":"object"}`, ``, ""},
		{"no arguments where one is needed", order, ``, "arguments.id is missing"},
		{"missing", order, `{}`, "arguments.id is missing"},
		{"missing further down", order, `{"id":12,"items":[{"name":"x"},{},{}]}`, "arguments.items[1].name is missing; arguments.items[2].name is missing"},
		{"wrong type", order, `{"id":"12"}`, "arguments.id is a string, not an integer"},
		{"wrong type further down", order, `{"id":12,"items":[{"name":1}]}`, "arguments.items[0].name is a number, not a string"},
		{"not an object", order, `[]`, "arguments is an array, not an object"},
		{"enum", order, `{"id":12,"kind":"c"}`, `arguments.kind must be one of "a", "b"`},
		{"const and a strange name", order, `{"id":12,"odd name":2}`, `arguments["odd name"] must be 1`},
		{"minimum", order, `{"id":9}`, "arguments.id is less than 10"},
		{"numbers keep their digits", order, `{"id":9007199254740993}`, ""},
		{"one more than a float can tell", order, `{"id":9007199254740994}`, "arguments.id is more than 9007199254740993"},
		{"too short", order, `{"id":12,"name":"a"}`, "arguments.name has 1 characters; at least 2 are needed"},
		{"too long", order, `{"id":12,"name":"abcd"}`, "arguments.name has 4 characters; at most 3 are allowed"},
		{"pattern", order, `{"id":12,"name":"AB"}`, "arguments.name does not match the pattern ^[a-z]+$"},
		{"too many items", order, `{"id":12,"items":[{"name":""},{"name":""},{"name":""},{"name":""}]}`, "arguments.items has 4 items; at most 3 are allowed"},
		{"not allowed", order, `{"id":12,"x":1}`, "arguments.x is not allowed"},
		{"none of the forms", order, `{"id":12,"one":1}`, "arguments.one fits none of the forms that are allowed: arguments.one is a number, not a string, or arguments.one is a number, not a boolean"},
		{"two of the forms", order, `{"id":12,"two":1}`, "arguments.two fits more than one of the forms of which one is allowed"},
		{"false schema", `{"properties":{"x":false}}`, `{"x":1}`, "arguments.x is not allowed"},
		{"other keywords", `{"properties":{"x":{"multipleOf":5}}}`, `{"x":3}`, "arguments.x is not a multiple of 5"},
		{"references within the schema", `{"$defs":{"p":{"type":"string"}},"properties":{"x":{"$ref":"#/$defs/p"}}}`, `{"x":3}`, "arguments.x is a number, not a string"},
		{"2020-12 by default", `{"properties":{"x":{"prefixItems":[{"type":"string"}]}}}`, `{"x":[1]}`, "arguments.x[0] is a number, not a string"},
		{"draft 7 if it says so", `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"x":{"items":[{"type":"string"}],"prefixItems":[{"type":"boolean"}]}}}`, `{"x":[1]}`, "arguments.x[0] is a number, not a string"},
		{"no more than five", `{"required":["a","b","c","d","e","f"]}`, `{}`, "arguments.a is missing; arguments.b is missing; arguments.c is missing; arguments.d is missing; arguments.e is missing"},
		{"a number that would be megabytes", `{"properties":{"x":{"type":"integer"}}}`, `{"x":[{"y":1e999999}]}`, "arguments.x[0].y is a number with more digits than can be checked"},
		{"a number that is almost nothing", `{}`, `{"x":1E-999999}`, "arguments.x is a number with more digits than can be checked"},
		{"a long number", `{}`, `{"x":` + strings.Repeat("9", 1001) + `}`, "arguments.x is a number with more digits than can be checked"},

		{"it takes too long to say what", `{"anyOf":[{"items":{"type":"string"}}]}`, `[` + strings.Repeat(`"",`, 60_000) + `1]`, "arguments does not fit the schema"},
		{"a long list", `{"enum":["` + strings.Repeat("é", 200) + `"]}`, `1`, `arguments must be one of "` + strings.Repeat("é", 99) + `…`},

		// What cannot be compiled is not checked.
		{"not JSON", `{`, `{}`, ""},
		{"not a schema", `{"type":"strange"}`, `{}`, ""},
		{"an unknown dialect", `{"$schema":"https://example.com/dialect","type":"string"}`, `{}`, ""},
		{"a schema elsewhere", `{"$ref":"https://example.com/schema.json"}`, `{}`, ""},
		{"a schema in a file", `{"$ref":"file:///etc/passwd"}`, `{}`, ""},
		{"a bad pattern", `{"properties":{"x":{"pattern":"("}}}`, `{"x":"y"}`, ""},
		{"too large", `{"type":"string","x":"` + strings.Repeat("x", jsonschema.MaxSchema) + `"}`, `{}`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var c jsonschema.Checker
			for range 2 { // compiled, and remembered
				var value json.RawMessage
				if test.value != "" {
					value = json.RawMessage(test.value)
				}
				err := c.Check(json.RawMessage(test.schema), value)
				if got := fmt.Sprint(err); err == nil && test.want != "" || err != nil && got != test.want {
					t.Fatalf("Check(%s)\n got %v\nwant %s", test.value, err, test.want)
				}
				if err == nil {
					continue
				}
				var e *jsonschema.Error
				if !errors.As(err, &e) || !strings.HasPrefix(err.Error(), e.Path()+" "+e.Reason()) {
					t.Errorf("the error is %#v", err)
				}
			}
		})
	}
}

func TestLeastUsedSchemasAreForgotten(t *testing.T) {
	var c jsonschema.Checker
	text := func(i int) json.RawMessage { return fmt.Appendf(nil, `{"required":["n%d"]}`, i) }
	for i := range 3 * jsonschema.MaxSchemas {
		if err := c.Check(text(i), nil); err == nil {
			t.Fatalf("schema %d was not checked", i)
		}
		_ = c.Check(text(0), nil) // stays
		if n := c.Len(); n > jsonschema.MaxSchemas {
			t.Fatalf("%d schemas are kept, want no more than %d", n, jsonschema.MaxSchemas)
		}
	}
	if !c.Has(text(0)) || c.Has(text(1)) || !c.Has(text(3*jsonschema.MaxSchemas-1)) {
		t.Error("the schemas that are kept are not those used last")
	}
}

func TestManyMayCheckAtOnce(t *testing.T) {
	var c jsonschema.Checker
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 200 {
				text := fmt.Appendf(nil, `{"required":["n%d"]}`, (i+j)%300)
				if err := c.Check(text, nil); err == nil {
					t.Error("not checked")
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkCheck(b *testing.B) {
	var c jsonschema.Checker
	text := json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`)
	value := json.RawMessage(`{"text":"hello"}`)
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Check(text, value); err != nil {
			b.Fatal(err)
		}
	}
}

// explosion returns a schema in which references lead to two others each, so many times
// in a row.
func explosion(levels int) string {
	var b strings.Builder
	b.WriteString(`{"properties":{"a":{"$ref":"#/$defs/0"}},"$defs":{`)
	for i := range levels {
		fmt.Fprintf(&b, `"%d":{"allOf":[{"$ref":"#/$defs/%[2]d"},{"$ref":"#/$defs/%[2]d"}]},`, i, i+1)
	}
	fmt.Fprintf(&b, `"%d":{"type":"string"}}}`, levels)
	return b.String()
}

// TestS04_ChecksThatWouldTakeTooLongAreNotMade gives schemas that would keep the validator
// busy forever, or nearly so.
func TestS04_ChecksThatWouldTakeTooLongAreNotMade(t *testing.T) {
	wide := strings.Repeat(`{"type":"string"},`, 2000) + `{"type":"null"}`
	list := func(item string, n int) string { return `{"a":[` + strings.Repeat(item+",", n) + item + `]}` }
	deep := `{"properties":{"l":{"$ref":"#"},"a":{"type":"string"}},"anyOf":[{"properties":{"l":{"$ref":"#"}}},{"properties":{"l":{"$ref":"#"}}}]}`
	for _, test := range []struct {
		name, schema, value string
		checked             bool
	}{
		{"few references to references", explosion(5), `{"a":1}`, true},
		{"references to references", explosion(100), `{"a":1}`, false},
		{"one value in one of many forms", `{"properties":{"a":{"anyOf":[` + wide + `]}}}`, `{"a":1}`, true},
		{"many values in one of many forms", `{"properties":{"a":{"items":{"anyOf":[` + wide + `]}}}}`, list("1", 100_000), false},
		{"many values of older drafts", `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"items":{"oneOf":[` + wide + `]}}}}`, list("1", 100_000), false},
		{"many names in one of many forms", `{"propertyNames":{"anyOf":[` + strings.ReplaceAll(wide, "string", "null") + `]}}`, `{` + names(1000) + `}`, false},
		{"many values, all of them known", `{"properties":{"a":{"items":{"enum":[` + strings.Repeat("0,", 10_000) + `2]}}}}`, list("1", 1000), false},
		{"a schema of itself, and little in it", deep, `{"l":{"l":{"a":1}}}`, true},
		{"a schema of itself, three times", deep, strings.Repeat(`{"l":`, 60) + `{"a":1}` + strings.Repeat(`}`, 60), false},
		{"a pattern of many states", `{"properties":{"a":{"pattern":"^(x{0,30}){0,30}$"}}}`, `{"a":"` + strings.Repeat("x", 1<<20) + `"}`, false},
		{"a pattern of few", `{"properties":{"a":{"pattern":"^y+$"}}}`, `{"a":"` + strings.Repeat("x", 1<<20) + `"}`, true},
		{"a reference to itself", `{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#"}},"type":"string"}`, `""`, false},
		{"many names that are needed", `{"properties":{"a":{"items":{"required":[` + strings.ReplaceAll(names(4000), ":1", "") + `]}}}}`, list("{}", 1000), false},
		{"many members, a few times", `{"allOf":[` + strings.Repeat(`{"properties":{"a":{}}},`, 1000) + `false]}`, `{` + names(2000) + `}`, false},
		{"one long text, many times", `{"properties":{"a":{"allOf":[` + strings.Repeat(`{"minLength":3},`, 1000) + `false]}}}`, `{"a":"` + strings.Repeat("x", 1<<19) + `"}`, false},
		{"many fractions", `{"properties":{"a":{"items":{"minimum":2}}}}`, list("1.5", 10_000), false},
		{"many items, which are the same", `{"properties":{"a":{"uniqueItems":true}}}`, list("1", 100_000), true},
		{"many items, which are not", `{"properties":{"a":{"uniqueItems":true,"maxItems":1}}}`, `{"a":[[` + strings.Repeat("0,", 60_000) + `0],[` + strings.Repeat("0,", 60_000) + `1]]}`, false},
		{"more schemas than are compiled", `{"anyOf":[` + strings.Repeat(`{},`, 10_000) + `{}],"type":"string"}`, `{}`, false},
		{"a reference to wherever it is used", `{"$dynamicAnchor":"x","properties":{"l":{"$dynamicRef":"#x"},"a":{"type":"string"}}}`, `{"l":{},"a":1}`, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var c jsonschema.Checker
			// An outcome that never comes ends the test too.
			if err := c.Check(json.RawMessage(test.schema), json.RawMessage(test.value)); (err != nil) != test.checked {
				t.Errorf("it comes to %.200v", err)
			}
		})
	}
}

func names(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`"n%d":1`, i)
	}
	return strings.Join(list, ",")
}
