// Package httpserver is the HTTP server below every transport and endpoint. It accepts
// connections, secures them, serves HTTP/1.1 that can be read in one way only and, over TLS,
// HTTP/2; and it holds what the handlers share: the checks of Host and Origin, the reading
// of bodies, refusals, negotiation and forwarded addresses.
//
//	socket ─▶ handshake, 5 s ─┬─ h2 ─▶ framed ──────────────────────────────▶ net/http
//	socket without TLS ───────┴──────▶ httpframe ─▶ fastpost ─┬─ small POSTs ─▶ handler
//	                                                          └─ all else ────▶ net/http
//
// Every request has its TLS field set, with the certificate of the client if one was
// requested.
package httpserver
