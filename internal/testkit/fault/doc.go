// Package fault is an MCP server that can misbehave in every way that servers do:
// the built-in server with one tool more for each fault. Tests of whole programs
// use it.
//
// A test binary is its own fault server. Its TestMain begins with
//
//	stdio.Guard()
//	fault.Main()
//
// and a server that is started with the environment of [Env] runs as one, on
// standard input and output, instead of the tests. [Server.Handler] is the same over
// HTTP, in the process of the test.
//
// What the tools do besides answering is written in a [Journal], which outlives
// the process: there a test sees how often a call was carried out.
package fault
