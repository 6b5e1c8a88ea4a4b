// Package interop holds tests against other implementations of MCP, as servers
// and as clients. It is a module of its own, so that what they depend on stays
// out of the main one.
//
// A peer is a row of a table: [way] for a client with the built-in server, [foreign] for a server
// with our client, [crossKind] for both with the bridge in between. A feature is one function that
// is used with all of them. What is special to one peer is a test of its own.
//
// The peers in Go are built and run by go test. Those from npm and PyPI need
// node and python3: they sit behind the build tag npm, and `make interop`
// installs and runs them. Among them is an authorization server, at which also
// the tests in a real browser sign in (`make browser`).
package interop
