// Package schema checks arguments against JSON Schema: 2020-12, or what $schema
// names. It loads nothing from anywhere, so a schema that refers to another
// document is one that cannot be compiled, and such are not checked.
package schema
