// Package httpframe holds what HTTP servers and clients share: the framing of requests, the
// headers that mirror parts of a message, request ids, bodies with a limit, and timeouts
// that are all equally long and need one timer ([Timeouts]).
//
// A [Conn] refuses requests that two readers could take for different ones, or for
// different numbers of them: net/http reads most of these in its own way and does not tell
// its handlers. A proxy in front of the server, which lets some requests through and others
// not, may have read them differently. So this is refused:
//
//   - Content-Length together with Transfer-Encoding, or either of them twice
//   - Transfer-Encoding in HTTP/1.0
//   - a line that ends with a bare LF, and a CR within a line
//   - a header field that continues on the next line, or has a space before the colon
//   - a Content-Length that is not decimal digits, a chunk size that is not hexadecimal
//   - Content-Length, Transfer-Encoding and Host in a trailer
//   - a target in absolute form whose host is not that of the Host field
//
// Nothing is read behind such a line. In a head, net/http answers with status 400 and
// closes; in a body, reading the body fails. Because every deadline of the server passes
// here, those that nobody waits for are left out.
package httpframe
