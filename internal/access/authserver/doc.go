// Package authserver is the authorization server that MCP clients expect, in front of an
// identity provider that does not know them. internal/gateway owns one [Server] and routes
// requests to it before it authenticates clients.
//
// MCP clients register by themselves, ask for tokens for one resource, and come back to any
// port of their machine. Few providers of a company allow that. A Server does, and is itself
// one plain client of the provider, registered there by hand with one redirect URI:
//
//	client ─▶ authorize ─▶ consent ─▶ provider ─▶ callback ─▶ client ─▶ token
//
// The provider sees one client for all of ours, so consent is asked for here, and the browser
// that comes back from the provider must be the one that consented. Tokens of the provider
// stay here, and our tokens are valid here only.
//
// Unauthenticated clients cannot make a Server store anything. A client id is the sealed
// registration, a sign-in in progress is a sealed cookie, a form carries its sealed request;
// each has a key of its own, derived from one. Only used states are remembered. Stored is one
// record per completed sign-in. Its id is part of all of its secrets, so that a stale code or
// token identifies the sign-in to end. Access tokens are opaque, because they are looked up
// anyway to be revocable. The next refresh token is a MAC of the last, so that a repeated
// refresh gets the same one. The provider's tokens are sealed with the newest secret of the
// sign-in, which is not stored.
//
// [ServerSignIns] are the sign-ins of users at upstream servers, in progress for five minutes
// at most; they outlive a Server. A user must not complete the sign-in of another one. So the
// page asks the provider who is in the browser, compares that with the principal, and asks for
// consent; the callback needs the cookie that the consent set. Each server has a redirect URI
// of its own, so the response of one authorization server cannot be taken for another's.
//
// Changes of one sign-in come one after another, also across requests to the provider; no lock
// is held meanwhile. The limits are in docs/letting-in.md.
package authserver
