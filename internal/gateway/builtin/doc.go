// Package builtin is an MCP server with every feature of the protocol, in
// both eras. It is what is served when no server is named, and what the tests
// of all other packages use.
//
// A [Server] has two doors. Accept takes a conversation, which may speak either
// era, or both. Requests takes single requests of the modern era. Neither
// starts goroutines: a request is served by the goroutine that brings it.
//
// Tools, prompts and resources are tables, and each of their handlers is written
// once for both eras. What differs between eras and revisions lies in one file
// each: session.go (legacy), modern.go, ask.go and rounds.go (questions to the
// client), content.go (what a revision can say).
package builtin
