package jsonschema_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"testing"

	oracle "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/dragoman-mcp/dragoman/internal/util/jsonschema"
)

// FuzzCheck makes schemas and values of what the fuzzer chooses, and compares with a validator
// of somebody else.
func FuzzCheck(f *testing.F) {
	random := rand.NewChaCha8([32]byte{})
	for range 200 {
		seed := make([]byte, 400)
		_, _ = random.Read(seed) // which cannot fail
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, choices []byte) {
		m := &maker{choices: choices, words: words()}
		text, value := marshal(m.document()), marshal(m.value(3))
		valid := jsonschema.Valid(text)
		theirs, err := compileElsewhere(text)
		if (valid == nil) != (err == nil) {
			t.Fatalf("is %s valid? We: %v; they: %v", text, valid, err)
		}
		if err != nil {
			return
		}
		fits, checked := jsonschema.Fits(text, value)
		if !checked {
			return // such as a reference to itself, which they call an error of the value
		}
		v, err := oracle.UnmarshalJSON(bytes.NewReader(value))
		if err != nil {
			t.Fatal(err)
		}
		if err := theirs.Validate(v); fits != (err == nil) {
			t.Fatalf("does %s fit %s? We: %t; they: %v", value, text, fits, err)
		}
		if err := new(jsonschema.Checker).Check(text, value); (err == nil) != fits {
			t.Errorf("%s and %s: %v", value, text, err)
		}
	})
}

// nowhere is where schemas are loaded from.
type nowhere struct{}

func (nowhere) Load(string) (any, error) { return nil, errors.New("nothing is loaded") }

func compileElsewhere(text []byte) (*oracle.Schema, error) {
	doc, err := oracle.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := oracle.NewCompiler()
	c.UseLoader(nowhere{})
	if err := c.AddResource("schema:///arguments", doc); err != nil {
		return nil, err
	}
	return c.Compile("schema:///arguments")
}

func marshal(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

// A maker makes JSON of a series of choices. When there are no more, it takes the first of
// everything, which is the simplest.
type maker struct {
	choices []byte
	words   []word
	dialect int // an index
}

func (m *maker) choose(n int) int {
	if len(m.choices) == 0 {
		return 0
	}
	c := int(m.choices[0]) % n
	m.choices = m.choices[1:]
	return c
}

func pick[T any](m *maker, from []T) T { return from[m.choose(len(from))] }

var (
	dialects = []string{
		"https://json-schema.org/draft/2020-12/schema", "https://json-schema.org/draft/2019-09/schema", "http://json-schema.org/draft-07/schema#",
		"http://json-schema.org/draft-06/schema", "http://json-schema.org/draft-04/schema#",
	}
	memberNames = []string{"a", "b", "c", "ab"}
	scalars     = []any{
		json.Number("123456789012345678901"), json.Number("0"), json.Number("1"), json.Number("1.0"), json.Number("2.5"), json.Number("1e1"), json.Number("-3"),
		json.Number("10"), json.Number("-0"), "", "a", "bb", "é", "ab", true, false, nil,
	}
	patterns  = []string{"^a", "b$", ".", "a|b", "^.{2,3}$", "["}
	addresses = []string{"#", "#/$defs/a", "#/$defs/b", "#/properties/a", "#there", "other.json", "other.json#/$defs/a", "#/allOf/0", "#/x/y", "#/definitions/a", "#/items/0", "http://other/"}
	typeNames = []string{"string", "object", "array", "integer", "number", "boolean", "null"}
)

// A word is a keyword, and what makes its values.
type word struct {
	name string
	make func(m *maker, deep int) any
}

func words() []word {
	return []word{
		{"type", func(m *maker, _ int) any {
			if m.choose(3) == 0 {
				return m.list(func() any { return pick(m, typeNames) })
			}
			return pick(m, typeNames)
		}},
		{"properties", (*maker).named}, {"patternProperties", (*maker).matching}, {"additionalProperties", (*maker).schema}, {"items", (*maker).items},
		{"required", (*maker).names}, {"allOf", (*maker).schemas}, {"anyOf", (*maker).schemas}, {"oneOf", (*maker).schemas}, {"not", (*maker).schema},
		{"if", (*maker).schema}, {"then", (*maker).schema}, {"else", (*maker).schema}, {"prefixItems", (*maker).schemas}, {"additionalItems", (*maker).schema},
		{"contains", (*maker).schema}, {"minContains", (*maker).count}, {"maxContains", (*maker).count}, {"minItems", (*maker).count}, {"maxItems", (*maker).count},
		{"uniqueItems", (*maker).flag}, {"minLength", (*maker).count}, {"maxLength", (*maker).count}, {"minProperties", (*maker).count}, {"maxProperties", (*maker).count},
		{"minimum", (*maker).limit}, {"maximum", (*maker).limit}, {"exclusiveMinimum", (*maker).limit}, {"exclusiveMaximum", (*maker).limit}, {"multipleOf", (*maker).limit},
		{"pattern", func(m *maker, _ int) any { return pick(m, patterns) }}, {"propertyNames", (*maker).schema}, {"dependentSchemas", (*maker).named},
		{"dependentRequired", func(m *maker, _ int) any { return map[string]any{pick(m, memberNames): m.names(0)} }},
		{"dependencies", func(m *maker, deep int) any {
			return map[string]any{pick(m, memberNames): m.names(0), pick(m, memberNames): m.schema(deep)}
		}},
		{"enum", func(m *maker, deep int) any { return m.list(func() any { return m.value(min(deep, 2)) }) }}, {"const", func(m *maker, deep int) any { return m.value(min(deep, 2)) }},
		{"unevaluatedProperties", (*maker).schema}, {"unevaluatedItems", (*maker).schema}, {"$ref", func(m *maker, _ int) any { return pick(m, addresses) }},
		{"$defs", (*maker).named}, {"definitions", (*maker).named}, {"$anchor", func(*maker, int) any { return "there" }}, {"$id", func(*maker, int) any { return "other.json" }},
		{"id", func(*maker, int) any { return "#there" }}, {"title", func(m *maker, deep int) any { return m.value(deep) }}, {"x", (*maker).named},
	}
}

func (m *maker) document() any {
	m.dialect = m.choose(len(dialects))
	s := m.schema(4)
	if object, ok := s.(map[string]any); ok && m.dialect > 0 {
		object["$schema"] = dialects[m.dialect]
	}
	return s
}

func (m *maker) schema(deep int) any {
	switch m.choose(12) {
	case 1:
		return true
	case 2:
		return false
	}
	s := make(map[string]any)
	for range 1 + m.choose(4) {
		if deep == 0 {
			break
		}
		word := pick(m, m.words)
		s[word.name] = word.make(m, deep-1)
		if m.choose(64) == 63 {
			s[word.name] = pick(m, scalars[1:]) // mostly wrong, and no count that they have no room for
		}
	}
	return m.agreed(s)
}

// agreed leaves out what they read differently: in older dialects they look at some keywords
// beside $ref, and in the newest at the identifiers in additionalItems.
func (m *maker) agreed(s map[string]any) map[string]any {
	if m.dialect == 0 {
		delete(s, "additionalItems")
	}
	if ref, ok := s["$ref"]; ok && m.dialect > 1 {
		return map[string]any{"$ref": ref}
	}
	return s
}

func (m *maker) list(item func() any) []any {
	list := []any{}
	for range m.choose(4) {
		list = append(list, item())
	}
	return list
}

func (m *maker) schemas(deep int) any {
	return append([]any{m.schema(deep)}, m.list(func() any { return m.schema(deep) })...)
}

func (m *maker) items(deep int) any {
	if m.choose(3) == 2 {
		return m.schemas(deep)
	}
	return m.schema(deep)
}

func (m *maker) named(deep int) any {
	s := make(map[string]any)
	for range 1 + m.choose(3) {
		s[pick(m, memberNames)] = m.schema(deep)
	}
	return s
}

func (m *maker) matching(deep int) any {
	from := patterns
	if m.dialect > 2 {
		from = patterns[:len(patterns)-1] // a broken one is told where it is used only
	}
	return map[string]any{pick(m, from): m.schema(deep)}
}

func (m *maker) names(int) any { return m.list(func() any { return pick(m, memberNames) }) }
func (m *maker) count(int) any {
	return pick(m, []any{2, 1, 0, 3, json.Number("1.0"), -1, json.Number("1.5")})
}
func (m *maker) flag(int) any { return m.choose(4) > 0 }
func (m *maker) limit(int) any {
	return pick(m, []any{1, json.Number("0.5"), 2, 10, -3, 0, json.Number("2.50"), true, json.Number("123456789012345678900")})
}

func (m *maker) value(deep int) any {
	kind := m.choose(4)
	switch {
	case deep > 0 && kind < 2:
		v := make(map[string]any)
		for range m.choose(4) {
			v[pick(m, memberNames)] = m.value(deep - 1)
		}
		return v
	case deep > 0 && kind == 2:
		return m.list(func() any { return m.value(deep - 1) })
	}
	return pick(m, scalars)
}

// FuzzText gives texts that nobody has made for the purpose. Nothing may end the process.
func FuzzText(f *testing.F) {
	for _, text := range []string{
		`true`, `{"type":["null","integer"],"enum":[1,{"a":[]}]}`, `{"$ref":"#/$defs/a~1b","$defs":{"a/b":{"$ref":"#"}}}`,
		`{"$id":"urn:x:y","$ref":"#a","not":{"$anchor":"a"},"allOf":[{"$ref":"z"}],"$defs":{"z":{"$id":"z"}}}`,
		`{"$schema":"http://json-schema.org/draft-04/schema#","id":"http://x/y#z","minimum":1e3,"exclusiveMinimum":true,"items":[{"$ref":"x#/%25"}]}`,
		`{"properties":{"a":{"pattern":"^(?=x)\\1"}},"patternProperties":{"[\\d-x]":false},"unevaluatedProperties":{"multipleOf":0.1}}`,
		`{"unevaluatedItems":false,"contains":{"const":-0.0},"minContains":0,"uniqueItems":true,"if":{"maxItems":2},"then":false}`,
	} {
		f.Add(text, `{"a":"x","b":[0,1.50,-2e3,null]}`)
		f.Add(text, `[[],{},"",1]`)
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		err := new(jsonschema.Checker).Check(json.RawMessage(text), json.RawMessage(value))
		e, wrong := errors.AsType[*jsonschema.Error](err)
		switch {
		case wrong && (len(e.Violations) == 0 || len(e.Violations) > jsonschema.MaxViolations || jsonschema.Valid(json.RawMessage(text)) != nil):
			t.Errorf("%s and %s: %v", text, value, err)
		case !wrong && err != nil:
			t.Errorf("the error is a %T", err)
		}
	})
}
