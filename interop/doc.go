// Package interop holds tests against other implementations of MCP, as servers
// and as clients. It is a module of its own, so that what they depend on stays
// out of the main one.
//
// The peers in Go are built and run by go test. Those from npm and PyPI need
// node and python3: they sit behind the build tag npm, and `make interop`
// installs and runs them. Among them is an authorization server, at which also
// the tests in a real browser sign in (`make browser`).
package interop
