// Package sse carries MCP over HTTP with server-sent events, the HTTP transport
// of the first revision, which Streamable HTTP has replaced. Use it for
// what still speaks nothing else: [Server] serves old clients, [Client] reaches old
// servers.
//
//	server := &sse.Server{Acceptor: acceptor}
//	http.Handle("/sse", server.Stream())
//	http.Handle("/messages", server.Messages())
//
//	conn, err := (&sse.Client{URL: "https://mcp.example.com/sse"}).Dial(ctx, nil)
//
// A client opens an event stream by GET. Its first event, endpoint, names the
// URL that takes the client's messages, one POST each; the server's messages,
// answers included, come as message events. The session ends with the stream.
//
// Beside it stands a simpler variant, without endpoint and session: a message
// that is posted without a session is answered in the body of the response, and
// notifications of the server come on any event stream that the caller has open.
// [Server] serves both at once, distinguished by the session in the URL;
// [Client] speaks it if Sync is set and the server names no endpoint.
//
// Modern revisions are not defined on this transport: their requests are answered
// with an error that names the others, after which clients that negotiate fall back
// to initialize. It has no batches.
//
// The limits: sessions, and the size of a message, by number; what waits to be
// written to a client by bytes (docs/design.md has the numbers); a client that
// does not read is disconnected by a deadline for each write. A POST that finds too many
// others of its session waiting is refused after five seconds. A client's POSTs are
// bounded for each kind of message, so that no kind keeps another from being sent.
package sse
