package adapt

import (
	"bytes"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// form adapts the form of an elicitation to a revision whose forms are plain:
// texts, numbers, booleans with a default, and one choice of several words that
// may have names. What the user can answer stays an answer to the form as the
// server wrote it, because a plain form only offers less.
func (r Route) form(e *dragoman.Edit, schema []byte) *dragoman.Error {
	var refusal *dragoman.Error
	now := edited(schema, func(name string, value []byte) []byte {
		if name != "properties" {
			return value
		}
		return edited(value, func(name string, value []byte) []byte {
			plain, reason := plainField(value)
			if plain == nil {
				refusal = r.unsupported(protocol.CodeInvalidParams, "show field %q of the form: %s", name, reason)
				return value
			}
			return plain
		}, nil)
	}, nil)
	set(e, "requestedSchema", schema, now)
	return refusal
}

// plainField returns a field of a form as plain forms have it, or nil and why
// there is none.
func plainField(schema []byte) (plain []byte, reason string) {
	if !dragoman.IsObject(schema) {
		return nil, "its schema is not an object"
	}
	kind := dragoman.MemberText(schema, "type")
	switch kind {
	case "string", "number", "integer", "boolean":
	case "array":
		return nil, "it asks for several choices at once"
	default:
		return nil, "it is neither a text, a number, a boolean nor a choice"
	}
	var choices []byte
	if list := dragoman.Member(schema, "oneOf"); list != nil {
		if choices = enumeration(list); choices == nil {
			return nil, "its choices are not all words"
		}
	}
	return edited(schema, func(name string, value []byte) []byte {
		switch name {
		case "default":
			if kind != "boolean" {
				return nil
			}
		case "oneOf":
			return nil
		case "enum", "enumNames":
			if choices != nil {
				return nil
			}
		}
		return value
	}, choices), ""
}

// enumeration returns choices with titles as the members enum and enumNames, or
// nil if one of them is no word.
func enumeration(list []byte) []byte {
	var values, names [][]byte
	for _, item := range dragoman.Items(list) {
		value := dragoman.Member(item, "const")
		if _, ok := dragoman.Text(value); !ok {
			return nil
		}
		name := dragoman.Member(item, "title")
		if _, ok := dragoman.Text(name); !ok {
			name = value
		}
		values, names = append(values, value), append(names, name)
	}
	if values == nil {
		return nil
	}
	comma := []byte(",")
	return join(`"enum":[`, bytes.Join(values, comma), `],"enumNames":[`, bytes.Join(names, comma), `]`)
}
