// Package httpserver is the HTTP server below every transport and endpoint. It owns listeners,
// TLS, HTTP/2 and what handlers share: the checks of Host and Origin, CORS, bodies, refusals,
// negotiation and forwarded addresses. The commands use [Server]; the transports use [Base],
// which each of their handlers stands on.
//
//	socket ─▶ handshake, 5 s ─┬─ h2 ─▶ framed ──────────────────────────────▶ net/http
//	socket without TLS ───────┴──────▶ httpframe ─▶ fastpost ─┬─ small POSTs ─▶ handler
//	                                                          └─ all else ────▶ net/http
//
//	request ─▶ Host, Origin ─▶ CORS ─▶ room ─▶ Caller ─▶ transport ─▶ response or Refusal
//
// A handshake has its own goroutine, so accepting never waits. net/http reads HTTP/2 from a
// connection that looks unencrypted to it: framed checks the frames first and bounds what
// net/http does not. Every request has its TLS field set, with the certificate of the client
// if one was requested. A certificate is read again when its files change, with new session
// ticket keys, so a removed CA ends the resumption of sessions too.
//
// A Endpoint whose requests are connections (HTTP+SSE, WebSocket) learns of a Shutdown when it
// begins. Shutdown answers new requests with 503 and waits until its context ends; then
// requests in flight get 0.4 s to be answered with −31003, then clients that do not read are
// cut, and it returns after 0.5 s at most. A response is begun once and never written without
// a deadline. A handler that panics is logged; its client gets 500, or a cut connection if the
// response had begun.
//
// Options follow one rule: zero is the default, negative means no limit.
//
// Limits that docs/limits.md does not have:
//
//	remainder of a refused request             5 s            the connection ends
//	responses that are compressed              from 16 KiB, and not to loopback
//	HTTP/2: preface, a frame without data,     5 s            the connection ends
//	or the headers of several frames
//	HTTP/2: streams of a connection            256            refused
//	HTTP/2: streams waiting behind resets      1,024          the connection ends
//	HTTP/2: resets by the client               1,000 in 10 s  the connection ends
//	HTTP/2: frames that carry nothing          2,000 in 10 s  the connection ends
//	HTTP/2: frame; unread bytes of a stream;   64 KiB;        an error;
//	of a connection                            256 KiB; 1 MiB the client waits
//	HTTP/2: header table                       4 KiB          entries are evicted
//	HTTP/2: silence, then no response to ping  15 s, 10 s     the connection ends
//	HTTP/2: a blocked write                    30 s           the connection ends
package httpserver
