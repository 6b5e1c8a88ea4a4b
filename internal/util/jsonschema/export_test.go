package jsonschema

import (
	"crypto/sha256"
	"encoding/json"
)

// Len returns how many schemas are kept.
func (c *Checker) Len() int { return len(c.entries) }

// Has reports whether a schema is kept.
func (c *Checker) Has(text json.RawMessage) bool { return c.entries[sha256.Sum256(text)] != nil }

// Fits reports whether a value fits a schema, and whether that could be found out.
func Fits(schema, value json.RawMessage) (fits, checked bool) {
	n, err := compile(schema)
	if err != nil {
		return false, false
	}
	v, err := decode(value)
	if err != nil {
		return false, false
	}
	wrong, checked := validate(n, v)
	return wrong == nil, checked
}
