// Package jsonschema checks arguments against JSON Schema: 2020-12, or what $schema
// names, from draft 4 on. It loads nothing from anywhere, so a schema that refers to
// another document is one that cannot be compiled, and such are not checked.
//
// Not checked either is a value where that gets to $dynamicRef, $recursiveRef or the
// schemas of schemas, or takes more than [MaxSteps]. format and content keywords are
// annotations in all dialects. A pattern that Go's expressions cannot say is left out.
package jsonschema
