package config

import (
	"encoding/json"
	"reflect"
	"strings"
)

// referencePattern matches text with a reference in it, which may stand for anything.
const referencePattern = `\$\{`

// Schema returns the JSON Schema (2020-12) of our own format.
func Schema() []byte {
	b := &schemaBuilder{defs: map[string]any{}}
	root := b.object(reflect.TypeFor[File]())
	properties := root["properties"].(map[string]any)
	properties["$schema"] = map[string]any{"type": "string", "description": "For editors."}
	properties["mcpServers"] = map[string]any{
		"type": "object", "description": "Servers as other programs write them.",
		"additionalProperties": map[string]any{"type": "object"},
	}
	root["patternProperties"] = map[string]any{"^x-": true}
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Dragoman configuration"
	root["$defs"] = b.defs
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic(err) // maps of strings, numbers and booleans cannot fail
	}
	return append(text, '\n')
}

// A schemaBuilder gathers the definitions of structs.
type schemaBuilder struct{ defs map[string]any }

func (b *schemaBuilder) object(t reflect.Type) map[string]any {
	properties := map[string]any{}
	o := objectOf(t)
	for _, k := range o.keys {
		s := b.value(k.typ, k)
		description := k.doc
		if k.def != "" {
			description += " Default: " + k.def + "."
		}
		if ref, ok := s["$ref"]; ok {
			s = map[string]any{"$ref": ref}
		}
		s["description"] = description
		properties[k.name] = s
	}
	s := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if t == reflect.TypeFor[Server]() {
		s["oneOf"] = []any{map[string]any{"required": []string{"command"}}, map[string]any{"required": []string{"url"}}}
	}
	return s
}

// value returns the schema of a type. Our own reading is more lenient than JSON
// Schema can say; what it accepts there is what should be written.
func (b *schemaBuilder) value(t reflect.Type, k key) map[string]any {
	switch {
	case t == durationType:
		pattern := `^([0-9.]+(ns|us|µs|ms|s|m|h))+$|^0$|` + referencePattern
		if k.none != "" {
			pattern = "^none$|" + pattern
		}
		return map[string]any{"type": "string", "pattern": pattern}
	case t == sizeType:
		return map[string]any{"type": "string", "pattern": `^[0-9.]+ ?(B|[KMGT]iB|[kKMGT]B)$|` + referencePattern}
	case t.Kind() == reflect.String && k.enum != nil:
		return map[string]any{"anyOf": []any{map[string]any{"enum": b.words(t, k)}, reference()}}
	case t.Kind() == reflect.String:
		return map[string]any{"type": []string{"string", "number", "boolean"}}
	case t.Kind() == reflect.Bool:
		return map[string]any{"anyOf": []any{map[string]any{"type": "boolean"}, reference()}}
	case t.Kind() == reflect.Int:
		return map[string]any{"anyOf": []any{map[string]any{"type": "integer", "minimum": 0}, reference()}}
	case t.Kind() == reflect.Pointer:
		return b.value(t.Elem(), k)
	case t.Kind() == reflect.Slice:
		items := b.value(t.Elem(), key{})
		s := map[string]any{"type": "array", "items": items}
		if k.one {
			return map[string]any{"anyOf": []any{s, items}}
		}
		return s
	case t.Kind() == reflect.Map:
		s := map[string]any{"type": "object", "additionalProperties": b.value(t.Elem(), key{})}
		if under(t) != nil {
			s["propertyNames"] = map[string]any{"pattern": goodName.String()}
		}
		return s
	}
	return b.define(t)
}

// words are all that an enum may be.
func (b *schemaBuilder) words(t reflect.Type, k key) []string {
	if t != transportType {
		return k.enum
	}
	words := append([]string{}, k.enum...)
	for _, w := range []string{"streamable-http", "streamableHttp", "streamable_http", "http+sse", "websocket"} {
		if _, ok := parseTransport(w); ok {
			words = append(words, w)
		}
	}
	return words
}

func reference() map[string]any {
	return map[string]any{"type": "string", "pattern": referencePattern}
}

// define puts a struct among the definitions, and returns a reference to it.
func (b *schemaBuilder) define(t reflect.Type) map[string]any {
	name := strings.ToLower(t.Name()[:1]) + t.Name()[1:]
	ref := map[string]any{"$ref": "#/$defs/" + name}
	if b.defs[name] != nil {
		return ref
	}
	b.defs[name] = true // it may lead to itself
	o := objectOf(t)
	s := b.object(t)
	if o.short >= 0 {
		k := o.keys[o.short]
		b.defs[name] = map[string]any{"anyOf": []any{b.value(k.typ, k), s}}
	} else {
		b.defs[name] = s
	}
	return ref
}
