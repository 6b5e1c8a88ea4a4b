// Package protocol holds the vocabulary of the Model Context Protocol as data:
// one table of its revisions and what each allows, the names of methods,
// headers, _meta members and error codes, and the checks of tool requests,
// responses and errors.
//
//	rev := protocol.ParseRevision("2025-03-26")
//	rev.Era()      // legacy
//	rev.HasBatch() // true
//
// It is the only package that compares revisions. All others ask a [Revision]
// a question with a name, so a new revision is a new row.
package protocol
