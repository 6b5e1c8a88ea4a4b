// Package streamable carries MCP over Streamable HTTP, in every revision that has it: with
// sessions and resumable streams from 2025-03-26 to 2025-11-25, and without either in
// 2026-07-28.
//
//	http.Handle("/mcp", &streamable.Server{Sessions: acceptor, Requests: peer})          // a server
//	conn, err := (&streamable.Client{URL: "https://mcp.example.com/mcp"}).Dial(ctx, nil) // a client
//
// A [Server] is an http.Handler that serves both eras on one URL. The body of a request
// decides which one the client means; a header that disagrees is refused. A [Client] is a
// Dialer that finds out what the server speaks: by server/discover, else initialize, else a
// GET that HTTP+SSE answers.
//
// A request is one Call on the goroutine of its connection. Its response is JSON, unless
// something else is sent before it, or nothing for 15 seconds: then an event stream. In a
// session the stream is logged (package eventlog) and served from the log, one connection at a
// time. So a slow reader delays only its own connection, and a lost connection does not cancel
// the request; in the modern era it does. What belongs to no request goes to the stream that
// the client opens by GET.
//
// A server checks the headers that repeat arguments of a tool call by the caller's list of
// tools. It is kept as long as the list says, or 30 s, fetched once for all that wait, and
// again before a call is refused. Without any list the call gets −31001.
//
// A Client gets a response on the stream of its request, on another one of the session, or on
// the stream that resumes its own. If that is impossible the call ends with −31003. A request
// of a legacy server goes to the caller on whose stream it comes while the call is in flight,
// else to the local peer. Status 404 for the session ends the connection: the request that got
// it was not carried out, others in flight have half a second to be answered or refused too.
//
// Limits that have no field:
//
//	bytes of a stream not yet      4 MiB, or one        notifications are dropped,
//	written to a connection        larger message       server requests wait
//	resumable streams of a         those in flight, up  status 400 with the reason, never
//	session                        to 64 with ended     a stream with a gap
//	                               ones
//	list of tools                  1,000 pages,         −31001
//	                               16 MiB, 5 s
//	lists that are kept            1,024 callers,       all are forgotten
//	                               64 MiB
//	session id of a server         1,024 visible ASCII  initialize fails
//	event id to resume after       8 KiB                the stream is not resumed
//	client: responses, cancels     5 more attempts,     given up
//	after a network error          10 s each, 1 min
//	client: stream that has        read for 1 s, 64 at  its connection is closed
//	brought its response           a time
package streamable

// The files of the server, in the order in which to read them:
//
//	server.go    options, and which era a request belongs to
//	modern.go    requests of the modern era
//	headers.go   their headers, which repeat parts of the body
//	legacy.go    POST, GET and DELETE of the legacy era
//	session.go   a session of the legacy era
//	answer.go    the answer to a POST: JSON or an event stream
//	stream.go    an event stream, which may be resumed
//	context.go   the context of a request
//	takeover.go  sessions that an earlier Server has opened
//	refusal.go   requests that are refused, and HTTP statuses
//
// And of the client:
//
//	client.go          options
//	client_conn.go     a conversation
//	client_call.go     one request in flight
//	client_modern.go   what a request of the modern era needs besides
//	client_stream.go   the event stream that a request is answered by
//	client_receive.go  messages that come from the server
//	client_send.go     HTTP requests, and the queue of notifications
//	client_session.go  a session of the legacy era, and its background stream
//	probe.go           which era and transport a server speaks
