// Package httpclient is the HTTP client below every transport: connections, proxy, TLS, Unix
// sockets, redirects, statuses and bodies as errors that say what to do, and the addresses
// that a URL which somebody else chose must not reach: this machine, its network, a cloud's
// metadata.
//
// A redirect is followed if it stays on its origin and keeps the method, ten times at most;
// any other is returned as it is. A status that is no success, and has no JSON-RPC error for a
// body, becomes a protocol.StatusError on every transport, with the first 256 bytes of the
// body, of which 64 KiB are read.
package httpclient
