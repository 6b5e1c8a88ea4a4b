// Package stdio carries MCP over byte streams: the standard streams of a child process
// ([Command]), our own ([Serve]), and TCP and Unix sockets ([Address], [Server]).
//
//	conn, err := (&stdio.Command{Path: "npx", Args: []string{"-y", "some-server"}}).Dial(ctx, nil) // a client
//	err := stdio.Serve(ctx, acceptor, nil)                                                         // a server
//
// A message is a line, or a frame with a Content-Length header as in the Language Server
// Protocol. A reader takes both and tells them apart by the first bytes of each message. A
// server answers in the framing that its client uses; a client writes lines unless configured.
// The end of a JSON object is found by parsing, so a wrong Content-Length is reported and does
// no harm. A socket closes when a client begins with an HTTP method: a web page could post
// lines of JSON to a port.
//
// A child has no shell, its own process group, and an environment of the variables that
// programs, installers and networks need. Closing a [Conn] closes its stdin, then sends
// SIGTERM and SIGKILL to the group, two seconds apart.
//
// On Linux, after [Guard], a child is started by its keeper: this executable again, as a
// process that adopts the child's descendants (PR_SET_CHILD_SUBREAPER) and waits on a pipe
// from us. When the pipe closes, also because we were killed, it kills what is left. The child
// dies with its keeper (PR_SET_PDEATHSIG). For limits or a sandbox this executable runs once
// more inside the child: it sets limits, changes the user and enters the sandbox on one
// thread, then executes the server. Other systems have less: Windows a job object, the rest
// the process group.
//
// On shutdown, a server of lines refuses new requests and reads on, because cancellations and
// responses to its own requests still count. It closes after the last response.
//
// Limits, beside those of requests and bytes in flight (1,024 and 4 MiB):
//
//	a line or frame              16 MiB, unless configured: skipped, and the call that it
//	                             was the response to fails with ErrTooLarge; at eight
//	                             times that the connection ends
//	one write to a socket        30 s: the connection ends with ErrSlow
//	requests in flight when our  30 s, then cancelled
//	standard input ends
//	requests in flight when      1 s, then answered with −31003
//	Serve is ended by its ctx
//	no file descriptors left     accepting is retried after 5 ms, doubling to 1 s
package stdio
