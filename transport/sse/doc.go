// Package sse carries MCP over HTTP with server-sent events, the HTTP transport of the first
// revision, which Streamable HTTP has replaced. [Server] serves old clients, [Client] reaches
// old servers.
//
//	server := &sse.Server{Acceptor: acceptor}
//	http.Handle("/sse", server.Stream())
//	http.Handle("/messages", server.Messages())
//
//	conn, err := (&sse.Client{URL: "https://mcp.example.com/sse"}).Dial(ctx, nil)
//
// A client opens an event stream by GET. Its first event, endpoint, names the URL that takes
// the client's messages, one POST each; all messages of the server come as message events. The
// session ends with the stream. A client is given to the Acceptor with its first message, so a
// stream that is only listened to costs no server.
//
// A POST to a session gets 202, also if its message is refused: the error goes to the stream,
// because clients take another status for the end of the session. Modern requests get −32022,
// which names the other revisions, so that clients that negotiate fall back to initialize.
//
// There is a variant without endpoint and session: a message that is posted without a session
// is answered in the response body, and notifications of the server come on any event stream
// that the caller has open. Server serves both, distinguished by the session in the URL;
// Client speaks the variant if Sync is set and the server names no endpoint. Each caller has
// one connection of this kind. Its first message opens it, with a handshake of our own if it
// is no initialize; the next initialize replaces it.
//
// A Client sends each kind of message from a queue of its own, because servers of the Java SDK
// answer a POST only when they are done with the message. Order is kept where it matters:
// nothing follows initialize or notifications/initialized before their POST is answered; a
// cancellation follows its request, and a response follows its progress. The endpoint must
// have the same origin.
//
// Limits, by default:
//
//	messages of a session that are       16, one of them over 256 KiB;  503, −31004
//	not yet read                         5 s
//	unread notifications of a caller     1,024 or 4 MiB                 503, −31004
//	without session
//	unused connection without session    5 min                          it ends
//	one write                            30 s                           the session ends (ErrSlow)
//	client: wait for the endpoint        10 s                           Dial fails
//	client: POSTs at a time              16 requests, 16 responses,     the rest wait
//	                                     16 cancels, 1 progress or
//	                                     log, 1 other; 30 s each
//	client: queued messages              1,024 per kind; 4 MiB          requests get ErrOverloaded,
//	                                                                    responses wait, notifications
//	                                                                    are dropped
//	client: queued at Close              2 s                            not sent
package sse
