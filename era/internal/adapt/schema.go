package adapt

import (
	"strings"

	"github.com/dragoman-mcp/dragoman"
)

// objectSchema returns the schema of a tool's structured output as one whose
// root is of type object, for clients that take nothing else. It accepts what
// the tool returns after [Route.Response] has wrapped the values that are no
// objects:
//
//   - a schema that only accepts objects gets the type at its root;
//   - one that accepts no object becomes the property "result" of one;
//   - of one that accepts both, either form is accepted.
func objectSchema(schema []byte) []byte {
	if kind, _ := dragoman.Text(dragoman.Member(schema, "type")); kind == "object" {
		return schema
	}
	// A dialect is named at the root of a document only.
	head := []byte("{")
	if dialect := dragoman.Member(schema, "$schema"); dialect != nil {
		head = join(`{"$schema":`, dialect, `,`)
	}
	switch (&schemaChecker{root: schema, left: maxParts}).accepts(schema) {
	case onlyObjects:
		return edited(without(schema, "type"), keep, []byte(`"type":"object"`))
	case noObjects:
		return join(head, `"type":"object","properties":{"result":`, moved(schema, "#/properties/result"), `},"required":["result"]}`)
	}
	const value = "#/$defs/value"
	return join(head, `"type":"object","anyOf":[{"$ref":"`, value, `"},{"properties":{"result":{"$ref":"`, value, `"}},"required":["result"]}],`,
		`"$defs":{"value":`, moved(schema, value), `}}`)
}

func keep(_ string, value []byte) []byte { return value }

// moved returns a schema that was the root of a document as it must be written
// further down in another one, at the place: references to its own parts are
// rewritten. One that has an id is a document of its own wherever it stands.
func moved(schema []byte, place string) []byte {
	if dragoman.Member(schema, "$id") != nil {
		return schema
	}
	return rewritten(without(schema, "$schema"), place)
}

// rewritten returns a part of a schema with its references moved to place.
func rewritten(schema []byte, place string) []byte {
	inner := func(_ string, value []byte) []byte {
		if dragoman.Member(value, "$id") != nil {
			return value
		}
		return rewritten(value, place)
	}
	return edited(schema, func(name string, value []byte) []byte {
		switch name {
		case "$ref", "$dynamicRef":
			if ref, ok := dragoman.Text(value); ok && (ref == "#" || strings.HasPrefix(ref, "#/")) {
				return dragoman.Quote(place + ref[1:])
			}
		case "const", "enum", "default", "examples", "required":
			// Values, which may look like schemas.
		case "properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions":
			return edited(value, inner, nil)
		default:
			if dragoman.IsObject(value) {
				return inner("", value)
			}
			return mapped(value, func(value []byte) []byte { return inner("", value) })
		}
		return value
	}, nil)
}
