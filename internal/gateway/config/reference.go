package config

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config/hosts"
)

//go:embed reference_head.md
var referenceHead string

const referenceLimits = `
## How much is read

| what | at most |
|---|---|
| a file | %d MiB, %d values, %d levels |
| a file that a reference or envFile names | %d MiB |
| problems in a report | %d; more are counted |
| the name of a server or a group | %d characters |
`

// Reference returns the reference of our own format, and of what is accepted of
// others, in Markdown.
func Reference() []byte {
	var b bytes.Buffer
	b.WriteString(referenceHead)
	fmt.Fprintf(&b, referenceLimits, MaxFile>>20, MaxNodes, MaxDepth, MaxValueFile>>20, MaxProblems, MaxName)
	b.WriteString("\n## Keys\n")
	seen := map[reflect.Type]bool{}
	for queue := []section{{"The file", reflect.TypeFor[File]()}}; len(queue) > 0; queue = queue[1:] {
		if s := queue[0]; !seen[s.typ] {
			seen[s.typ] = true
			queue = append(queue, writeSection(&b, s)...)
		}
	}
	hosts.WriteReference(&b)
	return b.Bytes()
}

var (
	//go:embed limits_head.md
	limitsHead string
	//go:embed limits_tail.md
	limitsTail string
)

// LimitsReference returns the list of all limits, in Markdown.
func LimitsReference() []byte {
	var b bytes.Buffer
	b.WriteString(limitsHead)
	b.WriteString("| key | what | default | at the limit |\n|---|---|---|---|\n")
	limits := limitsOf(reflect.TypeFor[File](), "")
	slices.SortStableFunc(limits, func(a, b key) int { // those of clients before those of servers
		first := func(k key) string { name, _, _ := strings.Cut(k.name, "."); return name }
		return cmp.Compare(first(a), first(b))
	})
	for _, l := range limits {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", l.name, strings.TrimSuffix(l.doc, "."), cmp.Or(l.def, "no limit"), l.full)
	}
	b.WriteString(limitsTail)
	return b.Bytes()
}

// limitsOf returns the keys below a struct that are limits, by their whole names.
func limitsOf(t reflect.Type, path string) (limits []key) {
	for _, k := range objectOf(t).keys {
		k.name = join(path, k.name)
		switch {
		case k.like:
			limits = append(limits, limitsOf(under(k.typ), k.name+".PATTERN")...)
		case under(k.typ) != nil && k.typ.Kind() == reflect.Map:
			limits = append(limits, limitsOf(under(k.typ), k.name+".NAME")...)
		case under(k.typ) != nil:
			limits = append(limits, limitsOf(under(k.typ), k.name)...)
		case k.full != "":
			limits = append(limits, k)
		}
	}
	return limits
}

// A section is a struct and the path that leads to it.
type section struct {
	title string
	typ   reflect.Type
}

// writeSection writes the keys of a struct, and returns the structs that they lead
// to.
func writeSection(b *bytes.Buffer, s section) (next []section) {
	o := objectOf(s.typ)
	fmt.Fprintf(b, "\n### %s\n\n", s.title)
	if o.short != nil {
		fmt.Fprintf(b, "May be given by `%s` alone.\n\n", o.short.name)
	}
	b.WriteString("| key | value | default | meaning |\n|---|---|---|---|\n")
	for _, k := range o.keys {
		doc, def, value := k.doc, k.def, describe(k.typ, k.enum)
		if k.none != "" {
			doc += fmt.Sprintf(" `none` means %s.", k.none)
		}
		if k.only != "" && k.only != k.name {
			doc += fmt.Sprintf(" With `%s` only.", k.only)
		}
		if def != "" && !strings.Contains(def, " ") {
			def = "`" + def + "`"
		}
		if t := under(k.typ); t != nil {
			title := k.name
			switch {
			case k.like:
				title += ".PATTERN"
			case k.typ.Kind() == reflect.Map:
				title += ".NAME"
			}
			if s.typ != reflect.TypeFor[File]() {
				title = s.title + "." + title
			}
			next = append(next, section{title, t})
			anchor := strings.ToLower(strings.ReplaceAll(title, ".", ""))
			value = strings.Replace(value, "mapping", "[mapping](#"+anchor+")", 1)
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", k.name, value, def, doc)
	}
	return next
}

// describe says what may be written for a type.
func describe(t reflect.Type, enum []string) string {
	switch {
	case len(enum) > 0:
		return "`" + strings.Join(enum, "`, `") + "`"
	case t == durationType:
		return "time"
	case t == sizeType:
		return "size"
	case t == rateType:
		return "rate"
	case t.Kind() == reflect.String:
		return "text"
	case t.Kind() == reflect.Bool:
		return "`true`, `false`"
	case t.Kind() == reflect.Int:
		return "number"
	case t.Kind() == reflect.Pointer:
		return describe(t.Elem(), nil)
	case t.Kind() == reflect.Slice:
		return "list of " + describe(t.Elem(), nil)
	case t.Kind() == reflect.Map:
		return "names, each with a " + describe(t.Elem(), nil)
	}
	return "mapping"
}

// A schema is a part of a JSON Schema.
type schema map[string]any

func anyOf(list ...schema) schema { return schema{"anyOf": list} }

// referencePattern matches text with a reference in it, which may stand for anything.
const referencePattern = `\$\{`

var reference = schema{"type": "string", "pattern": referencePattern}

// Schema returns the JSON Schema (2020-12) of our own format.
func Schema() []byte {
	b := &schemaBuilder{defs: schema{}}
	root := b.object(reflect.TypeFor[File]())
	properties := root["properties"].(schema)
	properties["$schema"] = schema{"type": "string", "description": "For editors."}
	properties["mcpServers"] = schema{
		"type": "object", "description": "Servers as other programs write them.",
		"additionalProperties": schema{"type": "object"},
	}
	root["patternProperties"] = schema{"^x-": true}
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
type schemaBuilder struct{ defs schema }

func (b *schemaBuilder) object(t reflect.Type) schema {
	properties := schema{}
	for _, k := range objectOf(t).keys {
		s := b.value(k.typ, k)
		s["description"] = k.doc
		if k.def != "" {
			s["description"] = k.doc + " Default: " + k.def + "."
		}
		properties[k.name] = s
	}
	s := schema{"type": "object", "properties": properties, "additionalProperties": false}
	if t == reflect.TypeFor[Server]() {
		s["oneOf"] = []schema{{"required": []string{"command"}}, {"required": []string{"url"}}}
	}
	return s
}

// value returns the schema of a type. Our own reading is more lenient than JSON
// Schema can say; what it accepts there is what should be written.
func (b *schemaBuilder) value(t reflect.Type, k key) schema {
	switch {
	case t == durationType:
		pattern := `^([0-9.]+(ns|us|µs|ms|s|m|h))+$|^0$|` + referencePattern
		if k.none != "" {
			pattern = "^none$|" + pattern
		}
		return schema{"type": "string", "pattern": pattern}
	case t == sizeType:
		return schema{"type": "string", "pattern": `^[0-9.]+ ?(B|[KMGT]iB|[kKMGT]B)$|` + referencePattern}
	case t == rateType:
		return schema{"type": "string", "pattern": `^[0-9]+ ?/ ?(s|m|h)$|` + referencePattern}
	case t == transportType:
		words := []string{"streamable-http", "streamableHttp", "streamable_http", "http+sse", "websocket"}
		return anyOf(schema{"enum": slices.Concat(k.enum, words)}, reference)
	case t.Kind() == reflect.String && k.enum != nil:
		return anyOf(schema{"enum": k.enum}, reference)
	case t.Kind() == reflect.String:
		return schema{"type": []string{"string", "number", "boolean"}}
	case t.Kind() == reflect.Bool:
		return anyOf(schema{"type": "boolean"}, reference)
	case t.Kind() == reflect.Int:
		return anyOf(schema{"type": "integer", "minimum": 0}, reference)
	case t.Kind() == reflect.Pointer:
		return b.value(t.Elem(), k)
	case t.Kind() == reflect.Slice:
		items := b.value(t.Elem(), key{})
		list := schema{"type": "array", "items": items}
		if k.one {
			return anyOf(list, items)
		}
		return list
	case t.Kind() == reflect.Map:
		s := schema{"type": "object", "additionalProperties": b.value(t.Elem(), key{})}
		if under(t) != nil && !k.like {
			s["propertyNames"] = schema{"pattern": goodName().String()}
		}
		return s
	}
	return b.define(t)
}

// define puts a struct among the definitions, and returns a reference to it.
func (b *schemaBuilder) define(t reflect.Type) schema {
	name := strings.ToLower(t.Name()[:1]) + t.Name()[1:]
	if b.defs[name] == nil {
		b.defs[name] = true // it may lead to itself
		s := b.object(t)
		if short := objectOf(t).short; short != nil {
			s = anyOf(b.value(short.typ, *short), s)
		}
		b.defs[name] = s
	}
	return schema{"$ref": "#/$defs/" + name}
}
