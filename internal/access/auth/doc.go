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
// A token is parsed once, and what was parsed is what is verified. Names that occur twice,
// other spellings of base64 and trailing data are refused. Checked in this order: shape,
// issuer (byte for byte), algorithm, crit and typ, times, all other claims, signature. Keys in
// the header are ignored; none and shared secrets do not exist; a key fits one family of
// algorithms. DPoP-bound tokens are refused, because nothing here verifies the binding, and so
// are ID and refresh tokens that can be recognized.
//
// Keys are fetched with the first token, once for all that wait, and used while they are
// refreshed. An unknown key id fetches them too; if that fails, the result is 503.
//
//	a token; nesting of its JSON           8 KiB; 16               401
//	values of a claim; one of them         256; 512 bytes          401: a cut list might lack
//	                                                               the group that is denied
//	age of keys until a refresh; if that   10 min; 1 h             503
//	fails
//	pause between fetches of keys          10 s                    401 for unknown keys, 503 if
//	                                                               the last fetch failed
//	request to an issuer; all for keys     5 s; 10 s               503
//	document; keys in it                   1 MiB; 256              503
//	RSA keys                               2,048 to 8,192 bits     ignored
//	keys tried for a signature             8                       401
//	tokens that introspection refused      16,384, for 10 s        some are forgotten
//	introspections at a time               64                      others wait 10 s; 503
package auth
