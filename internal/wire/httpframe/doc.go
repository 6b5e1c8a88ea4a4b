// Package httpframe holds what HTTP servers and clients share: the framing of requests, the
// headers that mirror parts of a message, request ids, bodies with a limit, and timeouts of
// equal length that need one timer ([Timeouts]). Package httpserver serves connections through
// its [Conn].
//
// A Conn refuses requests that two readers could take for different ones. net/http reads most
// of these in its own way and does not report them to handlers; a proxy in front of the
// server, which admits some requests and not others, may have read them differently:
//
//   - Content-Length together with Transfer-Encoding, or either of them twice
//   - Transfer-Encoding in HTTP/1.0
//   - a line that ends with a bare LF, and a CR within a line
//   - a header field that continues on the next line, or has a space before the colon
//   - a Content-Length that is not decimal digits, a chunk size that is not hexadecimal
//   - Content-Length, Transfer-Encoding and Host in a trailer
//   - a target in absolute form whose host is not that of the Host field
//
// Nothing is read after such a line. In a head, net/http answers with status 400 and closes;
// in a body, reading the body fails. Bodies are followed, not kept, and after an upgrade
// nothing is checked.
//
// Every deadline of the server passes here and reaches the system only while somebody waits:
// of nine that net/http and a handler set per request, two. Over TLS write deadlines are set
// at once, because a write that was cut makes the connection useless.
package httpframe
