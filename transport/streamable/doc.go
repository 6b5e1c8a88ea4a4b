// Package streamable carries MCP over Streamable HTTP, in every revision that
// has it: with sessions and resumable streams from 2025-03-26 to 2025-11-25,
// and without either in 2026-07-28.
//
//	http.Handle("/mcp", &streamable.Server{Sessions: acceptor, Requests: peer})          // a server
//	conn, err := (&streamable.Client{URL: "https://mcp.example.com/mcp"}).Dial(ctx, nil) // a client
//
// A [Server] is an http.Handler that serves both eras on one URL.
// What a client sends says which it speaks. A [Client] is a Dialer that finds
// out what the server speaks.
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
//	client_call.go     one request under way
//	client_modern.go   what a request of the modern era needs besides
//	client_stream.go   the event stream that a request is answered by
//	client_receive.go  messages that come from the server
//	client_send.go     HTTP requests, and the queue of notifications
//	client_session.go  a session of the legacy era, and its background stream
//	probe.go           which era and transport a server speaks
