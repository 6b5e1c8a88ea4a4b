// Package auth authenticates clients. A [Policy] owns the credentials that are accepted:
// listed tokens, tokens that an issuer has signed ([JWT]) or knows ([Introspection]),
// certificates, and users of a Unix socket. The gateway calls [Policy.Caller] before it looks
// for a route; what it returns is the [dragoman.Caller] that everything else uses. Package
// rules then decides what the caller may use.
//
//	request ─▶ bearer token ─▶ remembered? ─▶ verifiers: listed, signed, introspected, issued here ─┐
//	           certificate, user of a socket ───────────────────────────────────────────────────────┴▶ audience, scopes ─▶ Caller
//
// A verified token is remembered by its digest, and verified again after 30 s and when the
// configuration changes. Streams without an end of their own are ended when that fails, or
// returns other rights (Caller.OnEnd): one timer per token that is watched, no goroutine.
//
// A verifier reports that a token is not of its kind, is invalid (401), or cannot be verified
// now (503, never a success). A JWT of a known issuer is judged by that issuer only, and a JWT
// of an unknown one is not sent to introspection. Both verifiers read claims by the same code.
//
// Package oidc parses tokens, reads claims, holds the keys of issuers and makes all requests. A token
// is checked in this order: shape, issuer (byte for byte), algorithm, crit and typ, times, all other
// claims, signature. ID and refresh tokens that can be recognized are refused, and so are
// DPoP-bound ones, because nothing here verifies the binding.
//
//	a token                                8 KiB                   401
//	tokens that introspection refused      16,384, for 10 s        some are forgotten
//	introspections at a time               64                      others wait 10 s; 503
package auth
