// Package authserver is the authorization server that MCP clients expect, in front of an
// identity provider that does not know them.
//
// MCP clients register by themselves, ask for tokens for one resource, and come back to any
// port of their machine. Few providers of a company let them. A [Server] does, and is itself one
// plain client of the provider, registered there by hand with one redirect URI:
//
//	client ─▶ authorize ─▶ consent ─▶ provider ─▶ callback ─▶ client ─▶ token
//
// Because the provider sees one client for all of ours, it cannot tell them apart and does
// not ask its user about each. We do, and see to it that the browser that comes back from the
// provider is the one that was asked. Tokens of the provider stay here, and tokens of ours
// open nothing there.
//
// What strangers can make us keep is nothing: a client that registers is told an id that
// holds, sealed, what it has registered, and a sign-in under way is in a cookie of its browser. What is
// kept is one record for each sign-in that has been completed.
package authserver
