// Package checklist shows the checklists of the first of the documents that the
// project began with, line by line and from the outside: through the public API
// of the transports and on the wire. It has tests only. What each line says and
// which function shows it stands in table_test.go.
package checklist
