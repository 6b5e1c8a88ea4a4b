package adapt_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// outputSchema returns the schema of a tool as a 2025-11-25 client gets it from
// a modern server.
func outputSchema(t *testing.T, schema string) string {
	t.Helper()
	got, err := route(v4, v5).Response("tools/list", result(t, `{"tools":[{"name":"x","outputSchema":`+schema+`}]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Tools []struct {
			OutputSchema json.RawMessage `json:"outputSchema"`
		}
	}
	if err := got.Decode(&list); err != nil {
		t.Fatal(err)
	}
	return string(list.Tools[0].OutputSchema)
}

func TestOutputSchemaGetsAnObjectAtItsRoot(t *testing.T) {
	t.Parallel()
	const (
		result = `{"type":"object","properties":{"result":`
		needed = `},"required":["result"]}`
		either = `"type":"object","anyOf":[{"$ref":"#/$defs/value"},{"properties":{"result":{"$ref":"#/$defs/value"}},"required":["result"]}],"$defs":{"value":`
	)
	for _, c := range []struct{ name, in, want string }{
		{"an object", `{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{}}}`, ""},
		{"an object in other words", `{"properties":{},"type":["object"]}`, `{"properties":{},"type":"object"}`},
		{"an object by reference", `{"$defs":{"A/b":{"type":"object"}},"$ref":"#/$defs/A~1b"}`, `{"$defs":{"A/b":{"type":"object"}},"$ref":"#/$defs/A~1b","type":"object"}`},
		{"an object by two ways", `{"anyOf":[{"type":"object"},{"const":{}}]}`, `{"anyOf":[{"type":"object"},{"const":{}}],"type":"object"}`},
		{"an object by parts", `{"allOf":[{},{"type":"object"}]}`, `{"allOf":[{},{"type":"object"}],"type":"object"}`},
		{"a word", `{"type":"string","maxLength":1e2}`, result + `{"type":"string","maxLength":1e2}` + needed},
		{"a word of some", `{"enum":["a","b"]}`, result + `{"enum":["a","b"]}` + needed},
		{"a list with references", `{"type":"array","items":{"$ref":"#/$defs/A"},"$defs":{"A":{"type":"object","properties":{"next":{"$ref":"#\/$defs\/A"},"all":{"$ref":"#"}}}}}`,
			result + `{"type":"array","items":{"$ref":"#/properties/result/$defs/A"},"$defs":{"A":{"type":"object","properties":{"next":{"$ref":"#/properties/result/$defs/A"},"all":{"$ref":"#/properties/result"}}}}}` + needed},
		{"references elsewhere", `{"type":"array","items":[{"$ref":"#anchor"},{"$ref":"https://a/b#/c"},{"$dynamicRef":"#/x"}]}`,
			result + `{"type":"array","items":[{"$ref":"#anchor"},{"$ref":"https://a/b#/c"},{"$dynamicRef":"#/properties/result/x"}]}` + needed},
		{"values are no schemas", `{"type":"array","default":[{"$ref":"#/a"}],"items":{"properties":{"default":{"$ref":"#/a"},"$ref":{"const":{"$ref":"#/a"}}}}}`,
			result + `{"type":"array","default":[{"$ref":"#/a"}],"items":{"properties":{"default":{"$ref":"#/properties/result/a"},"$ref":{"const":{"$ref":"#/a"}}}}}` + needed},
		{"a document of its own", `{"$id":"https://a/b","type":"array","items":{"$ref":"#/x"}}`, result + `{"$id":"https://a/b","type":"array","items":{"$ref":"#/x"}}` + needed},
		{"with a document inside", `{"type":"array","items":{"$id":"x","$ref":"#/x"}}`, result + `{"type":"array","items":{"$id":"x","$ref":"#/x"}}` + needed},
		{"the dialect moves to the root", `{"$schema":"http://json-schema.org/draft-07/schema#","type":"number"}`,
			`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"result":{"type":"number"}},"required":["result"]}`},
		{"anything", `{}`, `{` + either + `{}}}`},
		{"anything, by a boolean", `true`, `{` + either + `true}}`},
		{"an object or nothing", `{"$schema":"s","anyOf":[{"$ref":"#/$defs/A"},{"type":"null"}],"$defs":{"A":{"type":"object"}}}`,
			`{"$schema":"s",` + either + `{"anyOf":[{"$ref":"#/$defs/value/$defs/A"},{"type":"null"}],"$defs":{"A":{"type":"object"}}}}}`},
		{"a circle", `{"$ref":"#/$defs/A","$defs":{"A":{"$ref":"#/$defs/A"}}}`, `{` + either + `{"$ref":"#/$defs/value/$defs/A","$defs":{"A":{"$ref":"#/$defs/value/$defs/A"}}}}}`},
		{"a reference to nowhere", `{"$ref":"#/no"}`, `{` + either + `{"$ref":"#/$defs/value/no"}}}`},
	} {
		if c.want == "" {
			c.want = c.in
		}
		if got := outputSchema(t, c.in); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

// The schema and the value are changed at different times, by somebody without
// a memory, and must fit all the same.
func TestOutputIsValidAfterItIsWrappedIfItWasBefore(t *testing.T) {
	t.Parallel()
	values := []string{`1`, `"a"`, `null`, `true`, `[]`, `[{"n":1}]`, `{}`, `{"n":1}`, `{"n":"x"}`, `{"next":{"n":2},"n":1}`, `{"next":{"n":"x"}}`,
		`{"result":1}`, `{"result":{"n":1}}`, `[[1],[2]]`}
	for _, schema := range []string{
		`{}`, `{"type":"integer"}`, `{"type":["integer","null"]}`, `{"enum":["a",1]}`, `{"type":["object","array"]}`,
		`{"type":"array","items":{"$ref":"#/$defs/N"},"$defs":{"N":{"type":"object","required":["n"],"properties":{"n":{"type":"integer"},"next":{"$ref":"#/$defs/N"}}}}}`,
		`{"$ref":"#/$defs/N","$defs":{"N":{"type":"object","properties":{"n":{"type":"integer"},"next":{"$ref":"#/$defs/N"}}}}}`,
		`{"anyOf":[{"$ref":"#/$defs/N"},{"type":"null"}],"$defs":{"N":{"type":"object","properties":{"n":{"type":"integer"},"next":{"$ref":"#/$defs/N"}}}}}`,
		`{"properties":{"n":{"type":"integer"}}}`, `{"anyOf":[{"type":"integer"},{"type":"array","items":{"$ref":"#"}}]}`,
		`{"required":["n"],"properties":{"n":{"type":"integer"},"next":{"$ref":"#"}},"type":"object"}`,
	} {
		adapted := outputSchema(t, schema)
		if root := decode(t, adapted).(map[string]any); root["type"] != "object" {
			t.Errorf("%s is not of type object", adapted)
		}
		for _, value := range values {
			got, err := route(v4, v5).Response(call, result(t, `{"structuredContent":`+value+`}`), nil)
			if err != nil {
				t.Fatal(err)
			}
			var now struct {
				StructuredContent json.RawMessage `json:"structuredContent"`
			}
			if err := got.Decode(&now); err != nil {
				t.Fatal(err)
			}
			before := valid(t, decode(t, schema), decode(t, schema), decode(t, value))
			after := valid(t, decode(t, adapted), decode(t, adapted), decode(t, string(now.StructuredContent)))
			// Nothing that was valid may become invalid. The reverse holds where no
			// object is accepted, unless it looks like a wrapped value.
			exact := strings.HasPrefix(adapted, `{"type":"object","properties":{"result":`) && !strings.HasPrefix(value, `{"result"`)
			if before && !after || exact && after && !before {
				t.Errorf("%s is valid: %t, for %s\nthen %s: %t, for %s", value, before, schema, now.StructuredContent, after, adapted)
			}
		}
	}
}

func TestSchemaThatMultipliesIsNotFollowedForever(t *testing.T) {
	t.Parallel()
	// Ten lists, each of twenty references to the next.
	schema := `{"$ref":"#/$defs/0","$defs":{`
	for i := range 10 {
		ref := `{"$ref":"#/$defs/` + string(rune('1'+i)) + `"}`
		schema += `"` + string(rune('0'+i)) + `":{"allOf":[` + strings.Repeat(ref+",", 19) + ref + `]},`
	}
	schema += `":":{}}}`
	start := time.Now()
	if got := outputSchema(t, schema); !strings.Contains(got, `"#/$defs/value/$defs/9"`) {
		t.Errorf("got %s", got)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
}

func decode(t *testing.T, text string) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// valid is the part of JSON Schema that these tests use.
func valid(t *testing.T, root, schema, value any) bool {
	t.Helper()
	s, ok := schema.(map[string]any)
	if !ok {
		return schema == true
	}
	sub := func(part any) bool { return valid(t, root, part, value) }
	for name, arg := range s {
		switch name {
		case "$defs":
		case "type":
			kinds, ok := arg.([]any)
			if !ok {
				kinds = []any{arg}
			}
			if !slices.ContainsFunc(kinds, func(k any) bool { return is(k.(string), value) }) {
				return false
			}
		case "enum":
			if !slices.ContainsFunc(arg.([]any), func(v any) bool { return reflect.DeepEqual(v, value) }) {
				return false
			}
		case "anyOf":
			if !slices.ContainsFunc(arg.([]any), sub) {
				return false
			}
		case "$ref":
			part := root
			for _, step := range strings.Split(arg.(string), "/")[1:] {
				part = part.(map[string]any)[step]
			}
			if part == nil {
				t.Fatalf("%s points to nothing in %v", arg, root)
			}
			if !sub(part) {
				return false
			}
		case "items":
			if list, ok := value.([]any); ok {
				for _, v := range list {
					if !valid(t, root, arg, v) {
						return false
					}
				}
			}
		case "properties", "required":
			obj, ok := value.(map[string]any)
			if !ok {
				continue
			}
			if list, ok := arg.([]any); ok {
				if slices.ContainsFunc(list, func(n any) bool { _, has := obj[n.(string)]; return !has }) {
					return false
				}
				continue
			}
			for n, part := range arg.(map[string]any) {
				if v, has := obj[n]; has && !valid(t, root, part, v) {
					return false
				}
			}
		default:
			t.Fatalf("the validator does not know %q", name)
		}
	}
	return true
}

func is(kind string, value any) bool {
	switch v := value.(type) {
	case map[string]any:
		return kind == "object"
	case []any:
		return kind == "array"
	case string:
		return kind == "string"
	case float64:
		return kind == "number" || kind == "integer" && v == float64(int(v))
	case bool:
		return kind == "boolean"
	}
	return kind == "null"
}
