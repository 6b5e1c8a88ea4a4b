// Package oidc sends the requests of OAuth and OpenID Connect: challenges and metadata of MCP
// servers and authorization servers, registrations, tokens, keys, documents of clients. It opens
// no browser. Packages oauth, auth and authserver use it.
//
// What servers publish is not trusted. A [Client] makes its requests for one server that the
// user has configured: an MCP server or an issuer. URLs are https, or http on this machine if
// that server is there too. Addresses are judged when they are dialed, and those that were
// judged are dialed: public ones are allowed, private ones if the server has a private or
// loopback address, loopback ones if it has a loopback one, reserved ones never. Without such
// a server, only public ones are. A request takes 5 seconds at most, one for tokens 30; a
// response has at most 1 MiB, its strings 8 KiB, tokens 64 KiB. A GET for metadata follows three
// redirects within its origin, all else none. No error repeats a secret that was sent.
//
// A token is parsed once ([ParseJWS]), and what was parsed is what is verified. Names that occur
// twice, other spellings of base64 and trailing data are refused. Keys in the header are ignored;
// none and shared secrets do not exist; a key fits one family of algorithms.
//
// A [KeySet] fetches keys with the first token, once for all that wait, and uses them while they
// are refreshed. An unknown key id fetches them too; if that fails, the token cannot be verified
// now (503), which is never a refusal (401).
//
//	a signed token; nesting of its JSON    8 KiB; 16               401
//	values of a claim; one of them         256; 512 bytes          401
//	age of keys until a refresh; if that   10 min; 1 h             503
//	fails
//	pause between fetches of keys          10 s                    401 for unknown keys, 503 if
//	                                                               the last fetch failed
//	all requests for keys; keys            10 s; 256               503
//	RSA keys                               2,048 to 8,192 bits     ignored
//	keys tried for a signature             8                       401
package oidc
