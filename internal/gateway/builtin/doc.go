// Package builtin is an MCP server with every feature of the protocol, in both eras. The
// commands serve it when no server is named, and the tests of all packages use it.
//
// Accept of a [Server] takes a connection, of either era or both; Requests takes single modern
// requests. A request is served by the goroutine that brings it. The modern era is that of
// [era.FromMethods]. The legacy era is served without its translation, so that tests of
// translations have something to compare with.
//
// Tools, prompts and resources are tables, and each of their handlers is written once for both
// eras. What differs between eras and revisions is in one file each: session.go (legacy),
// ask.go (requests to the client), tools_content.go (content by revision).
package builtin
